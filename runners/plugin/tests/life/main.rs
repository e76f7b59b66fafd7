//! From a source to a call: the steps of a Pod as processes of their own, with a real git daemon, an
//! app that keeps bundles, and a runner that follows what is mounted.
//!
//! Started by root, each plugin gets a user of its own, as it has in a cluster.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, and shows what the runner said"
)]

mod daemon;
mod examples;
mod git;
mod guide;
mod hostile;
mod house;
mod keeping;
mod packages;
mod sources;
#[path = "../calls/support/mod.rs"]
#[expect(dead_code, reason = "calls are tested with more of it")]
mod support;
mod switching;
mod taking;
mod web;
