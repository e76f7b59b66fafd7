//! What the plugins of a cluster keep, on its way into a backup and out of it.

use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use famulus_backup::{
    backups::Backups,
    manifest::{Holds, Manifest, Part},
    restore as parts,
    seal::Identities,
    take::{Feed, Giver},
};
use famulus_cluster::{
    keeper::{Keeper, Patience, Pieces},
    kept::{Keeps, Rest},
};
use futures::{StreamExt, stream};
use std::{
    collections::BTreeMap,
    error::Error,
    io::{self, Read},
    sync::Arc,
    time::Duration,
};
use tokio::{
    runtime::Handle,
    task::spawn_blocking,
    time::{Instant, timeout_at},
};

/// A runner that has to be started for a backup may have to fetch its image; the longest call of a tool
/// takes five minutes.
pub(super) const FOR_A_BACKUP: Patience =
    Patience { runner: Duration::from_mins(3), answer: Duration::from_mins(7) };
/// Where somebody waits for an update it has less: an older operator may not let a backup ask at all.
pub(super) const BEFORE_AN_UPDATE: Patience =
    Patience { runner: Duration::from_secs(20), answer: Duration::from_secs(20) };
/// One whose revision has to be built first has longer.
pub(super) const FOR_A_RESTORE: Patience =
    Patience { runner: Duration::from_mins(30), answer: LONGEST };

/// What is read at once.
const PIECE: usize = 64 * 1024;

/// What a plugin keeps has so much room in a backup, and so long to come: one that sends without end must
/// not keep the backup of everything else from its end.
pub(super) const MOST_BYTES: u64 = 20 * 1024 * 1024 * 1024;
pub(super) const LONGEST: Duration = Duration::from_mins(20);

#[derive(Debug)]
struct Files {
    keeper: Keeper,
    plugin: String,
}

#[derive(Debug)]
struct Configuration {
    keeper: Keeper,
    plugin: String,
}

#[async_trait]
impl Giver for Files {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        let pieces = self.keeper.files(&self.plugin).await?;
        Ok(Box::new(Reader::new(pieces, MOST_BYTES, LONGEST)))
    }
}

#[async_trait]
impl Giver for Configuration {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        let bytes = self.keeper.configuration(&self.plugin).await?;
        // What cannot be read would be in the way of all Plugins that are restored.
        let _texts: BTreeMap<String, String> = serde_json::from_slice(&bytes)?;
        Ok(Box::new(io::Cursor::new(bytes)))
    }
}

/// What is asked of the runners, and in words what is not.
pub(super) fn feeds(keeper: &Keeper, keeps: &[Keeps]) -> (Vec<Feed>, Vec<String>) {
    let (mut feeds, mut leaves_out) = (Vec::new(), Vec::new());
    for Keeps { plugin, files, configuration, suspended } in keeps {
        if *suspended {
            let kept = [(files, files_of(plugin)), (configuration, configuration_of(plugin))];
            for (_, words) in kept.iter().filter(|it| *it.0) {
                leaves_out.push(format!("{words}: it is suspended, and nothing of it runs"));
            }
            continue;
        }
        let (keeper, of) = (keeper.clone(), plugin.clone());
        if *configuration {
            let giver = Configuration { keeper: keeper.clone(), plugin: of.clone() };
            feeds.push(self::configuration(plugin, Arc::new(giver)));
        }
        if *files {
            feeds.push(self::files(plugin, Arc::new(Files { keeper, plugin: of })));
        }
    }
    (feeds, leaves_out)
}

fn files_of(plugin: &str) -> String {
    format!("the files of the plugin {plugin}")
}

fn configuration_of(plugin: &str) -> String {
    format!("the configuration of the plugin {plugin}")
}

/// The part of a backup that holds the files of a plugin.
pub(super) fn files(plugin: &str, giver: Arc<dyn Giver>) -> Feed {
    Feed {
        giver,
        name: format!("files-{plugin}.tar"),
        holds: Holds::PluginFiles,
        of: plugin.to_owned(),
        words: files_of(plugin),
        is_secret: false,
    }
}

/// The part of a backup that holds what a plugin is configured by.
pub(super) fn configuration(plugin: &str, giver: Arc<dyn Giver>) -> Feed {
    Feed {
        giver,
        name: format!("configuration-{plugin}.json"),
        holds: Holds::PluginConfiguration,
        of: plugin.to_owned(),
        words: configuration_of(plugin),
        is_secret: true,
    }
}

