//! Backups in a folder, in which each is a folder of its own.
//!
//! ```text
//! backups/.lock-INSTALLATION                 held while one is being taken
//! backups/.partial-INSTALLATION-NAME/        written, flushed, read back …
//! backups/2026-11-24T22-30-29.417Z-1c9f03ab/ … and only then named
//! ```
//!
//! Invariants: a lock of the operating system, which ends with its holder, orders the backups of one
//! installation; under it, and there alone, what a dead run left is removed.

use crate::{
    backups::is_name,
    error::BackupError,
    store::{Draft, Files, Output, Store},
};
use rustix::fs::{Advice, fadvise};
use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};
use uuid::Uuid;

const LOCK: &str = ".lock-";
const PARTIAL: &str = ".partial-";

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
}

impl Folder {
    pub(crate) fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn partial(&self, installation: Uuid, backup: &str) -> PathBuf {
        self.path.join(format!("{PARTIAL}{installation}-{backup}"))
    }

    /// Removes what dead runs of this installation left. Its lock is held.
    fn remove_partial(&self, installation: Uuid) -> Result<(), BackupError> {
        let prefix = format!("{PARTIAL}{installation}-");
        for entry in entries(&self.path)? {
            if entry.name.starts_with(&prefix) {
                let path = self.path.join(entry.name);
                fs::remove_dir_all(&path).map_err(BackupError::io("removed", &path))?;
                tracing::info!(path = %path.display(), "what an earlier backup left was removed");
            }
        }
        Ok(())
    }
}

impl Store for Folder {
    fn path(&self, within: &str) -> PathBuf {
        if within.is_empty() { self.path.clone() } else { self.path.join(within) }
    }

    /// A folder that is not there holds none.
    fn list(&self) -> Result<BTreeMap<String, Files>, BackupError> {
        let mut there = BTreeMap::new();
        if !self.path.exists() {
            return Ok(there);
        }
        for Entry { name, is_folder, .. } in entries(&self.path)? {
            // A disk of its own has `lost+found`, which is nobody's to read.
            if is_folder && is_name(&name) {
                let files = entries(&self.path.join(&name))?;
                there.insert(name, files.into_iter().map(|file| (file.name, file.bytes)).collect());
            }
        }
        Ok(there)
    }

    fn open(&self, backup: &str, file: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        open(&self.path.join(backup).join(file))
    }

    fn begin(&self, installation: Uuid, backup: &str) -> Result<Arc<dyn Draft>, BackupError> {
        if !self.path.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
            made.map_err(BackupError::io("made", &self.path))?;
        }
        let lock = Lock::take(&self.path, installation)?;
        self.remove_partial(installation)?;
        let path = self.partial(installation, backup);
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(BackupError::io("made", &path))?;
        Ok(Arc::new(Writing { path, named: self.path.join(backup), _lock: lock }))
    }

    fn remove(&self, backup: &str, installation: Uuid) -> Result<(), BackupError> {
        let (path, away) = (self.path.join(backup), self.partial(installation, backup));
        fs::rename(&path, &away).map_err(BackupError::io("removed", &path))?;
        sync_folder(&self.path)?;
        fs::remove_dir_all(&away).map_err(BackupError::io("removed", &away))
    }
}

/// A backup under its temporary name. Nobody else may take one until it is gone.
struct Writing {
    path: PathBuf,
    named: PathBuf,
    _lock: Lock,
}

impl Draft for Writing {
    fn path(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    fn create(&self, file: &str) -> Result<Box<dyn Output>, BackupError> {
        let path = self.path(file);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600);
        let file = options.open(&path).map_err(BackupError::io("made", &path))?;
        Ok(Box::new(Flushed { file, path }))
    }

    fn open(&self, file: &str) -> Result<Box<dyn Read + Send>, BackupError> {
        open(&self.path(file))
    }

    fn forget(&self, file: &str) {
        let path = self.path(file);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!(path = %path.display(), %error, "a file that is not whole stays");
        }
    }

    fn name(&self) -> Result<(), BackupError> {
        sync_folder(&self.path)?;
        fs::rename(&self.path, &self.named).map_err(BackupError::io("named", &self.named))?;
        self.named.parent().map_or(Ok(()), sync_folder)
    }

    fn discard(&self) {
        match fs::remove_dir_all(&self.path) {
            Ok(()) => {}
            // It has its name.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::warn!(path = %self.path.display(), %error,
                "an unfinished backup stays until the next one is taken"),
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.discard();
    }
}

/// A file that is brought to the disk, and out of the memory that it would else be read back from.
struct Flushed {
    file: File,
    path: PathBuf,
}

impl Write for Flushed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Output for Flushed {
    fn finish(self: Box<Self>) -> Result<(), BackupError> {
        let Self { file, path } = *self;
        file.sync_all().map_err(BackupError::io("brought to the disk", &path))?;
        if let Err(error) = fadvise(&file, 0, None, Advice::DontNeed) {
            tracing::debug!(path = %path.display(), %error, "the file is read back from memory");
        }
        Ok(())
    }
}

/// The lock of an installation on the folder, with the pid of its holder in it.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    fn take(folder: &Path, installation: Uuid) -> Result<Self, BackupError> {
        let path = folder.join(format!("{LOCK}{installation}"));
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(&path).map_err(BackupError::io("opened", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut pid = String::new();
                if file.read_to_string(&mut pid).is_err() || pid.trim().is_empty() {
                    "(unknown)".clone_into(&mut pid);
                }
                let (folder, pid) = (folder.to_owned(), pid.trim().to_owned());
                return Err(BackupError::Busy { folder, pid });
            }
            Err(TryLockError::Error(error)) => {
                return Err(BackupError::io("locked", &path)(error));
            }
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(BackupError::io("written", &path))?;
        Ok(Self(file))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough: a process that is being spawned has it, too, for a moment.
        let _closed_soon = self.0.unlock();
    }
}

fn open(path: &Path) -> Result<Box<dyn Read + Send>, BackupError> {
    Ok(Box::new(File::open(path).map_err(BackupError::io("read", path))?))
}

struct Entry {
    name: String,
    is_folder: bool,
    bytes: u64,
}

/// What a folder holds. Names that are no text are nothing of ours.
fn entries(folder: &Path) -> Result<Vec<Entry>, BackupError> {
    let failed = |error| BackupError::io("read", folder)(error);
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        // A link leads to what it leads to.
        match fs::metadata(entry.path()) {
            Ok(data) => found.push(Entry { name, is_folder: data.is_dir(), bytes: data.len() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Ok(found)
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(BackupError::io("brought to the disk", path))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
