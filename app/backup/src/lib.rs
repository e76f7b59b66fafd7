//! Backups: a consistent dump of the database and what cannot be made again, in a folder, provably
//! as it was written.
//!
//! ```text
//! pg_dump ─► seal (age) ─► hash ─► file ─► flushed ─► read back ─► named ─► old ones may go
//! pg_restore ◄─ unseal ◄────────── file ◄─ hashes compared
//! ```
//!
//! The crate refuses to know the schema, where the database comes from, and how people are told. It
//! is given the folder of Postgres's programs, a URL without a password, and files.
//!
//! Invariants: what has a backup's name is whole, and was read back; a backup that fails removes
//! nothing; a file is never held in memory; what one installation wrote no other removes.

mod config;
pub mod dump;
mod error;
pub mod folder;
pub mod manifest;
mod part;
mod program;
pub mod restore;
pub mod retention;
pub mod seal;
pub mod take;

pub use config::Config;
pub use error::BackupError;
