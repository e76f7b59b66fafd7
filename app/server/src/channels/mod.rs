//! The chat channels: which there are, who listens to them, and what becomes of what is heard.

mod arrivals;
mod growing;
mod intake;
mod listeners;

pub(crate) use arrivals::ArrivalWorker;
pub(crate) use growing::Growing;
pub(crate) use intake::Intake;
pub(crate) use listeners::listen;

use crate::config;
use famulus_agent::Channels;
use famulus_channels::{
    Rules,
    http::outbound::{HttpChannel, SetupError},
    signal::Signal,
    telegram::Telegram,
};
use famulus_core::{
    blob::Blobs,
    linking::Linker,
    outbound::{Channel, ReplyRule},
    post::Way,
};
use famulus_store::Homes;
use std::{collections::BTreeMap, sync::Arc, time::Duration};

/// The channels, and the rules of those that hear.
pub(crate) struct All {
    pub(crate) channels: Channels,
    pub(crate) rules: BTreeMap<String, Rules>,
}

/// Every channel that is configured. A new one is a line here.
pub(crate) fn all(config: &config::Channels, blobs: Arc<dyn Blobs>) -> Result<All, SetupError> {
    let mut chats = Chats::default();
    chats.add(Signal::new(config.signal.clone(), blobs.clone())?, config.signal.rules());
    chats.add(Telegram::new(config.telegram.clone(), blobs)?, config.telegram.rules());
    let http: Arc<dyn Channel> = Arc::new(HttpChannel::new(config.http.clone())?);
    let Chats { mut channels, rules } = chats;
    channels.insert(http.name().to_owned(), http);
    Ok(All { channels: Arc::new(channels), rules })
}

/// Channels that hear what people write.
#[derive(Default)]
struct Chats {
    channels: BTreeMap<String, Arc<dyn Channel>>,
    rules: BTreeMap<String, Rules>,
}

impl Chats {
    /// One that is configured.
    fn add(&mut self, channel: Option<impl Channel>, rules: Rules) {
        if let Some(channel) = channel {
            self.rules.insert(channel.name().to_owned(), rules);
            self.channels.insert(channel.name().to_owned(), Arc::new(channel));
        }
    }
}

/// When something that waited for so long is looked at again, here or elsewhere, because this process has
/// no such channel: several times before the wait has doubled, since it may be this one that looks again.
pub(crate) fn elsewhere(waited: Duration) -> Duration {
    (waited / 8).clamp(Duration::from_secs(1), Duration::from_mins(1))
}

/// Who links accounts, by the channel's name.
pub(crate) fn linkers(channels: &Channels) -> BTreeMap<String, Arc<dyn Linker>> {
    let all = channels.iter();
    all.filter_map(|(name, channel)| Some((name.clone(), channel.linker()?))).collect()
}

/// Where people are reached, and the channels whose replies stay in their conversations.
pub(crate) fn homes(channels: &Channels) -> Homes {
    let chats = ways(channels).into_iter().map(|way| way.channel).collect();
    let all = channels.iter();
    let kept = all.filter(|(_, channel)| channel.capabilities().reply == ReplyRule::Kept);
    Homes { chats, kept: kept.map(|(name, _)| name.clone()).collect() }
}

/// The channels on which people are reached: those on which they are heard.
pub(crate) fn ways(channels: &Channels) -> Vec<Way> {
    let hearing = channels.iter().filter(|(_, channel)| channel.listener().is_some());
    hearing
        .map(|(name, channel)| {
            let capabilities = channel.capabilities();
            Way {
                channel: name.clone(),
                takes_files: capabilities.attachments,
                is_reply: capabilities.reply == ReplyRule::SendTool,
            }
        })
        .collect()
}
