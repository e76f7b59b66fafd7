//! Plugins that want more than their own, in real Pods of three kinds: runc without and with a user
//! namespace, and gVisor. It needs a node of `cargo xtask cluster`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::print_stdout, reason = "figures are for people")]

mod denial;
mod ended;
mod escape;
mod git;
mod kinds;
mod neighbours;
mod outputs;
mod sources;
mod volume;
