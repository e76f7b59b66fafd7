//! Signal, by the daemon of signal-cli: `signal` in addresses.
//!
//! ```text
//! events (one stream) ─► kept, each before the next ─► read ─► core's words
//! Markdown ─► styled ─► text and ranges ─► send
//! ```
//!
//! Our account, and everybody else's, is an account id, which never changes; a number is only an address. The
//! daemon is a program of its own, which the installation starts and nobody else reaches.

mod client;
mod content;
mod link;
mod listen;
mod numbers;
mod ranges;
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
    linking::{Linker, is_number},
    outbound::{Capabilities, Channel, Delivered, Outbound, SendError},
    pairing::Access,
};
use link::SignalLinker;
use listen::SignalListener;
use read::{Serves, is_account};
use serde::Deserialize;
use std::sync::Arc;
use url::Url;

/// The channel's name in addresses.
pub const NAME: &str = "signal";

/// The section `[channels.signal]`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Of the daemon; without one there is no channel.
    pub url: Option<Url>,
    /// The number of ours, where the daemon has several.
    pub account: Option<String>,
    /// Whether the account is the assistant's alone. A person's own serves what they write to themselves,
    /// and nobody else who writes to them.
    pub serves_everybody: bool,
    /// How strangers are met.
    pub access: Access,
    /// Account ids, and numbers, that are let in without a code, as contacts; `*` is everybody.
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

/// The channel named `signal`.
pub struct Signal {
    client: Arc<Client>,
    blobs: Arc<dyn Blobs>,
    listener: Arc<SignalListener>,
    serves: Serves,
}

impl Signal {
    /// Reads the section; without the daemon's address there is none.
    ///
    /// # Errors
    /// The section cannot be used.
    pub fn new(config: Config, blobs: Arc<dyn Blobs>) -> Result<Option<Self>, SetupError> {
        let Config { url, account, serves_everybody, allow, .. } = config;
        let Some(url) = url else { return Ok(None) };
        let plain = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none();
        if !plain {
            return Err(SetupError::SignalAddress);
        }
        let fits = |who: &&String| *who == "*" || is_account(who) || is_number(who);
        if let Some(odd) = allow.iter().find(|who| !fits(who)) {
            return Err(SetupError::SignalAllow(odd.clone()));
        }
        let serves = if serves_everybody { Serves::All } else { Serves::Themselves };
        let client = Arc::new(Client::new(url, account).map_err(SetupError::Client)?);
        let listener = Arc::new(SignalListener::new(Arc::clone(&client), serves));
        Ok(Some(Self { client, blobs, listener, serves }))
    }
}

#[async_trait]
impl Channel for Signal {
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
        send::edit(&self.client, message, ids).await
    }

    /// Whoever writes to themselves need not be shown that somebody writes.
    fn grows(&self) -> bool {
        self.serves == Serves::All
    }

    async fn grow(&self, to: &Address, _: TurnId, _: &str) -> Result<(), SendError> {
        send::typing(&self.client, &to.chat).await
    }

    async fn send(&self, message: &Outbound, piece: usize) -> Result<Delivered, SendError> {
        match send::pieces(message).get(piece) {
            Some(piece) => send::send(&self.client, self.blobs.as_ref(), message, piece).await,
            None => Ok(Delivered::default()),
        }
    }

    fn linker(&self) -> Option<Arc<dyn Linker>> {
        Some(Arc::new(SignalLinker::new(Arc::clone(&self.client))))
    }

    fn listener(&self) -> Option<Arc<dyn Listener>> {
        Some(Arc::clone(&self.listener) as Arc<dyn Listener>)
    }
}