/// What a backup has of Plugins besides themselves.
pub(super) async fn rest(
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    identities: Option<&Arc<Identities>>,
) -> anyhow::Result<Rest> {
    let mut rest = Rest { backup: name.to_owned(), ..Rest::default() };
    for part in manifest.parts(Holds::PluginFiles) {
        rest.files.extend(part.of.clone());
    }
    for part in manifest.parts(Holds::PluginConfiguration) {
        let values = parts::whole(backups, name, part, identities.cloned()).await?;
        rest.configurations.extend(part.of.clone().map(|of| (of, values)));
    }
    Ok(rest)
}

/// Gives a plugin its files.
pub(super) async fn give_back(
    keeper: &Keeper,
    plugin: &str,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    identities: Option<&Arc<Identities>>,
) -> anyhow::Result<()> {
    let of = |part: &&Part| part.of.as_deref() == Some(plugin);
    let part = manifest.parts(Holds::PluginFiles).find(of);
    let part = part.with_context(|| format!("{name} has no files of it"))?;
    let files = async || {
        let source = parts::large(backups, name, part, identities.cloned()).await?;
        anyhow::Ok(pieces(source))
    };
    keeper.give_back(plugin, files).await
}

/// What a thread reads that may block.
pub(super) fn pieces(source: Box<dyn Read + Send>) -> Pieces {
    let read = async |mut source: Box<dyn Read + Send>| {
        let read = spawn_blocking(move || {
            let mut piece = vec![0; PIECE];
            let length = source.read(&mut piece)?;
            piece.truncate(length);
            Ok((length > 0).then(|| (Bytes::from(piece), source)))
        });
        read.await.map_err(io::Error::other)?
    };
    stream::try_unfold(source, read).boxed()
}

/// Reads pieces, up to a number of bytes and a time. Only for threads that may block.
pub(super) struct Reader {
    pieces: Pieces,
    piece: Bytes,
    runtime: Handle,
    left: u64,
    most: u64,
    patience: Duration,
    until: Instant,
}

impl Reader {
    pub(super) fn new(pieces: Pieces, most: u64, patience: Duration) -> Self {
        let (runtime, until) = (Handle::current(), Instant::now() + patience);
        Self { pieces, piece: Bytes::new(), runtime, left: most, most, patience, until }
    }
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            let next = async { timeout_at(self.until, self.pieces.next()).await };
            match self.runtime.block_on(next) {
                Ok(Some(piece)) => self.piece = piece?,
                Ok(None) => return Ok(0),
                Err(_late) => {
                    let minutes = self.patience.as_secs() / 60;
                    return Err(io::Error::other(format!("it did not end within {minutes} min")));
                }
            }
            let Some(left) = self.left.checked_sub(self.piece.len() as u64) else {
                let mib = self.most / (1024 * 1024);
                return Err(io::Error::other(format!("it is more than {mib} MiB")));
            };
            self.left = left;
        }
        let length = to.len().min(self.piece.len());
        to[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(mut reader: Reader) -> Result<Vec<u8>, String> {
        let read = spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_length| read)
        });
        read.await.unwrap().map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn what_comes_in_pieces_is_read_as_it_was() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let source = || pieces(Box::new(io::Cursor::new(bytes.clone())));
        let all = Reader::new(source(), 200_000, LONGEST);
        assert_eq!(read(all).await.unwrap(), bytes);
        let less = Reader::new(source(), 199_999, LONGEST);
        assert_eq!(read(less).await.unwrap_err(), "it is more than 0 MiB");
    }

    #[tokio::test]
    async fn who_sends_without_end_is_given_up() {
        let slow = || stream::once(async { Ok(Bytes::from_static(b"x")) });
        let endless = slow().chain(stream::pending()).boxed();
        let patience = Duration::from_millis(50);
        let said = read(Reader::new(endless, MOST_BYTES, patience)).await.unwrap_err();
        assert_eq!(said, "it did not end within 0 min");
        let endless = stream::repeat_with(|| Ok(Bytes::from_static(&[0; 1024]))).boxed();
        assert!(read(Reader::new(endless, 1 << 20, LONGEST)).await.is_err());
    }
}
