//! Acceptance: everything that comes in passes here, and is acknowledged when its record is safe.

use crate::StoreError;
use crate::ids::{BlobId, ConversationId, MessageId, TurnId};
use crate::inbound::Inbound;
use async_trait::async_trait;

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

/// The way in.
#[async_trait]
pub trait Accept: Send + Sync + 'static {
    /// Stores a message and the work that it asks for, in one transaction.
    ///
    /// # Errors
    /// After an error nothing was stored, except that a connection lost during the commit leaves it
    /// open: a caller with an `external_id` finds out by sending it again.
    async fn accept(&self, inbound: Inbound) -> Result<Accepted, AcceptError>;
}
