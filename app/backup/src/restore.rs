//! `pg_restore`, from a part into its input.

use crate::{
    backups::{Backups, Kept},
    blocking::blocking,
    error::BackupError,
    manifest::{Holds, Manifest, Part},
    part::{BUFFER, read},
    program::{command, settle, start},
    seal::Identities,
    server::Server,
};
use famulus_lifecycle::boxed;
use std::{
    fs::File,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
};

const PROGRAM: &str = "pg_restore";

/// Nothing that is restored whole into memory is longer.
const SMALL: u64 = 64 * 1024 * 1024;

/// Fills an empty database from a backup whose parts were checked, in one transaction: what fails on the
/// way, or is dropped, leaves it as empty as it was.
#[boxed]
pub async fn database(
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    identities: Option<Arc<Identities>>,
    server: &Server,
) -> Result<(), BackupError> {
    let part = manifest.part(Holds::Database).cloned().ok_or_else(|| BackupError::Damaged {
        name: name.to_owned(),
        reason: "it holds no database".to_owned(),
    })?;
    let (mut source, path) = open(backups, name, part, identities).await?;
    let mut restore = command(PROGRAM, server);
    // A comment on an extension is its owner's, who is seldom the owner of a database.
    restore.args(["--no-owner", "--no-privileges", "--no-comments", "--no-password"]);
    restore.args(["--single-transaction", "--exit-on-error"]);
    restore.arg("--dbname").arg(&server.database).stdin(Stdio::piped());
    let mut child = start(&mut restore)?;
    let input = child.stdin.take().ok_or(BackupError::Thread)?;
    let input = input.into_owned_fd().map_err(BackupError::io("written", Path::new(PROGRAM)))?;
    let feeding = tokio::task::spawn_blocking(move || feed(&mut source, File::from(input), &path));
    settle(PROGRAM, &mut child, feeding).await
}

/// A small part, whole; `None` where the backup has none of its kind.
///
/// # Errors
/// It cannot be read, or is sealed to another key.
#[boxed]
pub async fn small(
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    holds: Holds,
    identities: Option<Arc<Identities>>,
) -> Result<Option<Vec<u8>>, BackupError> {
    match manifest.part(holds) {
        Some(part) => whole(backups, name, part, identities).await.map(Some),
        None => Ok(None),
    }
}

/// A small part, whole.
///
/// # Errors
/// It cannot be read, or is sealed to another key.
#[boxed]
pub async fn whole(
    backups: &Backups,
    name: &str,
    part: &Part,
    identities: Option<Arc<Identities>>,
) -> Result<Vec<u8>, BackupError> {
    let (source, path) = open(backups, name, part.clone(), identities).await?;
    let backup = name.to_owned();
    let whole = move || {
        let mut bytes = Vec::new();
        let read = source.take(SMALL + 1).read_to_end(&mut bytes);
        let read = read.map_err(BackupError::io("read", &path))?;
        if read as u64 > SMALL {
            let reason = format!("{} is larger than {SMALL} bytes", path.display());
            return Err(BackupError::Damaged { name: backup, reason });
        }
        Ok(bytes)
    };
    blocking(whole).await
}

/// A part from its beginning, which a thread reads that may block.
///
/// # Errors
/// It cannot be read, or is sealed to another key.
#[boxed]
pub async fn large(
    backups: &Backups,
    name: &str,
    part: &Part,
    identities: Option<Arc<Identities>>,
) -> Result<Box<dyn Read + Send>, BackupError> {
    open(backups, name, part.clone(), identities).await.map(|(source, _)| source)
}

/// A part as it was before it was stored, and where it is, for people.
async fn open(
    backups: &Backups,
    name: &str,
    part: Part,
    identities: Option<Arc<Identities>>,
) -> Result<(Box<dyn Read + Send>, PathBuf), BackupError> {
    let name = name.to_owned();
    let opened = move |kept: &Kept| {
        let stored = kept.store.open(&name, &part.name)?;
        let source = read(stored, &part, &name, identities.as_deref())?;
        Ok((source, kept.store.path(&format!("{name}/{}", part.name))))
    };
    backups.with(opened).await
}

fn feed(source: &mut impl Read, mut input: File, path: &Path) -> Result<(), BackupError> {
    let mut buffer = vec![0; BUFFER];
    loop {
        match source.read(&mut buffer).map_err(BackupError::io("read", path))? {
            0 => return Ok(()),
            read => {
                let written = input.write_all(&buffer[..read]);
                written.map_err(BackupError::io("handed to pg_restore", path))?;
            }
        }
    }
}
