//! The adapter against an API server that speaks the wire format and real runners on loopback
//! addresses, as Pods have them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test ends where it fails, and shows what the runner said"
)]

mod api;
mod asking;
mod bench;
mod callbacks;
mod cluster;
mod keeping;
mod large;
mod lost;
mod odd;
mod ports;
mod runner;
mod scale;
mod stop;
mod warm;
