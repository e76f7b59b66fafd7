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
    keeper::{Keeper, Pieces},
    kept::{Keeps, Rest},
};
use futures::{StreamExt, stream};
use std::{
    error::Error,
    io::{self, Read},
    sync::Arc,
    time::Duration,
};
use tokio::{runtime::Handle, task::spawn_blocking};

/// A runner that has to be started for a backup has this long; an image may have to be fetched.
pub(super) const FOR_A_RUNNER: Duration = Duration::from_mins(3);
/// Where somebody waits for an update it has less: an older operator may not let a backup ask at all.
pub(super) const BEFORE_AN_UPDATE: Duration = Duration::from_secs(20);
/// One whose revision has to be built first has longer.
pub(super) const FOR_A_BUILD: Duration = Duration::from_mins(30);

/// What is read at once.
const PIECE: usize = 64 * 1024;

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
        Ok(Box::new(Reader { pieces, piece: Bytes::new(), runtime: Handle::current() }))
    }
}

#[async_trait]
impl Giver for Configuration {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        let bytes = self.keeper.configuration(&self.plugin).await?;
        Ok(Box::new(io::Cursor::new(bytes)))
    }
}

/// What is asked of the runners, and in words what is not.
pub(super) fn feeds(keeper: &Keeper, keeps: &[Keeps]) -> (Vec<Feed>, Vec<String>) {
    let (mut feeds, mut leaves_out) = (Vec::new(), Vec::new());
    for Keeps { plugin, files, configuration, suspended } in keeps {
        let of_files = format!("the files of the plugin {plugin}");
        let of_configuration = format!("the configuration of the plugin {plugin}");
        if *suspended {
            for (_, words) in
                [(files, of_files), (configuration, of_configuration)].iter().filter(|it| *it.0)
            {
                leaves_out.push(format!("{words}: it is suspended, and nothing of it runs"));
            }
            continue;
        }
        let (keeper, of) = (keeper.clone(), plugin.clone());
        if *configuration {
            let giver = Configuration { keeper: keeper.clone(), plugin: of.clone() };
            feeds.push(Feed {
                giver: Arc::new(giver),
                name: format!("configuration-{of}.json"),
                holds: Holds::PluginConfiguration,
                of: of.clone(),
                words: of_configuration,
                is_secret: true,
            });
        }
        if *files {
            feeds.push(Feed {
                name: format!("files-{of}.tar"),
                holds: Holds::PluginFiles,
                of: of.clone(),
                giver: Arc::new(Files { keeper, plugin: of }),
                words: of_files,
                is_secret: false,
            });
        }
    }
    (feeds, leaves_out)
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
fn pieces(source: Box<dyn Read + Send>) -> Pieces {
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

/// Reads pieces. Only for threads that may block.
struct Reader {
    pieces: Pieces,
    piece: Bytes,
    runtime: Handle,
}

impl Read for Reader {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() {
            match self.runtime.block_on(self.pieces.next()) {
                Some(piece) => self.piece = piece?,
                None => return Ok(0),
            }
        }
        let length = to.len().min(self.piece.len());
        to[..length].copy_from_slice(&self.piece.split_to(length));
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_comes_in_pieces_is_read_as_it_was() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|number| (number % 251) as u8).collect();
        let pieces = pieces(Box::new(io::Cursor::new(bytes.clone())));
        let mut reader = Reader { pieces, piece: Bytes::new(), runtime: Handle::current() };
        let read = spawn_blocking(move || {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).map(|_length| read)
        });
        assert_eq!(read.await.unwrap().unwrap(), bytes);
    }
}
