//! Acceptance: everything that comes in passes here, and is acknowledged when its record is safe.

use crate::StoreError;
use crate::ids::{BlobId, ConversationId, MessageId, TurnId};
use crate::inbound::Inbound;
use async_trait::async_trait;
use std::time::Duration;

/// A message was stored (or had been before).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    pub conversation: ConversationId,
    pub message: MessageId,
    pub turn: TurnId,
    pub disposition: Disposition,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It began a turn of its own.
    Started,
    /// It joined the turn that was running.
    Steered,
    /// It had been accepted before; this is what came of it then.
    Duplicate,
}

/// What became of a change of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// Its new words are read when it is.
    Done,
    /// The words are the same.
    Same,
    /// It was read, has files, or is not known: the change is a message of its own.
    No,
}

/// A message was not stored.
#[derive(Debug, thiserror::Error)]
pub enum AcceptError {
    #[error("the key `{key}` was used for another message; use a new key, or send the same body")]
    KeyReused { key: String },
    #[error("conversation {id} does not exist, or belongs to somebody else")]
    NoConversation { id: String },
    #[error("attachment {id} is not stored, or belongs to somebody else; upload it first")]
    NoAttachment { id: BlobId },
    #[error("the message was not stored")]
    Store(#[source] StoreError),
}

/// Before the words of a change that came after the message was read.
pub const EDITED: &str = "[edited] ";

/// The way in.
#[async_trait]
pub trait Accept: Send + Sync + 'static {
    /// Stores a message and the work that it asks for, in one transaction.
    ///
    /// # Errors
    /// After an error nothing was stored, except that a connection lost during the commit leaves it
    /// open: a caller with an `external_id` finds out by sending it again.
    async fn accept(&self, inbound: Inbound) -> Result<Accepted, AcceptError>;

    /// Puts the words of a message that nobody has read in the place of the sender's earlier ones, which
    /// came with the key `original`, and has its own key name that message, too. Doing it twice is doing
    /// it once.
    ///
    /// # Errors
    /// Nothing was changed, except that a connection lost during the commit leaves it open.
    async fn replace(&self, original: &str, inbound: &Inbound) -> Result<Replaced, StoreError>;

    /// Has a message go, with what was answered, so long after its turn has ended.
    ///
    /// # Errors
    /// That it is to go is not noted.
    async fn vanishes(&self, message: MessageId, after: Duration) -> Result<(), StoreError>;
}
