//! What goes out: one shape for every channel, and what a channel says of itself.

use crate::blob::BlobRef;
use crate::ids::{ConversationId, OutboundId, PersonId};
use crate::inbound::Address;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Also the idempotency key: the same id is the same message, however often it is sent.
    pub id: OutboundId,
    pub person: PersonId,
    pub conversation: ConversationId,
    pub to: Address,
    /// Channel-neutral Markdown.
    pub markdown: String,
    pub attachments: Vec<BlobRef>,
}

/// What a channel can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// Characters of one message; longer ones are split.
    pub max_chars: Option<u32>,
    pub attachments: bool,
    pub threads: bool,
    /// Whether sending the same [`Outbound::id`] again is harmless.
    pub idempotent: bool,
    pub reply: ReplyRule,
}

/// How a reply leaves a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ReplyRule {
    /// The model's text is the reply.
    Text,
    /// The conversation is the mailbox: whoever asked reads the reply there.
    Kept,
    /// The model sends by a tool; its text is delivered only if no tool reached the sender.
    SendTool,
}

/// A way out.
#[async_trait]
pub trait Channel: Send + Sync + 'static {
    fn name(&self) -> &str;
    fn capabilities(&self) -> Capabilities;
    /// Hands a message over.
    async fn send(&self, message: &Outbound) -> Result<(), SendError>;
}

#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// It certainly did not arrive: send again.
    #[error("{channel} did not take the message: {reason}")]
    NotSent { channel: String, reason: String, after: Option<Duration> },
    /// It may have arrived.
    #[error("{channel} broke off after the message was sent; whether it arrived is unknown")]
    Unknown { channel: String },
    /// It never will.
    #[error("{channel} refused the message: {reason}")]
    Refused { channel: String, reason: String },
}
