//! A whole installation on a real cluster; see the crate's documentation for what it needs.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    reason = "the environment says which cluster it is, and a test's tasks end with it"
)]

mod isolation;
mod kubectl;
mod lifecycle;
mod node;
mod open;
mod posture;
mod release;
