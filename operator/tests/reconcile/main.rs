//! Plugins are reconciled against a cluster in memory.

mod bench;
mod cluster;
mod configuration;
mod confinement;
mod failures;
mod life;
mod losses;
mod revisions;
