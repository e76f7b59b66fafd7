//! The internet that stands beside a node of `cargo xtask cluster`, and beside no other.

use std::io::Write as _;
use std::path::PathBuf;

use crate::beside::{NODE, node};

/// A folder whose files a server there serves, and the address at which Pods find them.
pub struct Folder {
    pub path: PathBuf,
    pub url: &'static str,
}

/// What plugins are fetched from there.
pub struct Sources {
    /// Over HTTP, without a password.
    pub packages: Folder,
    /// Repositories.
    pub git: Folder,
}

/// A server there, with its port: whoever may reach the internet reaches it. Elsewhere there is none, which
/// is said, so that nobody takes what was not tried for tried.
pub fn canary(what: &str) -> Option<&'static str> {
    is_there(what).then_some("198.51.100.10:80")
}

/// In the same way.
pub fn sources(what: &str) -> Option<Sources> {
    let folder = |name: &str, url| Folder { path: node().join("internet").join(name), url };
    is_there(what).then(|| Sources {
        packages: folder("index", "http://pypi.example"),
        git: folder("git", "git://git.example"),
    })
}

fn is_there(what: &str) -> bool {
    let is_there = std::env::var_os(NODE).is_some();
    if !is_there {
        // Past the harness, which keeps to itself what a test prints that succeeds.
        let said = format!("{NODE} is not set, so there is no internet to try: {what}\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    is_there
}
