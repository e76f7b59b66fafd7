//! What the programs of `xtask` share: running other programs, the places of the workspace, and telling
//! how long it took.
//!
//! Every command waits for this crate to be built, so it stays light: no database client, no HTTP, no TLS.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

pub mod beside;
pub mod digest;
pub mod failures;
pub mod lock;
pub mod programs;
pub mod report;
mod shell;
pub mod space;
mod start;
pub mod wheel;
pub mod workspace;

pub use famulus_local::{uv, wheel::Wheel, wheel::verify};
pub use shell::{Shell, Stopped, cargo, output_of};
pub use start::{own_program, start};
