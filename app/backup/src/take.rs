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
use async_trait::async_trait;
use famulus_core::Clock;
use famulus_errors::chain;
use famulus_lifecycle::boxed;
use jiff::Timestamp;
use std::{
    error::Error,
    fmt,
    fs::File,
    io::{self, Read},
    path::PathBuf,
    sync::Arc,
};
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
    /// What others keep, and may not have.
    pub feeds: Vec<Feed>,
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

/// Something that somebody else gives, which may be long, and may be missing: the backup is taken without
/// it then, and says so.
#[derive(Clone, Debug)]
pub struct Feed {
    pub giver: Arc<dyn Giver>,
    /// What the part is called.
    pub name: String,
    pub holds: Holds,
    /// Whose it is.
    pub of: String,
    /// What people call it.
    pub words: String,
    /// Left out unless the backup is encrypted.
    pub is_secret: bool,
}

/// Who gives it.
#[async_trait]
pub trait Giver: fmt::Debug + Send + Sync {
    /// From its beginning. It is read by a thread that may block.
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>>;
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
    /// In words: what it was to hold, and why it does not.
    pub lacks: Vec<String>,
    /// Older ones that no rule keeps any more.
    pub removed: Vec<String>,
}

/// Takes a backup. Dropped on the way it names nothing, and removes nothing.
///
/// # Errors
/// It was not taken. What was written of it is gone, and no other is.
#[boxed]
pub async fn take(plan: Plan, source: Source, clock: &dyn Clock) -> Result<Outcome, BackupError> {
    let Plan { backups, recipient, rules } = plan;
    let installation = source.installation;
    let begun = clock.now();
    let name = name_of(begun);
    let draft = {
        let name = name.clone();
        backups.with(move |kept| kept.store.begin(installation, &name)).await?
    };
    let (manifest, lacks) = match fill(&draft, source, recipient, begun, clock).await {
        Ok(filled) => filled,
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
            Ok(Outcome { name, manifest, lacks, removed })
        })
        .await
}

/// Writes all parts, and says which are missing.
async fn fill(
    draft: &Arc<dyn Draft>,
    source: Source,
    recipient: Option<Recipient>,
    begun: Timestamp,
    clock: &dyn Clock,
) -> Result<(Manifest, Vec<String>), BackupError> {
    let Source { server, installation, famulus, schema, postgres, secrets, documents, .. } = source;
    let (mut leaves_out, mut lacks) = (source.leaves_out, Vec::new());
    let unsealed = "the backup is not encrypted; `backup.recipient` names a key for that";
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
    for feed in source.feeds {
        let words = feed.words.clone();
        if feed.is_secret && recipient.is_none() {
            leaves_out.push(format!("{words}: {unsealed}"));
            continue;
        }
        match fed(feed, draft, recipient.as_ref()).await? {
            Ok(part) => {
                parts.push(part);
                contains.push(words);
            }
            Err(why) => lacks.push(format!("{words}: {why}")),
        }
    }
    leaves_out.extend(lacks.iter().cloned());
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
        leaves_out.extend(secrets.iter().map(|secret| format!("{}: {unsealed}", secret.words)));
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
    Ok((manifest, lacks))
}

/// Stores what somebody gives. The inner error is theirs, in words, and the outer one is of the place.
async fn fed(
    feed: Feed,
    draft: &Arc<dyn Draft>,
    recipient: Option<&Recipient>,
) -> Result<Result<Part, String>, BackupError> {
    let Feed { giver, name, holds, of, .. } = feed;
    let given = match giver.open().await {
        Ok(given) => given,
        Err(error) => return Ok(Err(chain(&*error))),
    };
    let (draft, recipient) = (Arc::clone(draft), recipient.cloned());
    blocking(move || {
        let mut part = PartWriter::create(draft, &name, holds, recipient.as_ref())?.of(&of);
        let mut given = Given { inner: given, failed: None };
        match (part.take(&mut given), given.failed) {
            (Ok(()), _) => part.finish().map(Ok),
            (Err(_read), Some(why)) => {
                part.abandon();
                Ok(Err(why))
            }
            (Err(error), None) => Err(error),
        }
    })
    .await
}

/// A reader that says whether it was the one that failed.
struct Given {
    inner: Box<dyn Read + Send>,
    failed: Option<String>,
}

impl Read for Given {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(to);
        if let Err(error) = &read
            && error.kind() != io::ErrorKind::Interrupted
        {
            self.failed = Some(chain(error));
        }
        read
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{folder::Folder, store::Store};

    #[derive(Clone, Copy, Debug)]
    enum Gives {
        All,
        Half,
        Nothing,
    }

    struct Breaks;

    impl Read for Breaks {
        fn read(&mut self, _to: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the giver is gone"))
        }
    }

    #[async_trait]
    impl Giver for Gives {
        async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
            match self {
                Self::All => Ok(Box::new(io::Cursor::new(b"all of it"))),
                Self::Half => Ok(Box::new(io::Cursor::new(vec![7; 300_000]).chain(Breaks))),
                Self::Nothing => Err("nobody is there".into()),
            }
        }
    }

    #[tokio::test]
    async fn what_cannot_be_given_is_missing_and_said() {
        let folder = tempfile::tempdir().unwrap();
        let store = Folder::new(folder.path());
        let draft = store.begin(Uuid::now_v7(), "2026-11-25T12-00-00.000Z-00000000").unwrap();
        let feed = |gives: Gives, name: &str| Feed {
            giver: Arc::new(gives),
            name: name.to_owned(),
            holds: Holds::PluginFiles,
            of: "weather".to_owned(),
            words: String::new(),
            is_secret: false,
        };
        let all = fed(feed(Gives::All, "a.tar"), &draft, None).await.unwrap().unwrap();
        assert_eq!((all.bytes, all.of.as_deref()), (9, Some("weather")));
        for (gives, why) in
            [(Gives::Half, "the giver is gone"), (Gives::Nothing, "nobody is there")]
        {
            let said = fed(feed(gives, "b.tar"), &draft, None).await.unwrap().unwrap_err();
            assert_eq!(said, why);
            assert!(!draft.path("b.tar").exists(), "nothing of it is left");
        }
        let place = fed(feed(Gives::All, "a.tar"), &draft, None).await;
        assert!(place.is_err(), "a place that fails is no giver that does");
    }
}
