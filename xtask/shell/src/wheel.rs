//! Packages of the Python registry: pinned by version and checksum, fetched by pip.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::digest;
use crate::shell::Shell;

/// One file of a package.
pub struct Wheel {
    /// Name and version, as pip takes them.
    pub package: &'static str,
    /// The architecture as Rust names it.
    pub arch: &'static str,
    pub platform: &'static str,
    pub sha256: &'static str,
}

impl Wheel {
    /// The one for this machine.
    pub fn of_this_machine(wheels: &'static [Self]) -> Option<&'static Self> {
        wheels.iter().find(|wheel| wheel.arch == std::env::consts::ARCH)
    }

    /// Fetches it into the folder `work`, makes sure that it is the file that was reviewed, and
    /// unpacks it into the folder that is returned.
    pub async fn unpack(&self, shell: &mut Shell, work: &Path) -> Result<PathBuf> {
        let file = self.download(shell, work).await?;
        verify(&file, self.package, self.sha256)?;
        let unpacked = work.join("unpacked");
        let mut unpack = Command::new("python3");
        unpack.args(["-m", "zipfile", "--extract"]).arg(&file).arg(&unpacked);
        shell.run(unpack).await?;
        Ok(unpacked)
    }

    async fn download(&self, shell: &mut Shell, into: &Path) -> Result<PathBuf> {
        // What is taken out is the same for every Python, so the machine's own version does not matter.
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"])
            .args(["--disable-pip-version-check", "--no-input", "--progress-bar", "off"])
            .args(["--implementation", "cp", "--python-version", "311", "--abi", "cp311"])
            .args(["--platform", self.platform, "--dest"])
            .arg(into)
            .arg(self.package);
        shell.run(pip).await.with_context(|| {
            let (package, into) = (self.package, into.display());
            format!(
                "cannot fetch {package}; is there a way to the Python registry, and room in {into}?"
            )
        })?;
        let mut files = fs::read_dir(into)?.filter_map(|entry| Some(entry.ok()?.path()));
        let is_wheel =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
        files.find(is_wheel).context("pip downloaded no wheel")
    }
}

/// Makes sure that `file` is the one that was reviewed.
pub fn verify(file: &Path, package: &str, sha256: &str) -> Result<()> {
    let found = digest::sha256(&fs::read(file)?);
    if found != sha256 {
        bail!(
            "the downloaded {package} has the SHA-256 {found} instead of {sha256}: it is not the \
             file that was reviewed, and nothing of it was used"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_which_one_byte_is_changed_is_refused() {
        // The example of the standard, FIPS 180-2.
        let reviewed = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("postgres.whl");
        fs::write(&file, "abc").unwrap();
        verify(&file, "postgres==17", reviewed).unwrap();

        fs::write(&file, "abd").unwrap();
        let refused = verify(&file, "postgres==17", reviewed).unwrap_err().to_string();
        let found = digest::sha256(b"abd");
        let named = format!("postgres==17 has the SHA-256 {found} instead of {reviewed}");
        assert!(refused.contains(&named), "{refused}");
    }
}
