//! The folder that an image is built from: `target/images/NAME`, which docker takes as well.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::workspace::root;
use xtask_shell::{Shell, output_of};

use super::catalogue::{Fetched, Image, Program};
use super::rust::{self, Profile};
use super::{base, fetched, glibc, switches};

/// Lays out the folder anew.
pub(super) async fn lay_out(shell: &mut Shell, image: &Image, profile: Profile) -> Result<PathBuf> {
    let folder = root().join("target/images").join(image.name);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    copy(&root().join("images").join(image.folder), &folder)?;
    copy(&root().join("LICENSE"), &folder.join("LICENSE"))?;
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
    if profile == Profile::Release {
        switches::check(program.name, &content)?;
    }
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(0o755))?)
}

/// Copies a file or a folder. Nothing but content and whether it is a program is taken along: an
/// image does not depend on who checked the tree out.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let about = || format!("cannot copy {} to {}", from.display(), to.display());
    let kind = from.symlink_metadata().with_context(about)?;
    if kind.is_symlink() {
        return symlink(fs::read_link(from)?, to).with_context(about);
    }
    if kind.is_dir() {
        fs::create_dir_all(to).with_context(about)?;
        for entry in fs::read_dir(from).with_context(about)? {
            let entry = entry?;
            copy(&entry.path(), &to.join(entry.file_name()))?;
        }
    } else {
        fs::copy(from, to).with_context(about)?;
    }
    let program = kind.is_dir() || kind.permissions().mode() & 0o100 != 0;
    Ok(fs::set_permissions(to, fs::Permissions::from_mode(if program { 0o755 } else { 0o644 }))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_does_not_depend_on_who_checked_the_tree_out() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        for (name, mode) in [("bin/run", 0o775), ("text", 0o664), ("secret", 0o600)] {
            fs::write(from.join(name), name).unwrap();
            fs::set_permissions(from.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        symlink("bin/run", from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        let check = |name: &str, mode: u32| {
            let metadata = fs::symlink_metadata(to.join(name)).unwrap();
            assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
        };
        check("bin", 0o755);
        check("bin/run", 0o755);
        check("text", 0o644);
        check("secret", 0o644);
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("bin/run"));
        assert_eq!(fs::read(to.join("text")).unwrap(), b"text");
    }
}
