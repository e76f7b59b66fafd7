//! What the daemons of channels keep, on its way into a backup and out of it; and `famulus hold`, which stands
//! beside such a daemon.

use super::{
    home::Home,
    keeping::{LONGEST, Reader, pieces},
};
use crate::{args::HoldArgs, config, paths::Paths, say, up};
use anyhow::Context;
use async_trait::async_trait;
use famulus_backup::{
    Held,
    backups::Backups,
    manifest::{Holds, Manifest, Part},
    restore as parts,
    take::{Feed, Giver},
};
use famulus_held::{Client, Holder, LAYOUTS, Layout, Taken, of_the_pod};
use famulus_lifecycle::Signals;
use std::{
    collections::BTreeMap, error::Error, io::Read, path::PathBuf, sync::Arc, time::Duration,
};
use tokio::net::TcpListener;

/// Accounts, keys and contacts are far smaller.
const MOST_BYTES: u64 = 1024 * 1024 * 1024;
/// Somebody who restores waits for a daemon that has to be fetched first.
const FOR_A_RESTORE: Duration = Duration::from_mins(10);

#[derive(Debug)]
struct Kept {
    client: Client,
}

#[async_trait]
impl Giver for Kept {
    async fn open(&self) -> Result<Box<dyn Read + Send>, Box<dyn Error + Send + Sync>> {
        Ok(Box::new(Reader::new(self.client.give().await?, MOST_BYTES, LONGEST)))
    }
}

/// Refuses channels whose daemons keep nothing.
pub(super) fn checked(channels: &BTreeMap<String, Held>) -> anyhow::Result<()> {
    match channels.keys().find(|channel| Layout::of(channel).is_none()) {
        None => Ok(()),
        Some(odd) => anyhow::bail!(
            "`backup.channels.{odd}` names no channel whose daemon keeps something; there is {}",
            LAYOUTS.map(|layout| layout.channel).join(", ")
        ),
    }
}

/// What is asked of the daemons that the configuration names.
pub(super) fn feeds(home: &Home, patience: Duration) -> anyhow::Result<Vec<Feed>> {
    let mut feeds = Vec::new();
    for (channel, held) in &home.config.channels {
        let client = Client::new(&held.url, &held.key_file, patience)?;
        feeds.push(Feed {
            giver: Arc::new(Kept { client }),
            name: format!("channel-{channel}.tar"),
            holds: Holds::ChannelFiles,
            of: channel.clone(),
            words: format!("the accounts of the channel {channel}, with their keys"),
            is_secret: true,
        });
    }
    Ok(feeds)
}

/// Gives daemons without an account what they kept.
pub(super) async fn give_back(
    home: &Home,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
) -> anyhow::Result<()> {
    let mut without = Vec::new();
    for part in manifest.parts(Holds::ChannelFiles) {
        let Some(channel) = &part.of else { continue };
        let Some(held) = home.config.channels.get(channel) else {
            say::line(&format!(
                "  The accounts of the channel {channel} are in {name}, and `backup.channels.{channel}` names \
                 no daemon to give them to."
            ));
            continue;
        };
        match taken(home, backups, name, part, held).await {
            Ok(Taken::Back) => say::line(&format!("  The channel {channel} has its accounts.")),
            Ok(Taken::There) => say::line(&format!(
                "  The channel {channel} has an account already, which stays as it is."
            )),
            Err(error) => without.push(format!("{channel} ({error:#})")),
        }
    }
    anyhow::ensure!(
        without.is_empty(),
        "these channels have no account yet: {}; begin again, or link them anew",
        without.join(", ")
    );
    Ok(())
}

async fn taken(
    home: &Home,
    backups: &Backups,
    name: &str,
    part: &Part,
    held: &Held,
) -> anyhow::Result<Taken> {
    let identities = home.identities()?;
    let client = Client::new(&held.url, &held.key_file, FOR_A_RESTORE)?;
    let kept = async || {
        let source = parts::large(backups, name, part, identities.clone()).await?;
        anyhow::Ok(pieces(source))
    };
    client.take_back(kept).await
}

/// `famulus hold …`.
pub async fn hold(wanted: HoldArgs, file: Option<PathBuf>, places: Paths) -> anyhow::Result<()> {
    let HoldArgs { channel, folder, listen, key_file } = wanted;
    let layout = Layout::of(&channel);
    let layout = layout.with_context(|| format!("the daemon of {channel} keeps nothing"))?;
    // Whoever runs it elsewhere would stop all of a machine.
    of_the_pod().context("it runs in the Pod of a daemon, which shares its processes")?;
    let loaded = config::load(up::config_file(file, &places).as_deref())?;
    let _telemetry = famulus_telemetry::init(&loaded.telemetry)?;
    let holder = Holder::new(layout, &folder, &key_file, Arc::new(of_the_pod))
        .with_context(|| format!("the key cannot be read from {}", key_file.display()))?;
    let mut signals = Signals::install().context("signals cannot be received")?;
    let listener = TcpListener::bind(listen).await;
    let listener = listener.with_context(|| format!("{listen} cannot be listened to"))?;
    let end = async move {
        let _signal = signals.wait_for_signal().await;
    };
    Ok(holder.serve(listener, end).await?)
}
