//! Credentials of the owner's that a step is lent: a copy, which the plugin's user can read, until the step ends.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use famulus_protocol::revision::BuildFailure;

use crate::error::{MachineError, StepError};
use crate::folders::{PluginFolders, own, remove};

/// Credentials of one kind.
pub(crate) struct Lent {
    /// What is asked with them, and the key that names the owner's folder.
    what: &'static str,
    key: &'static str,
    /// The reason of a step that does not find them.
    reason: &'static str,
    /// The files that may be there; one of them has to.
    files: &'static [&'static str],
    /// The folder of the copy, below that of orders.
    name: &'static str,
    /// Where the step finds it.
    pub(crate) seen: &'static str,
}

/// For the packages of a build, as pip, uv and git read them, and as npm does.
pub(crate) const PACKAGES: Lent = Lent {
    what: "the package index",
    key: "plugins.packages.credentials",
    reason: "BuildFailed",
    files: &["netrc", "npmrc"],
    name: "packages",
    seen: "/famulus/packages",
};

/// For private repositories, which are fetched before any code of the plugin runs.
pub(crate) const REPOSITORIES: Lent = Lent {
    what: "repositories",
    key: "plugins.repositories.credentials",
    reason: "SourceUnreachable",
    files: &["netrc", "ssh-privatekey", "known_hosts", "ca.crt"],
    name: "repositories",
    seen: "/famulus/repositories",
};

impl Lent {
    /// The copy, which no sandbox but that of its step sees.
    pub(crate) fn copy(&self, folders: &PluginFolders) -> PathBuf {
        folders.order().join(self.name)
    }

    /// Copies what the owner has for the plugin's user, who cannot read the owner's.
    pub(crate) fn give(
        &self,
        from: Option<&Path>,
        folders: &PluginFolders,
        user: Option<u32>,
    ) -> Result<(), StepError> {
        let Some(from) = from else { return Ok(()) };
        let given = self.copied(from, folders, user);
        if given.is_err() {
            remove(&self.copy(folders))?;
        }
        given
    }

    fn copied(
        &self,
        from: &Path,
        folders: &PluginFolders,
        user: Option<u32>,
    ) -> Result<(), StepError> {
        let folder = self.copy(folders);
        remove(&folder)?;
        DirBuilder::new().mode(0o700).create(&folder).map_err(MachineError::folder(&folder))?;
        let mut found = false;
        for name in self.files {
            let bytes = match fs::read(from.join(name)) {
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => {
                    let path = path(from, name);
                    return Err(self.failed(&format!("{path} cannot be read: {error}")));
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
        let names: Vec<_> = self.files.iter().map(|name| path(from, name)).collect();
        Err(self.failed(&format!("none of {} is there", names.join(", "))))
    }

    /// Removes the copy.
    pub(crate) fn take_back(
        &self,
        from: Option<&Path>,
        folders: &PluginFolders,
    ) -> Result<(), MachineError> {
        from.map_or(Ok(()), |_| remove(&self.copy(folders)))
    }

    fn failed(&self, why: &str) -> StepError {
        let message = format!(
            "there are no credentials for {}: {why}; correct that or `{}`, and ask for the plugin again",
            self.what, self.key
        );
        StepError::Failed(BuildFailure { reason: self.reason.to_owned(), message })
    }
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::folders::Folders;

    #[test]
    fn a_copy_of_the_credentials_is_there_until_it_is_removed() {
        for (lent, other) in [(PACKAGES, "npmrc"), (REPOSITORIES, "known_hosts")] {
            let place = tempfile::tempdir().unwrap();
            let folders = Folders::new(place.path()).of("6d1d3c1f4a10");
            fs::create_dir_all(folders.order()).unwrap();
            let from = place.path().join("credentials");
            let given = Some(&*from);
            let missing = lent.give(given, &folders, None).unwrap_err().to_string();
            for word in ["credentials/netrc", other, lent.key] {
                assert!(missing.contains(word), "{missing}");
            }
            assert!(!lent.copy(&folders).exists());

            fs::create_dir(&from).unwrap();
            fs::write(from.join("netrc"), "machine a login b password c").unwrap();
            fs::write(from.join("other"), "of nobody's concern").unwrap();
            lent.give(given, &folders, None).unwrap();
            let names: Vec<_> = fs::read_dir(lent.copy(&folders)).unwrap().collect();
            assert_eq!(names.len(), 1, "{names:?}");
            let copy = lent.copy(&folders).join("netrc");
            assert_eq!(fs::read(&copy).unwrap(), b"machine a login b password c");
            assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o400);

            // One that was left by a death is replaced.
            fs::rename(from.join("netrc"), from.join(other)).unwrap();
            lent.give(given, &folders, None).unwrap();
            assert!(!copy.exists() && lent.copy(&folders).join(other).is_file());
            lent.take_back(given, &folders).unwrap();
            assert!(!lent.copy(&folders).exists());
        }
    }
}
