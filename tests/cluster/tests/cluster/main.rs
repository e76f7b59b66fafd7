//! An installation on any cluster; see the crate's documentation for what it needs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "a test's tasks end with it")]

#[path = "../../../../operator/tests/rendered/checker.rs"]
mod checker;
mod compatible;
mod generated;
#[path = "../../../../operator/tests/rendered/generator.rs"]
mod generator;
mod isolation;
mod lifecycle;
mod managed;
mod posture;
mod rules;
mod strict;
