//! `pg_restore`, from a part into its input.

use crate::{
    dump::Server,
    error::BackupError,
    folder::Folder,
    manifest::{Holds, Manifest},
    part::{BUFFER, read},
    program::{command, settle, start},
    seal::Identities,
};
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    process::Stdio,
    sync::Arc,
};

const PROGRAM: &str = "pg_restore";

/// Small files only: nothing that is restored whole into memory is longer.
const SMALL: u64 = 1024 * 1024;

/// Fills an empty database from a backup whose parts were checked. Dropped, it ends the program, and
/// what is there is worth nothing.
pub async fn database(
    folder: &Folder,
    name: &str,
    manifest: &Manifest,
    identities: Option<Arc<Identities>>,
    server: &Server,
) -> Result<(), BackupError> {
    let part = manifest.part(Holds::Database).cloned().ok_or_else(|| BackupError::Damaged {
        name: name.to_owned(),
        reason: "it holds no database".to_owned(),
    })?;
    let (path, name) = (folder.of(name).join(&part.name), name.to_owned());
    let mut source = read(&path, &part, &name, identities.as_deref())?;
    let mut restore = command(PROGRAM, server);
    restore.args(["--no-owner", "--no-privileges", "--no-password", "--exit-on-error"]);
    restore.arg("--dbname").arg(&server.database).stdin(Stdio::piped());
    let mut child = start(&mut restore)?;
    let input = child.stdin.take().ok_or(BackupError::Thread)?;
    let input = input.into_owned_fd().map_err(BackupError::io("written", Path::new(PROGRAM)))?;
    let feeding = tokio::task::spawn_blocking(move || feed(&mut source, File::from(input), &path));
    settle(PROGRAM, &mut child, feeding).await
}

/// A small part, whole; `None` where the backup has none of its kind.
pub fn small(
    folder: &Folder,
    name: &str,
    manifest: &Manifest,
    holds: Holds,
    identities: Option<&Identities>,
) -> Result<Option<Vec<u8>>, BackupError> {
    let Some(part) = manifest.part(holds) else { return Ok(None) };
    let path = folder.of(name).join(&part.name);
    let mut bytes = Vec::new();
    read(&path, part, name, identities)?
        .take(SMALL)
        .read_to_end(&mut bytes)
        .map_err(BackupError::io("read", &path))?;
    Ok(Some(bytes))
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
