//! The backups in one place: which are there, which is meant, and whether they are as they were
//! written.
//!
//! ```text
//! 2026-11-24T22-30-29.417Z-1c9f03ab/   manifest.json  SHA256SUMS  database.dump.age  …
//! ```
//!
//! `SHA256SUMS` names the digest of each file, the manifest's too: `sha256sum -c SHA256SUMS` checks a
//! backup without this program.

use crate::{
    blocking::blocking,
    bucket::Bucket,
    config::S3,
    error::BackupError,
    folder::Folder,
    manifest::{Manifest, Part},
    part::digest,
    retention::{Dated, Mark},
    store::{Draft, Files, Store},
};
use famulus_lifecycle::boxed;
use jiff::{Timestamp, tz::TimeZone};
use std::{io::Read, path::PathBuf, sync::Arc};
use uuid::Uuid;

pub(crate) const MANIFEST: &str = "manifest.json";
pub(crate) const SUMS: &str = "SHA256SUMS";

/// No manifest, and no list of digests, is longer. What is there may be anything.
const SMALL: u64 = 1024 * 1024;

/// The backups of one place.
#[derive(Clone, Debug)]
pub struct Backups {
    store: Arc<dyn Store>,
}

/// One of them.
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

impl Backups {
    /// Those in a folder. One that is not there holds none.
    pub fn in_folder(path: impl Into<PathBuf>) -> Self {
        Self { store: Arc::new(Folder::new(path)) }
    }

    /// Those in a bucket. The store is asked nothing yet.
    ///
    /// # Errors
    /// What the configuration says cannot be so.
    pub fn in_bucket(config: &S3) -> Result<Self, BackupError> {
        Ok(Self { store: Arc::new(Bucket::new(config)?) })
    }

    /// Where they are, for people.
    pub fn place(&self) -> PathBuf {
        self.store.path("")
    }

    /// All of them, oldest first.
    ///
    /// # Errors
    /// The place cannot be read.
    #[boxed]
    pub async fn list(&self) -> Result<Vec<Backup>, BackupError> {
        self.with(Kept::list).await
    }

    /// Finds a backup. `own` is the installation that asks, where it knows that.
    ///
    /// # Errors
    /// There is none, or it is damaged; or several installations have some, and none is asked for.
    #[boxed]
    pub async fn find(
        &self,
        which: &Which,
        own: Option<Uuid>,
    ) -> Result<(String, Manifest), BackupError> {
        let which = which.clone();
        self.with(move |kept| kept.find(&which, own)).await
    }

    /// Reads every part of a backup and compares it with what was written.
    ///
    /// # Errors
    /// It is damaged, or cannot be read.
    #[boxed]
    pub async fn check(&self, name: &str) -> Result<Manifest, BackupError> {
        let name = name.to_owned();
        self.with(move |kept| kept.check(&name)).await
    }

    /// The whole backups of an installation, oldest first.
    ///
    /// # Errors
    /// The place cannot be read.
    #[boxed]
    pub async fn good(&self, installation: Uuid) -> Result<Vec<(String, Manifest)>, BackupError> {
        self.with(move |kept| kept.good(installation)).await
    }

    /// Does something with what is kept, where that may block.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Kept) -> Result<T, BackupError> + Send + 'static,
    ) -> Result<T, BackupError> {
        let kept = Kept { store: Arc::clone(&self.store) };
        blocking(move || work(&kept)).await
    }
}

/// The same, for threads that may block.
pub(crate) struct Kept {
    pub(crate) store: Arc<dyn Store>,
}

impl Kept {
    pub(crate) fn list(&self) -> Result<Vec<Backup>, BackupError> {
        let there = self.store.list()?.into_iter().filter(|(name, _)| is_name(name));
        Ok(there.map(|(name, files)| Backup { state: self.state(&name, &files), name }).collect())
    }

