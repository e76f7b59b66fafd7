//! Why a backup was not taken, or cannot be used.

use crate::{manifest::ManifestError, seal::SealError};
use std::{
    io,
    path::{Path, PathBuf},
};

#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    #[error("{} cannot be {what}; check that the folder is there, its permissions, and the disk", path.display())]
    Io {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the disk that holds {} is full; nothing that was there is lost: free some space, or set `backup.folder` to another disk", path.display())]
    Full { path: PathBuf },
    #[error("another backup of this installation is being taken into {} by process {pid}; wait until it has ended", folder.display())]
    Busy { folder: PathBuf, pid: String },
    #[error("{program} cannot be started; point `database.bin_dir` to the bin folder of a whole Postgres", program = program.display())]
    NoProgram {
        program: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{program} failed: {said}")]
    Program { program: &'static str, said: String },
    #[error("what was written to {} reads back differently; the disk is not to be trusted: keep backups elsewhere", path.display())]
    ReadBack { path: PathBuf },
    #[error("the backup {name} is damaged: {reason}; choose an older one (`famulus backup list`)")]
    Damaged { name: String, reason: String },
    #[error("the backup {name} cannot be used")]
    Manifest {
        name: String,
        #[source]
        source: ManifestError,
    },
    #[error("there is no backup called {name} in {}; `famulus backup list` names those that are", place.display())]
    Missing { name: String, place: PathBuf },
    #[error("there is no good backup{} in {}; `famulus backup list` shows what is there", before.as_ref().map(|at| format!(" from before {at}")).unwrap_or_default(), place.display())]
    None { place: PathBuf, before: Option<jiff::Timestamp> },
    #[error("{} holds backups of several installations, and this one has no data that say which it is; name the backup (`famulus backup list`)", place.display())]
    Several { place: PathBuf },
    #[error("the backup {name} was left unread")]
    Seal {
        name: String,
        #[source]
        source: SealError,
    },
    #[error("a thread of the backup ended early; this is a defect")]
    Thread,
}

impl BackupError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            let full = [
                io::ErrorKind::StorageFull,
                io::ErrorKind::QuotaExceeded,
                io::ErrorKind::FileTooLarge,
            ];
            if full.contains(&source.kind()) {
                Self::Full { path }
            } else {
                Self::Io { path, what, source }
            }
        }
    }
}
