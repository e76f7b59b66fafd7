//! An installation on any cluster; see the crate's documentation for what it needs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod isolation;
mod lifecycle;
mod posture;
mod rules;
mod strict;
