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
mod entities;
mod html;
mod listen;
mod read;
mod send;
mod wire;

use crate::http::outbound::SetupError;
use client::Client;
use famulus_core::{
    blob::Blobs,
    intake::Listener,
    outbound::{Capabilities, Delivered, Outbound, SendError},
};
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
}

const BASE: &str = "https://api.telegram.org";

/// The channel named `telegram`.
pub struct Telegram {
    client: Arc<Client>,
    blobs: Arc<dyn Blobs>,
    listener: Arc<TelegramListener>,
}

impl Telegram {
    /// Reads the section; without a token there is none.
    ///
    /// # Errors
    /// The section cannot be used.
    pub fn new(config: Config, blobs: Arc<dyn Blobs>) -> Result<Option<Self>, SetupError> {
        let Config { token, base_url } = config;
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
        let client = Arc::new(Client::new(base, token).map_err(SetupError::Client)?);
        let listener = Arc::new(TelegramListener::new(Arc::clone(&client)));
        Ok(Some(Self { client, blobs, listener }))
    }
}

impl Telegram {
    /// What it can do.
    pub fn capabilities(&self) -> Capabilities {
        send::CAPABILITIES
    }

    /// Messages of Telegram that a message becomes: always the same of the same message.
    pub fn pieces(&self, message: &Outbound) -> usize {
        send::pieces(message).len()
    }

    /// Hands one of them over, counted from 0.
    ///
    /// # Errors
    /// It was not sent, may have been, or never will be.
    pub async fn send(&self, message: &Outbound, piece: usize) -> Result<Delivered, SendError> {
        match send::pieces(message).get(piece) {
            Some(piece) => send::send(&self.client, self.blobs.as_ref(), message, piece).await,
            None => Ok(Delivered::default()),
        }
    }

    /// Who hears what people write to the bot.
    pub fn listener(&self) -> Arc<dyn Listener> {
        Arc::clone(&self.listener) as Arc<dyn Listener>
    }
}
