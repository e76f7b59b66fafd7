//! Where buildah keeps what it makes: a folder of ours in the cache, apart from the machine's own images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::output_of;

/// The drivers, best first: overlay shares files between layers, vfs copies them and works everywhere.
const DRIVERS: [&str; 2] = ["overlay", "vfs"];

pub(super) struct Storage {
    folder: PathBuf,
    driver: &'static str,
}

impl Storage {
    /// The storage `name` in `folder`, without what an interrupted build left behind.
    pub(super) fn open(folder: &Path, name: &str) -> Result<Self> {
        let mut failure = None;
        for driver in DRIVERS {
            let storage = Self { folder: folder.join(format!("{driver}-{name}")), driver };
            match output_of(storage.buildah().args(["rm", "--all"])) {
                Ok(_) => return Ok(storage),
                Err(error) => {
                    fs::remove_dir_all(&storage.folder).ok();
                    failure = Some(error);
                }
            }
        }
        Err(failure.context("no driver")?).context("buildah cannot store images on this machine")
    }

    /// `buildah` on this storage. Steps of a Dockerfile run in a chroot: there is no container here
    /// to protect the machine from, and none to be had inside of one.
    pub(super) fn buildah(&self) -> Command {
        let mut command = Command::new("buildah");
        command
            .env("BUILDAH_ISOLATION", "chroot")
            .arg("--root")
            .arg(self.folder.join("images"))
            .arg("--runroot")
            .arg(self.folder.join("run"))
            .args(["--storage-driver", self.driver]);
        command
    }

    pub(super) fn has(&self, image: &str) -> bool {
        let mut command = self.buildah();
        output_of(command.args([
            "inspect",
            "--type",
            "image",
            "--format",
            "{{.FromImageID}}",
            image,
        ]))
        .is_ok()
    }

    /// Lets go of layers that no named image is built on.
    pub(super) fn prune(&self) -> Result<()> {
        output_of(self.buildah().args(["rmi", "--prune"])).map(drop)
    }

    /// Removes every image and the folder.
    pub(super) fn remove(&self) -> Result<()> {
        output_of(self.buildah().args(["rm", "--all"]))?;
        output_of(self.buildah().args(["rmi", "--all", "--force"]))?;
        fs::remove_dir_all(&self.folder)
            .with_context(|| format!("cannot remove {}", self.folder.display()))
    }
}
