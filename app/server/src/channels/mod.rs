//! The chat channels: which there are, who listens to them, and what becomes of what is heard.

mod arrivals;
mod growing;
mod listeners;

pub(crate) use arrivals::ArrivalWorker;
pub(crate) use growing::Growing;
pub(crate) use listeners::listen;

use crate::config;
use famulus_agent::Channels;
use famulus_channels::{
    http::outbound::{HttpChannel, SetupError},
    telegram::{self, Telegram},
};
use famulus_core::{
    blob::Blobs,
    outbound::{Channel, ReplyRule},
    pairing::Access,
    post::Way,
};
use std::{collections::BTreeMap, sync::Arc};

/// What holds for who writes on a channel.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    pub(crate) access: Access,
    pub(crate) allow: Vec<String>,
    pub(crate) owner_acts: bool,
}

/// The channels, and the rules of those that hear.
pub(crate) struct All {
    pub(crate) channels: Channels,
    pub(crate) rules: BTreeMap<String, Rules>,
}

/// Every channel that is configured. A new one is a line here.
pub(crate) fn all(config: &config::Channels, blobs: Arc<dyn Blobs>) -> Result<All, SetupError> {
    let mut channels: Vec<Arc<dyn Channel>> =
        vec![Arc::new(HttpChannel::new(config.http.clone())?)];
    let mut rules = BTreeMap::new();
    if let Some(telegram) = Telegram::new(config.telegram.clone(), blobs)? {
        channels.push(Arc::new(telegram));
        let telegram::Config { access, allow, owner_acts, .. } = config.telegram.clone();
        let of = Rules { access, allow, owner_acts: owner_acts.0 };
        rules.insert(telegram::NAME.to_owned(), of);
    }
    let named = channels.into_iter().map(|channel| (channel.name().to_owned(), channel));
    Ok(All { channels: Arc::new(named.collect()), rules })
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
