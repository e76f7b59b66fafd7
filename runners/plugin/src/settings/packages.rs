//! Where builds have packages from.

use std::path::PathBuf;

use famulus_settings::{Error, Given};

use super::FOLDER;

const URL: &str = "the URL of a package index";

/// Names and passwords of hosts, as pip, uv and git read them.
const NETRC: &str = "netrc";
const FILES: [&str; 2] = [NETRC, "npmrc"];

/// The installation's own indexes, instead of the public ones. Tools are told nothing of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packages {
    /// An index of Python packages (PEP 503).
    pub python: Option<String>,
    /// A registry of npm.
    pub npm: Option<String>,
    /// A folder with the credentials for them: `netrc`, `npmrc`, or both.
    pub credentials: Option<PathBuf>,
}

impl Packages {
    pub(super) fn read(given: &mut Given) -> Result<Self, Error> {
        Ok(Self {
            python: given.read("PACKAGES_PYTHON", URL)?,
            npm: given.read("PACKAGES_NPM", URL)?,
            credentials: given.read("PACKAGES_CREDENTIALS", FOLDER)?,
        })
    }

    /// The files with credentials that are there.
    pub fn files(&self) -> Vec<PathBuf> {
        let all = self.credentials.iter().flat_map(|folder| FILES.map(|name| folder.join(name)));
        all.filter(|file| file.is_file()).collect()
    }

    /// What is wrong with them, in words for whoever installed them.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.credentials.is_none() || !self.files().is_empty() {
            return Ok(());
        }
        Err("there are no credentials for the package index: the Secret that the chart's \
             plugins.packages.existingSecret names does not exist in the namespace of the sandbox, \
             or has neither the key `netrc` nor `npmrc`; create it, and the build is tried again"
            .to_owned())
    }

    /// The variables by which pip, uv and npm know them.
    pub(crate) fn environment(&self) -> Vec<(String, String)> {
        let mut variables = Vec::new();
        if let Some(index) = &self.python {
            variables.push(("UV_DEFAULT_INDEX", index.clone()));
            variables.push(("PIP_INDEX_URL", index.clone()));
            if let Some(host) = plain_host(index) {
                // It passes over an index without TLS otherwise.
                variables.push(("PIP_TRUSTED_HOST", host.to_owned()));
            }
        }
        if let Some(registry) = &self.npm {
            variables.push(("npm_config_registry", registry.clone()));
        }
        for file in self.files() {
            let variable = if file.ends_with(NETRC) { "NETRC" } else { "npm_config_userconfig" };
            variables.push((variable, file.to_string_lossy().into_owned()));
        }
        variables.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}

/// The host, and its port, of a URL without TLS.
fn plain_host(url: &str) -> Option<&str> {
    url.strip_prefix("http://")?.split('/').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_told_of_what_is_not_given() {
        assert_eq!(Packages::default().environment(), []);
        assert_eq!(Packages::default().check(), Ok(()));
    }

    #[test]
    fn each_program_is_told_in_its_own_words() {
        let folder = tempfile::tempdir().unwrap();
        let packages = Packages {
            python: Some("http://pypi.home.example:8080/simple/".to_owned()),
            npm: Some("https://npm.home.example/".to_owned()),
            credentials: Some(folder.path().to_owned()),
        };
        assert!(packages.check().unwrap_err().contains("plugins.packages.existingSecret"));
        std::fs::write(folder.path().join("netrc"), "").unwrap();
        assert_eq!(packages.check(), Ok(()));
        let netrc = folder.path().join("netrc");
        let expected = [
            ("UV_DEFAULT_INDEX", "http://pypi.home.example:8080/simple/"),
            ("PIP_INDEX_URL", "http://pypi.home.example:8080/simple/"),
            ("PIP_TRUSTED_HOST", "pypi.home.example:8080"),
            ("npm_config_registry", "https://npm.home.example/"),
            ("NETRC", netrc.to_str().unwrap()),
        ];
        let told = packages.environment();
        let told = told.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }
}
