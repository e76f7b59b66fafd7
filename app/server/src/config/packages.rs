//! Where builds of plugins have packages from on one machine, in the words that the chart has for a cluster.

use famulus_machine::Packages;
use serde::Deserialize;
use std::path::PathBuf;
use url::{Host, Url};

/// Instead of the public indexes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct MachinePackages {
    /// An index of Python packages, for pip and uv.
    pub python: Option<IndexUrl>,
    /// A registry of npm.
    pub npm: Option<IndexUrl>,
    /// A folder with credentials for them: `netrc` for pip, uv and git, `npmrc` for npm.
    pub credentials: Option<PathBuf>,
}

/// An address that programs in a sandbox are told, and whoever looks at their arguments.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct IndexUrl {
    url: Url,
    /// With its port.
    host: String,
}

/// It is not repeated: it may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IndexUrlError {
    #[error("it is no address of a package index; write it like https://pypi.home.example/simple/")]
    Address,
    #[error(
        "it holds a name or a password; put them into the folder of plugins.packages.credentials"
    )]
    Password,
    #[error(
        "it is an address by which a machine reaches itself, which a sandbox does for itself; write one by which \
         others reach this machine"
    )]
    Loopback,
}

impl TryFrom<String> for IndexUrl {
    type Error = IndexUrlError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let url = Url::parse(&text).map_err(|_unreadable| IndexUrlError::Address)?;
        let is_web = matches!(url.scheme(), "http" | "https");
        let (Some(host), Some(port)) = (url.host(), url.port_or_known_default()) else {
            return Err(IndexUrlError::Address);
        };
        if !is_web || url.query().is_some() || url.fragment().is_some() {
            return Err(IndexUrlError::Address);
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(IndexUrlError::Password);
        }
        if is_loopback(&host) {
            return Err(IndexUrlError::Loopback);
        }
        let host = format!("{host}:{port}");
        Ok(Self { url, host })
    }
}

fn is_loopback(host: &Host<&str>) -> bool {
    match host {
        Host::Domain(name) => *name == "localhost" || name.ends_with(".localhost"),
        Host::Ipv4(address) => address.is_loopback(),
        Host::Ipv6(address) => address.to_canonical().is_loopback(),
    }
}

impl From<MachinePackages> for Packages {
    fn from(packages: MachinePackages) -> Self {
        let MachinePackages { python, npm, credentials } = packages;
        let hosts = [&python, &npm].into_iter().flatten().map(|index| index.host.clone()).collect();
        let text = |index: IndexUrl| String::from(index.url);
        Self { python: python.map(text), npm: npm.map(text), hosts, credentials }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_an_address_without_a_password_that_a_sandbox_reaches() {
        let check = |text: &str, expected: Result<&str, IndexUrlError>| {
            let read = IndexUrl::try_from(text.to_owned()).map(|index| index.host);
            assert_eq!(read.as_deref(), expected.as_ref().copied(), "{text}");
        };
        check("https://pypi.home.example/simple/", Ok("pypi.home.example:443"));
        check("http://192.168.1.20:3141/root/pypi/+simple/", Ok("192.168.1.20:3141"));
        check("http://[fd00::7]/npm/", Ok("[fd00::7]:80"));
        for text in [
            "",
            "pypi.home.example",
            "file:///srv/index",
            "https://a.example/?x",
            "ftp://a.example/",
        ] {
            check(text, Err(IndexUrlError::Address));
        }
        for text in [
            "https://ada@a.example/",
            "https://ada:sesame@a.example/",
            "https://:sesame@a.example/",
        ] {
            check(text, Err(IndexUrlError::Password));
        }
        for host in [
            "127.0.0.1:3141",
            "127.1",
            "localhost",
            "pypi.localhost",
            "[::1]",
            "[::ffff:127.0.0.1]",
        ] {
            check(&format!("http://{host}/simple/"), Err(IndexUrlError::Loopback));
        }
    }

    #[test]
    fn both_are_reached_and_what_is_not_named_is_not() {
        assert_eq!(Packages::from(MachinePackages::default()), Packages::default());
        let index = |text: &str| IndexUrl::try_from(text.to_owned()).ok();
        let packages = MachinePackages {
            python: index("https://pypi.home.example/simple/"),
            npm: index("http://10.1.2.3:4873"),
            credentials: Some("/etc/famulus/packages".into()),
        };
        let expected = Packages {
            python: Some("https://pypi.home.example/simple/".to_owned()),
            npm: Some("http://10.1.2.3:4873/".to_owned()),
            hosts: vec!["pypi.home.example:443".to_owned(), "10.1.2.3:4873".to_owned()],
            credentials: Some("/etc/famulus/packages".into()),
        };
        assert_eq!(Packages::from(packages), expected);
    }
}
