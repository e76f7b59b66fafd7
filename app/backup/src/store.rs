//! What a place must do to keep backups: five functions. All of them block.
//!
//! Invariants of each: what is listed was named after all of it was written, and is never written to
//! again; what a dead run left is removed only by the installation that wrote it; everything is for
//! its owner's eyes alone.

use crate::error::BackupError;
use std::{
    collections::BTreeMap,
    fmt,
    io::{Read, Write},
    path::PathBuf,
    sync::Arc,
};
use uuid::Uuid;

/// The files of a backup, by name, and their bytes.
pub(crate) type Files = BTreeMap<String, u64>;

/// A place that keeps backups.
pub(crate) trait Store: fmt::Debug + Send + Sync {
    /// Where a file of a backup is, or all of them, for people.
    fn path(&self, within: &str) -> PathBuf;

    /// What is there, by name, whether it is whole or not. What is still being written is not there.
    fn list(&self) -> Result<BTreeMap<String, Files>, BackupError>;

    fn open(&self, backup: &str, file: &str) -> Result<Box<dyn Read + Send>, BackupError>;

    /// Makes room for a new backup, after what dead runs of this installation left is gone.
    fn begin(&self, installation: Uuid, backup: &str) -> Result<Arc<dyn Draft>, BackupError>;

    /// Removes a backup: first its name, so that no half of it passes for one.
    fn remove(&self, backup: &str, installation: Uuid) -> Result<(), BackupError>;
}

/// A backup that is being written.
pub(crate) trait Draft: Send + Sync {
    /// Where a file of it is, for people.
    fn path(&self, file: &str) -> PathBuf;

    /// A new file.
    fn create(&self, file: &str) -> Result<Box<dyn Output>, BackupError>;

    /// A file that was finished, as it is stored.
    fn open(&self, file: &str) -> Result<Box<dyn Read + Send>, BackupError>;

    /// Removes a file that was not finished. What cannot be removed is no part of the backup.
    fn forget(&self, file: &str);

    /// Gives it its name: from now on it is listed.
    fn name(&self) -> Result<(), BackupError>;

    /// Removes what was written, unless it has its name. What cannot be removed, a later backup does.
    fn discard(&self);
}

/// A file that is being written.
pub(crate) trait Output: Write + Send {
    /// Returns when it is stored as surely as the place can.
    fn finish(self: Box<Self>) -> Result<(), BackupError>;
}

#[cfg(test)]
#[path = "store_tests.rs"]
pub(crate) mod tests;
