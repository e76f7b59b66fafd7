//! A whole installation on a real cluster; see the crate's documentation for what it needs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod kubectl;
mod lifecycle;
mod release;
