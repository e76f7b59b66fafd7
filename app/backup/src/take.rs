//! Taking a backup, from the first byte to what may go afterwards.

use crate::{
    dump::{Server, dump},
    error::BackupError,
    folder::{Draft, Folder},
    manifest::{FORMAT, Holds, Manifest, Part},
    part::PartWriter,
    retention::{Dated, Rules, may_go},
    seal::Recipient,
};
use famulus_core::Clock;
use std::{fs::File, io, path::PathBuf};
use uuid::Uuid;

/// What is backed up.
#[derive(Clone, Debug)]
pub struct Source {
    pub server: Server,
    pub installation: Uuid,
    /// The version of the program.
    pub famulus: String,
    /// The newest migration of the database.
    pub schema: i64,
    /// The version of the server.
    pub postgres: String,
    /// Files with secrets in them. They are left out unless the backup is encrypted.
    pub secrets: Vec<Secret>,
}

#[derive(Clone, Debug)]
pub struct Secret {
    pub path: PathBuf,
    /// What the part is called.
    pub name: &'static str,
    pub holds: Holds,
    /// What people call it.
    pub words: &'static str,
}

/// How backups are taken.
#[derive(Clone, Debug)]
pub struct Plan {
    pub folder: Folder,
    pub recipient: Option<Recipient>,
    pub rules: Rules,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub name: String,
    pub manifest: Manifest,
    /// Older ones that no rule keeps any more.
    pub removed: Vec<String>,
}

/// Takes a backup. Dropped on the way it leaves nothing, and removes nothing.
pub async fn take(plan: Plan, source: Source, clock: &dyn Clock) -> Result<Outcome, BackupError> {
    let Plan { folder, recipient, rules } = plan;
    let Source { server, installation, famulus, schema, postgres, secrets } = source;
    let begun = clock.now();
    let mut draft = {
        let folder = folder.clone();
        blocking(move || folder.begin(installation)).await?
    };
    let mut parts = vec![dump(&server, draft.path(), recipient.as_ref()).await?];
    let mut contains = vec!["the database: everything but what follows".to_owned()];
    let mut leaves_out = Vec::new();
    if let Some(recipient) = recipient {
        for secret in secrets {
            let path = draft.path().to_owned();
            let (words, recipient) = (secret.words, recipient.clone());
            match blocking(move || copy(&secret, &path, &recipient)).await? {
                Some(part) => {
                    parts.push(part);
                    contains.push(words.to_owned());
                }
                None => leaves_out.push(format!("{words}: there is none")),
            }
        }
    } else {
        let why = "the backup is not encrypted; `backup.recipient` names a key for that";
        leaves_out.extend(secrets.iter().map(|secret| format!("{}: {why}", secret.words)));
    }
    let manifest = Manifest {
        format: FORMAT,
        installation,
        famulus,
        schema,
        postgres,
        begun,
        ended: clock.now(),
        parts,
        contains,
        leaves_out,
    };
    let now = clock.now().max(begun);
    blocking(move || {
        let name = draft.finish(&manifest)?;
        let removed = remove_old(&folder, &draft, installation, |dated| may_go(dated, now, &rules));
        Ok(Outcome { name, manifest, removed })
    })
    .await
}

/// Encrypts a file that may not be there.
fn copy(
    secret: &Secret,
    folder: &std::path::Path,
    recipient: &Recipient,
) -> Result<Option<Part>, BackupError> {
    let mut file = match File::open(&secret.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BackupError::io("read", &secret.path)(error)),
    };
    let mut part = PartWriter::create(folder, secret.name, secret.holds, Some(recipient))?;
    part.take(&mut file)?;
    part.finish().map(Some)
}

/// Removes what no rule keeps. The new backup is good, whether this succeeds or not; the draft still
/// holds the lock.
fn remove_old(
    folder: &Folder,
    _holds_the_lock: &Draft,
    installation: Uuid,
    choose: impl FnOnce(&[Dated]) -> std::collections::BTreeSet<usize>,
) -> Vec<String> {
    let there = match folder.dated(installation) {
        Ok(there) => there,
        Err(error) => {
            tracing::warn!(%error, "old backups stay: they cannot be listed");
            return Vec::new();
        }
    };
    let dated: Vec<Dated> = there.iter().map(|(_, dated)| *dated).collect();
    let gone = choose(&dated);
    let names = there.into_iter().enumerate().filter(|(place, _)| gone.contains(place));
    let mut removed = Vec::new();
    for (_, (name, _)) in names {
        match folder.remove(&name, installation) {
            Ok(()) => removed.push(name),
            Err(error) => tracing::warn!(backup = name, %error, "an old backup stays"),
        }
    }
    removed
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BackupError> + Send + 'static,
) -> Result<T, BackupError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| BackupError::Thread)?
}
