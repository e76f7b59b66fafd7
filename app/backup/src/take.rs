//! Taking a backup, from the first byte to what may go afterwards.

use crate::{
    backups::{Backups, Kept, finish, name_of},
    blocking::blocking,
    dump::dump,
    error::BackupError,
    manifest::{FORMAT, Holds, Manifest, Part},
    part::PartWriter,
    retention::{Dated, Rules, may_go},
    seal::Recipient,
    server::Server,
    store::Draft,
};
use famulus_core::Clock;
use jiff::Timestamp;
use std::{fs::File, io, path::PathBuf, sync::Arc};
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
    /// Kept whether it is encrypted or not.
    pub documents: Vec<Document>,
    /// In words: what there is besides, and is not kept.
    pub leaves_out: Vec<String>,
}

/// Something small that is no file.
#[derive(Clone, Debug)]
pub struct Document {
    pub bytes: Vec<u8>,
    /// What the part is called.
    pub name: &'static str,
    pub holds: Holds,
    /// What people call it.
    pub words: String,
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
    pub backups: Backups,
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

/// Takes a backup. Dropped on the way it names nothing, and removes nothing.
///
/// # Errors
/// It was not taken. What was written of it is gone, and no other is.
pub async fn take(plan: Plan, source: Source, clock: &dyn Clock) -> Result<Outcome, BackupError> {
    let Plan { backups, recipient, rules } = plan;
    let installation = source.installation;
    let begun = clock.now();
    let name = name_of(begun);
    let draft = {
        let name = name.clone();
        backups.with(move |kept| kept.store.begin(installation, &name)).await?
    };
    let manifest = match fill(&draft, source, recipient, begun, clock).await {
        Ok(manifest) => manifest,
        Err(error) => {
            let undo = move || {
                draft.discard();
                Ok(())
            };
            blocking(undo).await?;
            return Err(error);
        }
    };
    let now = clock.now().max(begun);
    backups
        .with(move |kept| {
            if let Err(error) = finish(&*draft, &manifest) {
                draft.discard();
                return Err(error);
            }
            // Nobody else takes one until the draft is gone.
            let removed = remove_old(kept, installation, |dated| may_go(dated, now, &rules));
            drop(draft);
            Ok(Outcome { name, manifest, removed })
        })
        .await
}

/// Writes all parts.
async fn fill(
    draft: &Arc<dyn Draft>,
    source: Source,
    recipient: Option<Recipient>,
    begun: Timestamp,
    clock: &dyn Clock,
) -> Result<Manifest, BackupError> {
    let Source { server, installation, famulus, schema, postgres, secrets, documents, leaves_out } =
        source;
    let mut leaves_out = leaves_out;
    let mut parts = vec![dump(&server, draft, recipient.as_ref()).await?];
    let mut contains = vec!["the database: everything but what follows".to_owned()];
    for Document { bytes, name, holds, words } in documents {
        let (draft, recipient) = (Arc::clone(draft), recipient.clone());
        let written = move || {
            let mut part = PartWriter::create(draft, name, holds, recipient.as_ref())?;
            part.take(&mut bytes.as_slice())?;
            part.finish()
        };
        parts.push(blocking(written).await?);
        contains.push(words);
    }
    if let Some(recipient) = recipient {
        for secret in secrets {
            let (words, draft, recipient) = (secret.words, Arc::clone(draft), recipient.clone());
            match blocking(move || copy(&secret, draft, &recipient)).await? {
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
    Ok(Manifest {
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
    })
}

/// Encrypts a file that may not be there.
fn copy(
    secret: &Secret,
    draft: Arc<dyn Draft>,
    recipient: &Recipient,
) -> Result<Option<Part>, BackupError> {
    let mut file = match File::open(&secret.path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(BackupError::io("read", &secret.path)(error)),
    };
    let mut part = PartWriter::create(draft, secret.name, secret.holds, Some(recipient))?;
    part.take(&mut file)?;
    part.finish().map(Some)
}

/// Removes what no rule keeps. The new backup is good, whether this succeeds or not.
fn remove_old(
    kept: &Kept,
    installation: Uuid,
    choose: impl FnOnce(&[Dated]) -> std::collections::BTreeSet<usize>,
) -> Vec<String> {
    let there = match kept.dated(installation) {
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
        match kept.store.remove(&name, installation) {
            Ok(()) => removed.push(name),
            Err(error) => tracing::warn!(backup = name, %error, "an old backup stays"),
        }
    }
    removed
}
