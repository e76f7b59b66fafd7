//! Backups: a consistent dump of the database and what cannot be made again, in a place that keeps
//! them, provably as it was written.
//!
//! ```text
//! pg_dump ─► seal (age) ─► hash ─► store ─► flushed ─► read back ─► named ─► old ones may go
//! pg_restore ◄─ unseal ◄────────── store ◄─ hashes compared
//! ```
//!
//! The crate refuses to know the schema, where the database comes from, and how people are told. It
//! is given the folder of Postgres's programs, a URL without a password, and files.
//!
//! Invariants: what has a backup's name is whole, and was read back; a backup that fails removes
//! nothing; a file is never held in memory; what one installation wrote no other removes.

pub mod backups;
mod behind;
mod blocking;
mod bucket;
mod config;
mod dump;
mod error;
mod folder;
pub mod manifest;
mod part;
mod program;
pub mod restore;
pub mod retention;
pub mod seal;
pub mod server;
mod store;
pub mod take;

pub use config::{Config, Held, S3};
pub use error::BackupError;
