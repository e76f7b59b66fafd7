//! A scripted Telegram, the channel that speaks to it, and what both keep.

use crate::support::Files;
use famulus_channels::telegram::{Config, Telegram as Channel};
use famulus_core::{
    blob::Blobs,
    ids::{ConversationId, OutboundId, PersonId},
    inbound::Address,
    outbound::Outbound,
};
use famulus_scripted_telegram::{Telegram, User};
use std::sync::Arc;

pub(crate) const TOKEN: &str = "99:a-secret-of-the-bot";

pub(crate) struct Bench {
    pub(crate) telegram: Telegram,
    pub(crate) channel: Channel,
    pub(crate) files: Arc<Files>,
    pub(crate) ada: User,
}

impl Bench {
    /// With somebody who has written to the bot.
    pub(crate) async fn new() -> Self {
        let telegram = Telegram::start(TOKEN).await.unwrap();
        let files = Arc::new(Files::default());
        let channel = channel(&telegram.base_url(), TOKEN, &files);
        let ada = User::new(7, "Ada");
        telegram.write(&ada, &ada.chat(), "/start");
        Self { telegram, channel, files, ada }
    }

    pub(crate) fn message(&self, markdown: &str) -> Outbound {
        Outbound {
            id: OutboundId::new(),
            person: Some(PersonId::new()),
            conversation: Some(ConversationId::new()),
            to: Address {
                channel: "telegram".into(),
                account: "99".into(),
                chat: self.ada.id.to_string(),
                thread: None,
                reply_to: None,
            },
            markdown: markdown.to_owned(),
            buttons: Vec::new(),
            attachments: Vec::new(),
        }
    }
}

pub(crate) fn channel(base: &str, token: &str, files: &Arc<Files>) -> Channel {
    let config = Config {
        token: Some(token.to_owned().into()),
        base_url: Some(base.parse().unwrap()),
        ..Config::default()
    };
    Channel::new(config, Arc::clone(files) as Arc<dyn Blobs>).unwrap().unwrap()
}
