//! What goes out: one shape for every channel, and what a channel says of itself.

use crate::ids::{ConversationId, OutboundId, PersonId, TurnId};
use crate::inbound::{Address, Attachment};
use crate::intake::Listener;
use crate::linking::Linker;
use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A message on its way out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbound {
    /// Also the idempotency key: the same id is the same message, however often it is sent.
    pub id: OutboundId,
    /// Whose files it holds; `None` of what the installation says to nobody it knows.
    pub person: Option<PersonId>,
    pub conversation: Option<ConversationId>,
    pub to: Address,
    /// Channel-neutral Markdown.
    pub markdown: String,
    pub attachments: Vec<Attachment>,
    /// Shown in a row, where the channel has buttons; what they do is also said in words.
    pub buttons: Vec<Button>,
}

/// A button under a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Button {
    pub text: String,
    /// What a press sends, at most 64 bytes.
    pub data: String,
}

/// What a platform counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Of UTF-16: a character beyond the first 65,536 is two.
    Utf16,
    /// Of UTF-8.
    Bytes,
}

/// The most that one message of a platform holds, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    pub most: u32,
    pub unit: Unit,
}

impl Limit {
    /// How many bytes of a text are within the limit, to a place between two characters. Of a text that
    /// is not empty that is one character at least.
    pub fn fits(self, text: &str) -> usize {
        let mut left = self.most as usize;
        for (at, character) in text.char_indices() {
            let size = match self.unit {
                Unit::Utf16 => character.len_utf16(),
                Unit::Bytes => character.len_utf8(),
            };
            if size > left && at > 0 {
                return at;
            }
            left = left.saturating_sub(size);
        }
        text.len()
    }
}

/// What a channel can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Capabilities {
    /// What is longer becomes several messages.
    pub limit: Option<Limit>,
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
    /// Messages of the platform that it becomes: always the same of the same message.
    fn pieces(&self, _message: &Outbound) -> usize {
        1
    }
    /// Hands one of them over, counted from 0.
    async fn send(&self, message: &Outbound, piece: usize) -> Result<Delivered, SendError>;
    /// Puts this in the place of a message that the platform took, by its ids. Doing it twice is doing it
    /// once.
    async fn edit(&self, _message: &Outbound, _ids: &[String]) -> Result<(), SendError> {
        let reason = "a message there cannot be changed".to_owned();
        Err(SendError::Refused { channel: self.name().to_owned(), reason })
    }
    /// Whether it shows a reply while it is written.
    fn grows(&self) -> bool {
        false
    }
    /// Shows what there is of a reply, or that it is being written. What is shown goes by itself.
    async fn grow(&self, _to: &Address, _turn: TurnId, _so_far: &str) -> Result<(), SendError> {
        Ok(())
    }
    /// Who links accounts to its program; `None` where there is nothing to link.
    fn linker(&self) -> Option<Arc<dyn Linker>> {
        None
    }
    /// Who hears what people write there; `None` where nobody does.
    fn listener(&self) -> Option<Arc<dyn Listener>> {
        None
    }
}

/// A message that the platform took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    /// The platform's id of it.
    pub id: Option<String>,
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
    /// Nothing reaches whoever it is for, until they write again.
    #[error("{channel} lets nothing through to this chat: {reason}")]
    Unreachable { channel: String, reason: String },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_counts_in_its_unit_and_cuts_between_characters() {
        let check = |most, unit, text: &str, expected| {
            assert_eq!(Limit { most, unit }.fits(text), expected, "{text} {most} {unit:?}");
        };
        check(3, Unit::Utf16, "abcd", 3);
        check(4, Unit::Utf16, "abcd", 4);
        check(2, Unit::Utf16, "a😀", 1);
        check(3, Unit::Utf16, "a😀", 5);
        check(3, Unit::Bytes, "éé", 2);
        check(1, Unit::Bytes, "😀", 4);
        check(1, Unit::Bytes, "", 0);
    }
}