    pub(crate) fn find(
        &self,
        which: &Which,
        own: Option<Uuid>,
    ) -> Result<(String, Manifest), BackupError> {
        let before = match which {
            Which::Latest { before } => *before,
            Which::Named(name) => {
                return match self.one(name)? {
                    State::Whole(manifest) => Ok((name.clone(), manifest)),
                    State::Damaged(reason) => {
                        Err(BackupError::Damaged { name: name.clone(), reason })
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
            return Err(BackupError::Several { place: self.store.path("") });
        }
        let newest = candidates.into_iter().max_by_key(|(_, manifest)| manifest.begun);
        newest.ok_or_else(|| BackupError::None { place: self.store.path(""), before })
    }

    pub(crate) fn check(&self, name: &str) -> Result<Manifest, BackupError> {
        let damaged = |reason: String| BackupError::Damaged { name: name.to_owned(), reason };
        let manifest = match self.one(name)? {
            State::Whole(manifest) => manifest,
            State::Damaged(reason) => return Err(damaged(reason)),
        };
        let sums = self.small(name, SUMS)?;
        let written = self.digest(name, MANIFEST)?;
        if sums != sums_of(&written, &manifest.parts).as_bytes() {
            return Err(damaged(format!("{SUMS} does not fit {MANIFEST}")));
        }
        for part in &manifest.parts {
            if self.digest(name, &part.name)? != part.sha256 {
                return Err(damaged(format!("{} is not what was written", part.name)));
            }
        }
        Ok(manifest)
    }

    pub(crate) fn good(&self, installation: Uuid) -> Result<Vec<(String, Manifest)>, BackupError> {
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

    fn one(&self, name: &str) -> Result<State, BackupError> {
        let mut there = self.store.list()?;
        let Some(files) = there.remove(name).filter(|_| is_name(name)) else {
            let (name, place) = (name.to_owned(), self.store.path(""));
            return Err(BackupError::Missing { name, place });
        };
        Ok(self.state(name, &files))
    }

    fn state(&self, name: &str, files: &Files) -> State {
        let manifest = match self.small(name, MANIFEST) {
            Ok(bytes) => Manifest::parse(&bytes),
            Err(error) => return State::Damaged(format!("{MANIFEST} cannot be read: {error}")),
        };
        let manifest = match manifest {
            Ok(manifest) => manifest,
            Err(error) => return State::Damaged(error.to_string()),
        };
        for Part { name, bytes, .. } in &manifest.parts {
            match files.get(name) {
                Some(there) if there == bytes => {}
                Some(there) => {
                    return State::Damaged(format!("{name} has {there} bytes of {bytes}"));
                }
                None => return State::Damaged(format!("{name} is missing")),
            }
        }
        State::Whole(manifest)
    }

    fn small(&self, backup: &str, file: &str) -> Result<Vec<u8>, BackupError> {
        let mut bytes = Vec::new();
        let file_ = self.store.open(backup, file)?;
        let path = self.store.path(&format!("{backup}/{file}"));
        file_.take(SMALL).read_to_end(&mut bytes).map_err(BackupError::io("read", &path))?;
        Ok(bytes)
    }

    fn digest(&self, backup: &str, file: &str) -> Result<String, BackupError> {
        let path = self.store.path(&format!("{backup}/{file}"));
        Ok(digest(&mut self.store.open(backup, file)?, &path)?.sha256)
    }
}

/// Writes the manifest and gives the backup its name.
pub(crate) fn finish(draft: &dyn Draft, manifest: &Manifest) -> Result<(), BackupError> {
    let json = manifest
        .to_json()
        .map_err(|source| BackupError::Manifest { name: manifest.begun.to_string(), source })?;
    let written = write(draft, MANIFEST, &json)?;
    write(draft, SUMS, sums_of(&written, &manifest.parts).as_bytes())?;
    draft.name()
}

/// Writes a small file, and returns its digest as it is stored.
fn write(draft: &dyn Draft, file: &str, bytes: &[u8]) -> Result<String, BackupError> {
    let path = draft.path(file);
    let mut output = draft.create(file)?;
    output.write_all(bytes).map_err(BackupError::io("written", &path))?;
    output.finish()?;
    let mut stored = Vec::new();
    let mut input = draft.open(file)?;
    input.read_to_end(&mut stored).map_err(BackupError::io("read", &path))?;
    if stored != bytes {
        return Err(BackupError::ReadBack { path });
    }
    Ok(digest(&mut stored.as_slice(), &path)?.sha256)
}

/// As `sha256sum` writes it.
fn sums_of(manifest: &str, parts: &[Part]) -> String {
    let parts = parts.iter().map(|part| format!("{}  {}\n", part.sha256, part.name));
    parts.chain([format!("{manifest}  {MANIFEST}\n")]).collect()
}

/// What a backup that begins now is called. Names sort as the backups were begun, to the millisecond.
pub(crate) fn name_of(begun: Timestamp) -> String {
    // The end of a UUIDv7 is random, its beginning is the time once more.
    let unique = Uuid::now_v7().simple().to_string();
    let time = TimeZone::UTC.to_datetime(begun).strftime("%Y-%m-%dT%H-%M-%S.%3fZ");
    format!("{time}-{}", &unique[unique.len() - 8..])
}

/// Whether a folder is called as a backup is: `2026-11-24T22-30-29.417Z-1c9f03ab`.
pub(crate) fn is_name(name: &str) -> bool {
    const SHAPE: &[u8] = b"0000-00-00T00-00-00.000Z-xxxxxxxx";
    name.len() == SHAPE.len()
        && name.bytes().zip(SHAPE).all(|(byte, shape)| match shape {
            b'0' => byte.is_ascii_digit(),
            b'x' => byte.is_ascii_hexdigit(),
            exact => byte == *exact,
        })
}
