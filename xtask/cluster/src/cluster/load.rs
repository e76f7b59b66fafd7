//! `cargo xtask cluster load`: hands archives of images to a running cluster.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use xtask_shell::{Shell, output_of};

use super::build::Programs;
use super::namespace::Namespaces;
use super::place::Place;
use super::{packages, pins};

pub(super) async fn run(shell: &mut Shell, place: &Place, archives: &[PathBuf]) -> Result<()> {
    packages::root()?;
    Namespaces::running(place)?;
    let ctr = Programs::obtain(shell, &[&pins::CONTAINERD]).await?.path("ctr")?;
    for archive in archives {
        for name in import(place, &ctr, archive)? {
            println!("loaded {name}");
        }
    }
    Ok(())
}

/// Hands an archive, of the OCI layout or of Docker's, to containerd. Returns the images' names.
pub(super) fn import(place: &Place, ctr: &Path, archive: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(ctr);
    command.args(["--address", &place.text("containerd/containerd.sock")]);
    // What containerd does by itself is told as progress, whose last lines may be missing.
    command.args(["--namespace", "k8s.io", "images", "import", "--local"]).arg(archive);
    let said =
        output_of(&mut command).with_context(|| format!("cannot import {}", archive.display()))?;
    let names: Vec<String> = String::from_utf8_lossy(&said).lines().filter_map(unpacked).collect();
    if names.is_empty() {
        bail!("{} names no image; give it a name where it is made", archive.display());
    }
    Ok(names)
}

/// The image of a line that tells of one.
fn unpacked(line: &str) -> Option<String> {
    let (name, _digest) =
        line.strip_prefix("unpacking ")?.strip_suffix(")...done")?.split_once(" (")?;
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_an_image_is_told_from_the_others() {
        let check = |line: &str, name: Option<&str>| {
            assert_eq!(unpacked(line).as_deref(), name, "{line}");
        };
        check(
            "unpacking localhost/famulus/runner:0.1.0-slim (sha256:89cd)...done",
            Some("localhost/famulus/runner:0.1.0-slim"),
        );
        check("unpacking localhost/famulus/runner:0.1.0-slim (sha256:89cd)...", None);
        check("level=warning msg=\"unpacking (it)...done\"", None);
        check("", None);
    }
}
