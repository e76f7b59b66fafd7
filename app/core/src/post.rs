//! Messages that a tool sends: to whoever asks, or to somebody else by their name.

use crate::StoreError;
use crate::ids::{BlobId, ConversationId};
use crate::inbound::Address;
use crate::person::Person;
use crate::tool::CallKey;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

/// A message to be sent, once for its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    pub key: CallKey,
    /// In whose name, and whose files it holds.
    pub from: Person,
    pub conversation: ConversationId,
    pub to: Recipient,
    pub markdown: String,
    pub files: Vec<Enclosed>,
    /// Ways on which it may go.
    pub ways: Vec<Way>,
    /// Whether somebody said yes to the first message to whoever gets it.
    pub may_be_first: bool,
}

/// A stored file that goes with a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enclosed {
    pub id: BlobId,
    /// As it is shown; `file` without one.
    pub name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// The chat that the turn came from.
    Here(Address),
    /// In whose name it is sent: at home, else where they wrote last.
    Themselves,
    /// By the name of a person, or the platform's id of an account that is linked to one.
    Other(String),
}

/// A channel on which people are reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    pub channel: String,
    /// Whether files go there.
    pub takes_files: bool,
    /// Whether what a tool sends there stands for the reply of its turn.
    pub is_reply: bool,
}

/// It is on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Posted {
    pub channel: String,
    /// The name of whoever gets it.
    pub to: String,
}

/// Why a message was not sent; the words are for a model.
#[derive(Debug, thiserror::Error)]
pub enum PostError {
    #[error("nobody is called `{name}`, and no account has that id")]
    Nobody { name: String },
    #[error("several people are called `{name}`; give the id of an account instead")]
    Several { name: String },
    #[error("`{name}` is disabled and hears nothing")]
    Disabled { name: String },
    #[error("`{name}` is not reached there: they have to write to us first")]
    NotReached { name: String },
    #[error(
        "`{name}` was not written to before; call with the action send_first, which asks the owner"
    )]
    First { name: String },
    #[error("file {id} is not stored, or belongs to somebody else")]
    NoFile { id: BlobId },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The outbox, as tools use it.
#[async_trait]
pub trait Post: Send + Sync + 'static {
    /// Puts a message on its way.
    ///
    /// # Errors
    /// Nothing was sent.
    async fn post(&self, letter: &Letter) -> Result<Posted, PostError>;
}
