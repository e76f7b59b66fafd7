//! Where backups are kept: a folder, in which each is a folder of its own.
//!
//! ```text
//! backups/.lock-INSTALLATION                 held while one is being taken
//! backups/.partial-INSTALLATION-…/           written, flushed, read back …
//! backups/2026-11-24T22-30-29.417Z-1c9f03ab/ … and only then named
//!             manifest.json  SHA256SUMS  database.dump.age  …
//! ```
//!
//! `SHA256SUMS` names the digest of each file, the manifest's too: `sha256sum -c SHA256SUMS` checks a
//! backup without this program.
//!
//! Invariants: what has a backup's name is whole; it is never written to again. A lock of the operating
//! system, which ends with its holder, orders the backups of one installation; under it, and there
//! alone, what a dead run left is removed. Everything is for its owner's eyes alone.

use crate::{
    error::BackupError,
    manifest::{Manifest, Part},
    part::{create, digest, flush},
    retention::{Dated, Mark},
};
use jiff::{Timestamp, tz::TimeZone};
use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};
use uuid::Uuid;

const MANIFEST: &str = "manifest.json";
const SUMS: &str = "SHA256SUMS";
const LOCK: &str = ".lock-";
const PARTIAL: &str = ".partial-";

/// The folder. Another kind of store would have its four functions: list, begin, check, remove.
#[derive(Clone, Debug)]
pub struct Folder {
    path: PathBuf,
}

/// A backup in the folder.
#[derive(Clone, Debug)]
pub struct Backup {
    pub name: String,
    pub state: State,
}

/// What can be said of a backup without reading its parts.
#[derive(Clone, Debug)]
pub enum State {
    /// All parts are there, as long as they should be.
    Whole(Manifest),
    /// In words.
    Damaged(String),
}

/// Which backup is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Which {
    Named(String),
    /// The newest good one, or the newest that began before then.
    Latest {
        before: Option<Timestamp>,
    },
}

impl Folder {
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where the parts of a backup are.
    pub(crate) fn of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// All backups, oldest first. A folder that is not there holds none.
    pub fn list(&self) -> Result<Vec<Backup>, BackupError> {
        let entries = match self.path.read_dir() {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(BackupError::io("read", &self.path)(error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(BackupError::io("read", &self.path))?;
            names.extend(entry.file_name().into_string().ok().filter(|name| is_name(name)));
        }
        names.sort();
        Ok(names.into_iter().map(|name| Backup { state: self.state(&name), name }).collect())
    }

    /// Finds a backup. `own` is the installation that asks, where it knows that.
    pub fn find(
        &self,
        which: &Which,
        own: Option<Uuid>,
    ) -> Result<(String, Manifest), BackupError> {
        let before = match which {
            Which::Latest { before } => *before,
            Which::Named(name) => {
                let found = self.list()?.into_iter().find(|backup| backup.name == *name);
                let Some(backup) = found else {
                    let (name, folder) = (name.clone(), self.path.clone());
                    return Err(BackupError::Missing { name, folder });
                };
                return match backup.state {
                    State::Whole(manifest) => Ok((backup.name, manifest)),
                    State::Damaged(reason) => {
                        Err(BackupError::Damaged { name: backup.name, reason })
                    }
                };
            }
        };
        let whole = self.list()?.into_iter().filter_map(|backup| match backup.state {
            State::Whole(manifest) => Some((backup.name, manifest)),
            State::Damaged(reason) => {
                tracing::warn!(backup.name, reason, "a damaged backup is passed over");
                None
            }
        });
        let candidates: Vec<(String, Manifest)> = whole
            .filter(|(_, manifest)| before.is_none_or(|before| manifest.begun < before))
            .filter(|(_, manifest)| own.is_none_or(|own| manifest.installation == own))
            .collect();
        let first = candidates.first().map(|(_, manifest)| manifest.installation);
        if candidates.iter().any(|(_, manifest)| Some(manifest.installation) != first) {
            return Err(BackupError::Several { folder: self.path.clone() });
        }
        let newest = candidates.into_iter().max_by_key(|(_, manifest)| manifest.begun);
        newest.ok_or_else(|| BackupError::None { folder: self.path.clone(), before })
    }

    /// Reads every part of a backup and compares it with what was written.
    pub fn check(&self, name: &str) -> Result<Manifest, BackupError> {
        let damaged = |reason: String| BackupError::Damaged { name: name.to_owned(), reason };
        let manifest = match self.state(name) {
            State::Whole(manifest) => manifest,
            State::Damaged(reason) => return Err(damaged(reason)),
        };
        let folder = self.of(name);
        let sums = folder.join(SUMS);
        let sums = fs::read_to_string(&sums).map_err(BackupError::io("read", &sums))?;
        let written = digest(&folder.join(MANIFEST))?;
        if sums != sums_of(&written.sha256, &manifest.parts) {
            return Err(damaged(format!("{SUMS} does not fit {MANIFEST}")));
        }
        for part in &manifest.parts {
            if digest(&folder.join(&part.name))?.sha256 != part.sha256 {
                return Err(damaged(format!("{} is not what was written", part.name)));
            }
        }
        Ok(manifest)
    }

    fn state(&self, name: &str) -> State {
        let folder = self.of(name);
        let manifest = match fs::read(folder.join(MANIFEST)) {
            Ok(bytes) => Manifest::parse(&bytes),
            Err(error) => return State::Damaged(format!("{MANIFEST} cannot be read: {error}")),
        };
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => return State::Damaged(error.to_string()),
        };
        for part in &manifest.parts {
            match fs::metadata(folder.join(&part.name)) {
                Ok(file) if file.len() == part.bytes => {}
                Ok(file) => {
                    return State::Damaged(format!(
                        "{} has {} bytes of {}",
                        part.name,
                        file.len(),
                        part.bytes
                    ));
                }
                Err(error) => return State::Damaged(format!("{}: {error}", part.name)),
            }
        }
        State::Whole(manifest)
    }

    /// Makes room for a new backup, after what dead runs left is gone. Nobody else may take one until
    /// the draft is gone.
    pub fn begin(&self, installation: Uuid) -> Result<Draft, BackupError> {
        if !self.path.is_dir() {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.path);
            made.map_err(BackupError::io("made", &self.path))?;
        }
        let lock = Lock::take(&self.path, installation)?;
        self.remove_partial(installation)?;
        let unique = Uuid::now_v7();
        let path = self.path.join(format!("{PARTIAL}{installation}-{unique}"));
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(BackupError::io("made", &path))?;
        Ok(Draft { folder: self.clone(), path, unique, finished: false, _lock: lock })
    }

