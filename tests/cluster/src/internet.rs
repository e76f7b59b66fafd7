//! The internet that stands beside a node of `cargo xtask cluster`, and beside no other.

use std::io::Write as _;

use crate::beside::NODE;

/// A server there, with its port: whoever may reach the internet reaches it. Elsewhere there is none, which
/// is said, so that nobody takes what was not tried for tried.
pub fn canary(what: &str) -> Option<&'static str> {
    let is_there = std::env::var_os(NODE).is_some();
    if !is_there {
        // Past the harness, which keeps to itself what a test prints that succeeds.
        let said = format!("{NODE} is not set, so there is no internet to try: {what}\n");
        std::io::stderr().write_all(said.as_bytes()).unwrap();
    }
    is_there.then_some("198.51.100.10:80")
}
