//! Where builds have packages from, instead of the public indexes. Nothing else is told of it.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use famulus_protocol::revision::BuildFailure;

use crate::error::{MachineError, StepError};
use crate::folders::{PluginFolders, own, remove};

/// As pip, uv and git read them, and as npm does.
const FILES: [&str; 2] = ["netrc", "npmrc"];

/// Where a build finds the credentials.
pub(crate) const CREDENTIALS: &str = "/famulus/packages";

/// The owner's own indexes. Their addresses hold no password.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// An index of Python packages.
    pub python: Option<String>,
    /// A registry of npm.
    pub npm: Option<String>,
    /// The hosts of both, with their ports: builds reach them although they may be private.
    pub hosts: Vec<String>,
    /// A folder with the credentials for them: `netrc`, `npmrc`, or both.
    pub credentials: Option<PathBuf>,
}

impl Packages {
    /// What the runner of a build is told.
    pub(crate) fn variables(&self) -> Vec<(&'static str, String)> {
        let credentials = self.credentials.as_ref().map(|_| CREDENTIALS.to_owned());
        let all = [
            ("PACKAGES_PYTHON", self.python.clone()),
            ("PACKAGES_NPM", self.npm.clone()),
            ("PACKAGES_CREDENTIALS", credentials),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Copies the credentials for the plugin's user, who cannot read the owner's.
    pub(crate) fn give_credentials(
        &self,
        folders: &PluginFolders,
        user: Option<u32>,
    ) -> Result<(), StepError> {
        let Some(from) = &self.credentials else { return Ok(()) };
        let folder = credentials_copy(folders);
        remove(&folder)?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(MachineError::folder(&folder))?;
        let mut found = false;
        for name in FILES {
            let bytes = match fs::read(from.join(name)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    return Err(failed(format!("{} cannot be read: {error}", path(from, name))));
                }
            };
            let copy = folder.join(name);
            let written = OpenOptions::new().write(true).create_new(true).mode(0o400).open(&copy);
            let written = written.and_then(|mut file| file.write_all(&bytes));
            written.map_err(MachineError::folder(&copy))?;
            own(&copy, user)?;
            found = true;
        }
        own(&folder, user)?;
        if found {
            return Ok(());
        }
        let [netrc, npmrc] = FILES.map(|name| path(from, name));
        Err(failed(format!("neither {netrc} nor {npmrc} is there")))
    }

    /// Removes the copy.
    pub(crate) fn remove_credentials(&self, folders: &PluginFolders) -> Result<(), MachineError> {
        match self.credentials {
            Some(_) => remove(&credentials_copy(folders)),
            None => Ok(()),
        }
    }
}

/// The copy, which no sandbox but that of a build sees.
pub(crate) fn credentials_copy(folders: &PluginFolders) -> PathBuf {
    folders.order().join("packages")
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

fn failed(why: String) -> StepError {
    let message = format!(
        "there are no credentials for the package index: {why}; correct that or \
         `plugins.packages.credentials`, and permit the plugin again"
    );
    StepError::Failed(BuildFailure { reason: "BuildFailed".to_owned(), message })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::folders::Folders;

    #[test]
    fn a_copy_of_the_credentials_is_there_until_it_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let folders = Folders::new(place.path()).of("6d1d3c1f4a10");
        fs::create_dir_all(folders.order()).unwrap();
        let from = place.path().join("credentials");
        let packages = Packages { credentials: Some(from.clone()), ..Packages::default() };
        let missing = packages.give_credentials(&folders, None).unwrap_err().to_string();
        assert!(missing.contains("credentials/netrc") && missing.contains("npmrc"), "{missing}");

        fs::create_dir(&from).unwrap();
        fs::write(from.join("netrc"), "machine a login b password c").unwrap();
        fs::write(from.join("other"), "of nobody's concern").unwrap();
        packages.give_credentials(&folders, None).unwrap();
        let names: Vec<_> = fs::read_dir(credentials_copy(&folders)).unwrap().collect();
        assert_eq!(names.len(), 1, "{names:?}");
        let copy = credentials_copy(&folders).join("netrc");
        assert_eq!(fs::read(&copy).unwrap(), b"machine a login b password c");
        assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o400);

        // One that was left by a death is replaced.
        fs::rename(from.join("netrc"), from.join("npmrc")).unwrap();
        packages.give_credentials(&folders, None).unwrap();
        assert!(!copy.exists() && credentials_copy(&folders).join("npmrc").is_file());
        packages.remove_credentials(&folders).unwrap();
        assert!(!credentials_copy(&folders).exists());
    }

    #[test]
    fn a_build_is_told_what_the_owner_named() {
        assert_eq!(Packages::default().variables(), []);
        let packages = Packages {
            python: Some("https://pypi.home.example/simple/".to_owned()),
            credentials: Some("/etc/packages".into()),
            ..Packages::default()
        };
        let expected = [
            ("PACKAGES_PYTHON", "https://pypi.home.example/simple/".to_owned()),
            ("PACKAGES_CREDENTIALS", CREDENTIALS.to_owned()),
        ];
        assert_eq!(packages.variables(), expected);
    }
}
