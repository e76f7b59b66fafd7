//! What the plugins of one machine keep, on its way into a backup and out of it.

use super::{
    home::{Home, Where},
    keeping::{BEFORE_AN_UPDATE, LONGEST, MOST_BYTES, Reader, configuration, files},
};
use crate::say;
use anyhow::Context;
use async_trait::async_trait;
use bytes::Bytes;
use famulus_backup::{
    backups::Backups,
    manifest::{Holds, Manifest, Part},
    restore as parts,
    take::{Feed, Giver},
};
use famulus_cluster::keeper::Patience;
use famulus_lifecycle::Tasks;
use famulus_machine::Copies;
use famulus_store::PluginThere;
use futures::{StreamExt, stream};
use serde_json::{Map, Value};
use std::{
    error::Error,
    io::{self, Read},
    sync::Arc,
};
use tokio::task::spawn_blocking;

#[derive(Debug)]
struct Files {
    copies: Copies,
    plugin: PluginThere,
}

#[derive(Debug)]
struct Configuration(Copies, PluginThere);

#[async_trait]
impl Giver for Files {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        let given = self.copies.files(&self.plugin.name, &self.plugin.uid).await?;
        let pieces = stream::try_unfold(given, async |mut given| {
            let piece = given.next().await.map_err(io::Error::other)?;
            Ok(piece.map(|piece| (Bytes::from(piece), given)))
        });
        Ok(Box::new(Reader::new(pieces.boxed(), MOST_BYTES, LONGEST)))
    }
}

#[async_trait]
impl Giver for Configuration {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        let values = self.0.configured(&self.1.uid)?;
        Ok(Box::new(io::Cursor::new(serde_json::to_vec(&values)?)))
    }
}

/// What is asked of the plugins' folders, and in words what is not.
pub(super) fn feeds(
    copies: &Copies,
    there: &[PluginThere],
    patience: Patience,
) -> anyhow::Result<(Vec<Feed>, Vec<String>)> {
    let (mut feeds, mut leaves_out) = (Vec::new(), Vec::new());
    for plugin in there {
        let (name, copies) = (&plugin.name, copies.clone());
        if !copies.configured(&plugin.uid)?.is_empty() {
            let giver = Configuration(copies.clone(), plugin.clone());
            feeds.push(configuration(name, Arc::new(giver)));
        }
        if !copies.has_served(&plugin.uid) {
            continue;
        }
        if patience == BEFORE_AN_UPDATE {
            leaves_out.push(format!("the files of the plugin {name}: an update changes none"));
            continue;
        }
        feeds.push(files(name, Arc::new(Files { copies, plugin: plugin.clone() })));
    }
    Ok((feeds, leaves_out))
}

/// Gives plugins back what they kept: their configuration at once, and their files when they are built again.
pub(super) async fn give_back(
    home: &Home,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    there: &[PluginThere],
) -> anyhow::Result<()> {
    let Where::Machine(settings) = &home.plugins else { return Ok(()) };
    let copies = Copies::new(settings.clone(), &Tasks::new());
    let back = Back { home, copies, backups, name };
    let mut without = Vec::new();
    for holds in [Holds::PluginConfiguration, Holds::PluginFiles] {
        for part in manifest.parts(holds) {
            let plugin = there.iter().find(|plugin| part.of.as_ref() == Some(&plugin.name));
            let Some(plugin) = plugin else { continue };
            let (given, words) = if holds == Holds::PluginConfiguration {
                (back.configuration(part, plugin).await, "is configured as it was")
            } else {
                let words = "has its files when `famulus up` has built it again";
                (back.files(part, plugin).await, words)
            };
            match given {
                Ok(()) => say::line(&format!("  The plugin {} {words}.", plugin.name)),
                Err(error) => without.push(format!("{} ({error:#})", plugin.name)),
            }
        }
    }
    anyhow::ensure!(
        without.is_empty(),
        "these plugins have not everything back: {}; see to the cause, and begin again",
        without.join(", ")
    );
    Ok(())
}

/// What gives plugins back what a backup has.
struct Back<'a> {
    home: &'a Home,
    copies: Copies,
    backups: &'a Backups,
    /// Of the backup.
    name: &'a str,
}

impl Back<'_> {
    async fn configuration(&self, part: &Part, plugin: &PluginThere) -> anyhow::Result<()> {
        let bytes = parts::whole(self.backups, self.name, part, self.home.identities()?).await?;
        let values: Map<String, Value> =
            serde_json::from_slice(&bytes).context("its configuration cannot be read")?;
        Ok(self.copies.configure(&plugin.uid, values)?)
    }

    async fn files(&self, part: &Part, plugin: &PluginThere) -> anyhow::Result<()> {
        let files = parts::large(self.backups, self.name, part, self.home.identities()?).await?;
        let (copies, uid) = (self.copies.clone(), plugin.uid.clone());
        Ok(spawn_blocking(move || copies.give_back(&uid, files)).await??)
    }
}
