//! An installation on a node of `cargo xtask cluster`, with the internet that stands beside it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;
mod git;
mod init;
mod second;
mod sizes;
