//! Telegram, by its Bot API: `telegram` in addresses.
//!
//! ```text
//! getUpdates (long poll) ─► kept ─► read ─► core's words
//! Markdown ─► styled ─► pieces ─► HTML ─► sendMessage, sendPhoto, ...
//! ```
//!
//! Our account is the bot's id, a chat is Telegram's number for it, a person's account is their user id,
//! which nobody can change; names and usernames prove nothing.

mod client;
mod content;
mod edit;
mod entities;
mod grow;
mod html;
mod listen;
mod read;
mod redact;
mod send;
mod wire;

use crate::{
    http::outbound::SetupError,
    rules::{OwnerActs, Rules},
};
use async_trait::async_trait;
use client::Client;
use famulus_core::{
    blob::Blobs,
    ids::TurnId,
    inbound::Address,
    intake::Listener,
    outbound::{Capabilities, Channel, Delivered, Outbound, SendError},
    pairing::Access,
};
use grow::Drafts;
use listen::TelegramListener;
use secrecy::SecretString;
use serde::Deserialize;
use std::sync::Arc;
use url::Url;

/// The channel's name in addresses.
pub const NAME: &str = "telegram";

/// The section `[channels.telegram]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of the bot, as BotFather gave it; without one there is no channel.
    pub token: Option<SecretString>,
    /// Of a Bot API server of one's own.
    pub base_url: Option<Url>,
    /// How strangers are met.
    pub access: Access,
    /// User ids that are let in without a code, as contacts; `*` is everybody.
    pub allow: Vec<String>,
    /// Whether the owner's account may do what only the owner may.
    pub owner_acts: OwnerActs,
}

impl Config {
    pub fn rules(&self) -> Rules {
        let Self { access, allow, owner_acts, .. } = self;
        Rules { access: *access, allow: allow.clone(), owner_acts: *owner_acts }
    }
}

const BASE: &str = "https://api.telegram.org";

/// The channel named `telegram`.
pub struct Telegram {
    client: Arc<Client>,
    blobs: Arc<dyn Blobs>,
    listener: Arc<TelegramListener>,
    drafts: Drafts,
}

impl Telegram {
    /// Reads the section; without a token there is none.
    ///
    /// # Errors
    /// The section cannot be used.
    pub fn new(config: Config, blobs: Arc<dyn Blobs>) -> Result<Option<Self>, SetupError> {
        let Config { token, base_url, allow, .. } = config;
        let Some(token) = token else { return Ok(None) };
        let base = match base_url {
            Some(base) => base,
            None => BASE.parse().map_err(|_| SetupError::TelegramAddress)?,
        };
        let plain = matches!(base.scheme(), "http" | "https")
            && base.username().is_empty()
            && base.password().is_none()
            && base.query().is_none();
        if !plain {
            return Err(SetupError::TelegramAddress);
        }
        let is_id = |id: &String| id == "*" || id.parse::<i64>().is_ok_and(|id| id > 0);
        if let Some(odd) = allow.iter().find(|id| !is_id(id)) {
            return Err(SetupError::TelegramAllow(odd.clone()));
        }
        let client = Arc::new(Client::new(base, token).map_err(SetupError::Client)?);
        let listener = Arc::new(TelegramListener::new(Arc::clone(&client)));
        Ok(Some(Self { client, blobs, listener, drafts: Drafts::default() }))
    }
}

#[async_trait]
impl Channel for Telegram {
    fn name(&self) -> &str {
        NAME
    }

    fn capabilities(&self) -> Capabilities {
        send::CAPABILITIES
    }

    fn pieces(&self, message: &Outbound) -> usize {
        send::pieces(message).len()
    }

    async fn edit(&self, message: &Outbound, ids: &[String]) -> Result<(), SendError> {
        edit::edit(&self.client, message, ids).await
    }

    fn grows(&self) -> bool {
        true
    }

    async fn grow(&self, to: &Address, turn: TurnId, so_far: &str) -> Result<(), SendError> {
        self.drafts.grow(&self.client, to, turn, so_far).await
    }

    async fn send(&self, message: &Outbound, piece: usize) -> Result<Delivered, SendError> {
        match send::pieces(message).get(piece) {
            Some(piece) => send::send(&self.client, self.blobs.as_ref(), message, piece).await,
            None => Ok(Delivered::default()),
        }
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        Some(Arc::clone(&self.listener) as Arc<dyn Listener>)
    }
}
