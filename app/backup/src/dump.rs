//! `pg_dump`, from its output into a part.

use crate::{
    behind::{behind, stand_back},
    blocking::blocking,
    error::BackupError,
    manifest::{Holds, Part},
    part::PartWriter,
    program::{command, settle, start},
    seal::Recipient,
    server::Server,
    store::Draft,
};
use std::{fs::File, path::Path, process::Stdio, sync::Arc};

const PROGRAM: &str = "pg_dump";

/// A session that holds a lock on a table for so long is stuck.
const LOCK_TIMEOUT: &str = "--lock-wait-timeout=60s";

/// One consistent picture of the database, as it was when this began. Dropped, it ends the program.
pub(crate) async fn dump(
    server: &Server,
    draft: &Arc<dyn Draft>,
    recipient: Option<&Recipient>,
) -> Result<Part, BackupError> {
    let (draft, recipient) = (Arc::clone(draft), recipient.cloned());
    let create =
        move || PartWriter::create(draft, "database.dump", Holds::Database, recipient.as_ref());
    let mut part = blocking(create).await?;
    let mut dump = command(PROGRAM, server);
    // Who owns what and who may do what follows from where it is restored: a start grants it.
    dump.args(["--format=custom", "--no-owner", "--no-privileges", "--no-password", LOCK_TIMEOUT]);
    let mut child = start(dump.stdout(Stdio::piped()))?;
    stand_back(child.id());
    let output = child.stdout.take().ok_or(BackupError::Thread)?;
    let output = output.into_owned_fd().map_err(BackupError::io("read", Path::new(PROGRAM)))?;
    let reading = tokio::task::spawn_blocking(move || {
        behind(|| part.take(&mut File::from(output)))?;
        Ok(part)
    });
    let part = settle(PROGRAM, &mut child, reading).await?;
    // Only what the program called whole is finished.
    blocking(move || behind(|| part.finish())).await
}
