//! Where builds have packages from, instead of the public indexes. Nothing else is told of it.

use std::path::PathBuf;

use crate::lent::PACKAGES;

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
        let credentials = self.credentials.as_ref().map(|_| PACKAGES.seen.to_owned());
        let all = [
            ("PACKAGES_PYTHON", self.python.clone()),
            ("PACKAGES_NPM", self.npm.clone()),
            ("PACKAGES_CREDENTIALS", credentials),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ("PACKAGES_CREDENTIALS", PACKAGES.seen.to_owned()),
        ];
        assert_eq!(packages.variables(), expected);
    }
}
