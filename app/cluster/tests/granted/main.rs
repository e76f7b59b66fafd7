//! The adapter against a real API server, with the rights that the chart gives the app and no others.
//!
//! Behind the feature `node`, because it needs one: `cargo xtask cluster suite` runs it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, and shows what the runner said"
)]
#![expect(dead_code, reason = "it shares what the tests of calls are made of")]

#[path = "../calls/api.rs"]
mod api;
#[path = "../calls/bench.rs"]
mod bench;
mod granted;
#[path = "../calls/ports.rs"]
mod ports;
#[path = "../calls/runner.rs"]
mod runner;