    /// Removes what dead runs of this installation left. Its lock is held.
    fn remove_partial(&self, installation: Uuid) -> Result<(), BackupError> {
        let prefix = format!("{PARTIAL}{installation}-");
        let entries = self.path.read_dir().map_err(BackupError::io("read", &self.path))?;
        for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
            let ours = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(&prefix));
            if ours {
                fs::remove_dir_all(&path).map_err(BackupError::io("removed", &path))?;
                tracing::info!(path = %path.display(), "what an earlier backup left was removed");
            }
        }
        Ok(())
    }

    /// The whole backups of an installation, oldest first.
    pub fn good(&self, installation: Uuid) -> Result<Vec<(String, Manifest)>, BackupError> {
        let whole = self.list()?.into_iter().filter_map(|backup| match backup.state {
            State::Whole(manifest) if manifest.installation == installation => {
                Some((backup.name, manifest))
            }
            State::Whole(_) | State::Damaged(_) => None,
        });
        Ok(whole.collect())
    }

    /// What retention knows of each of them.
    pub(crate) fn dated(&self, installation: Uuid) -> Result<Vec<(String, Dated)>, BackupError> {
        let good = self.good(installation)?.into_iter();
        Ok(good
            .map(|(name, manifest)| (name, Dated { at: manifest.begun, mark: Mark::Good }))
            .collect())
    }

    /// Removes a backup: first its name, so that no half of it passes for one.
    pub(crate) fn remove(&self, name: &str, installation: Uuid) -> Result<(), BackupError> {
        let path = self.of(name);
        let away = self.path.join(format!("{PARTIAL}{installation}-{name}"));
        fs::rename(&path, &away).map_err(BackupError::io("removed", &path))?;
        sync_folder(&self.path)?;
        fs::remove_dir_all(&away).map_err(BackupError::io("removed", &away))
    }
}

/// A backup that is being written. Dropped before it was finished, it leaves nothing.
#[derive(Debug)]
pub struct Draft {
    folder: Folder,
    path: PathBuf,
    unique: Uuid,
    finished: bool,
    _lock: Lock,
}

impl Draft {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the manifest and gives the backup its name, which it returns. The draft still holds the
    /// lock.
    pub(crate) fn finish(&mut self, manifest: &Manifest) -> Result<String, BackupError> {
        let path = self.path.join(MANIFEST);
        let json = manifest
            .to_json()
            .map_err(|source| BackupError::Manifest { name: self.unique.to_string(), source })?;
        write(&path, &json)?;
        let sums = sums_of(&digest(&path)?.sha256, &manifest.parts);
        write(&self.path.join(SUMS), sums.as_bytes())?;
        sync_folder(&self.path)?;

        // The end of a UUIDv7 is random, its beginning is the time once more.
        let unique = self.unique.simple().to_string();
        let time = TimeZone::UTC.to_datetime(manifest.begun).strftime("%Y-%m-%dT%H-%M-%S.%3fZ");
        let name = format!("{time}-{}", &unique[unique.len() - 8..]);
        let named = self.folder.of(&name);
        fs::rename(&self.path, &named).map_err(BackupError::io("named", &named))?;
        self.finished = true;
        sync_folder(&self.folder.path)?;
        Ok(name)
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished
            && let Err(error) = fs::remove_dir_all(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error,
                "an unfinished backup stays until the next one is taken");
        }
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

/// As `sha256sum` writes it.
fn sums_of(manifest: &str, parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| format!("{}  {}\n", part.sha256, part.name));
    parts.chain([format!("{manifest}  {MANIFEST}\n")]).collect()
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BackupError> {
    let mut file = create(path)?;
    file.write_all(bytes).map_err(BackupError::io("written", path))?;
    flush(&file, path)?;
    if fs::read(path).map_err(BackupError::io("read", path))? != bytes {
        return Err(BackupError::ReadBack { path: path.to_owned() });
    }
    Ok(())
}

fn sync_folder(path: &Path) -> Result<(), BackupError> {
    File::open(path)
        .and_then(|folder| folder.sync_all())
        .map_err(BackupError::io("brought to the disk", path))
}

/// Whether a folder is called as a backup is: `2026-11-24T22-30-29.417Z-1c9f03ab`. Names sort
/// as the backups were begun, to the millisecond.
fn is_name(name: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00-00-00.000Z-xxxxxxxx";
    name.len() == SHAPE.len()
        && name.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            exact => byte == *exact,
        })
}

#[cfg(test)]
mod tests;
