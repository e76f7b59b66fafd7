//! The folder that an image is built from: `target/images/NAME`, which docker takes as well.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{Shell, output_of};
use crate::workspace::root;

use super::catalogue::{Fetched, Image, Program};
use super::rust::{self, Profile};
use super::{base, fetched, glibc};

/// Lays out the folder anew.
pub(super) async fn lay_out(shell: &mut Shell, image: &Image, profile: Profile) -> Result<PathBuf> {
    let folder = root().join("target/images").join(image.name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    copy(&root().join("images").join(image.folder), &folder)?;
    fs::copy(root().join("LICENSE"), folder.join("LICENSE"))?;
    for fetched in image.fetched {
        let (name, tree) = match fetched {
            Fetched::Uv => ("uv", fetched::uv(shell).await?),
            Fetched::Node => ("node", fetched::node(shell).await?),
        };
        copy(&tree, &folder.join(name))?;
    }
    if let Some(program) = &image.program {
        take(program, profile, &folder.join(program.name))?;
    }
    Ok(folder)
}

/// Copies a program without what only a debugger reads.
fn take(program: &Program, profile: Profile, to: &Path) -> Result<()> {
    let from = rust::path(program, profile);
    output_of(Command::new("strip").arg("--strip-all").arg("-o").arg(to).arg(&from))?;
    let content = fs::read(to).with_context(|| format!("cannot read {}", to.display()))?;
    glibc::check(program.name, &content, base::GLIBC)?;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let path = entry?.path();
        let copy_of = to.join(path.file_name().unwrap_or_default());
        if path.is_symlink() {
            symlink(fs::read_link(&path)?, copy_of)?;
        } else if path.is_dir() {
            copy(&path, &copy_of)?;
        } else {
            fs::copy(&path, &copy_of).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
