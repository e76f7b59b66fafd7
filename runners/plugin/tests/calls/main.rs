//! The runner as a process of its own, with real scripts, over real sockets.
//!
//! Started by root, as in a container that builds, the runner gets a user of its own for each test,
//! as it has in a cluster; started by a person it keeps the person's.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, and shows what the runner said"
)]

mod callback;
mod confinement;
mod files;
mod limits;
mod listening;
mod queue;
mod results;
mod support;
mod tools;
