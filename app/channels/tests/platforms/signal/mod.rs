//! The channel against a scripted daemon of signal-cli.

mod hearing;
mod linking;
mod sending;

use crate::support::Files;
use famulus_channels::signal::{Config, Signal as Channel};
use famulus_core::{
    blob::Blobs,
    ids::{ConversationId, OutboundId, PersonId},
    inbound::Address,
    outbound::Outbound,
};
use famulus_scripted_signal::{Signal, User};
use std::sync::Arc;

pub(crate) struct Bench {
    pub(crate) signal: Signal,
    pub(crate) channel: Channel,
    pub(crate) files: Arc<Files>,
    pub(crate) ada: User,
}

impl Bench {
    /// An account of the assistant's own.
    pub(crate) async fn new() -> Self {
        Self::with(true).await
    }

    pub(crate) async fn with(serves_everybody: bool) -> Self {
        let signal = Signal::start().await.unwrap();
        let files = Arc::new(Files::default());
        let config = Config {
            url: Some(signal.base_url().parse().unwrap()),
            serves_everybody,
            ..Config::default()
        };
        let blobs = Arc::clone(&files) as Arc<dyn Blobs>;
        let channel = Channel::new(config, blobs).unwrap().unwrap();
        Self { signal, channel, files, ada: User::new(7, "Ada") }
    }

    pub(crate) fn message(&self, markdown: &str) -> Outbound {
        Outbound {
            id: OutboundId::new(),
            person: Some(PersonId::new()),
            conversation: Some(ConversationId::new()),
            to: Address {
                channel: "signal".into(),
                account: self.signal.account(),
                chat: self.ada.id.clone(),
                thread: None,
                reply_to: None,
            },
            markdown: markdown.to_owned(),
            buttons: Vec::new(),
            attachments: Vec::new(),
        }
    }
}
