//! Plugins are reconciled against a cluster in memory.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test ends where it fails"
)]

mod bench;
mod brought;
mod cluster;
mod configuration;
mod confinement;
mod failures;
mod init_apart;
mod leading;
mod life;
mod losses;
mod packages;
mod replacement;
mod revisions;
mod rollout;
mod user_namespaces;
