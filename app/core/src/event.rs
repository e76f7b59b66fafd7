//! What viewers see of a conversation as it happens.
//!
//! An event's id is (fencing token, number). Tokens of a conversation only grow, so ids order all
//! that was ever shown. After a crash the successor's first event is [`Event::Resumed`]: whatever a
//! viewer holds beyond the id that it names was never stored and is to be dropped.

use crate::StoreError;
use crate::clock::Rfc3339;
use crate::ids::{ApprovalId, ConversationId, MessageId, PersonId, TurnId};
use crate::message::MessageRole;
use crate::model::Usage;
use crate::place;
use crate::turn::TurnState;
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, sync::Arc};

/// The version of [`Envelope`]; a field may be added within a version, never changed.
pub const VERSION: u32 = 1;

/// The place of an event in its conversation.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct EventId {
    /// The fencing token of the worker that wrote it.
    pub fence: i64,
    /// From 1 within the token.
    pub number: i64,
}

impl EventId {
    pub const START: Self = Self { fence: 0, number: 0 };
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.fence, self.number)
    }
}

/// The text is not an event id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an event id; send back the id of the last event as it was received")]
pub struct NotAnEventId(pub String);

impl FromStr for EventId {
    type Err = NotAnEventId;

    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        let (fence, number) = place::read(text).ok_or_else(|| NotAnEventId(text.to_owned()))?;
        Ok(Self { fence, number })
    }
}

/// An event with its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// [`VERSION`].
    pub v: u32,
    pub id: EventId,
    pub conversation: ConversationId,
    #[schemars(with = "Rfc3339")]
    pub at: Timestamp,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Event {
    /// A piece of what the model writes.
    Delta { turn: TurnId, kind: DeltaKind, text: String },
    /// What the turn is doing.
    Status { turn: TurnId, status: Status },
    /// Tokens used by the turn so far.
    Usage { turn: TurnId, usage: Usage },
    /// Another worker took over: drop every delta of the turn with an id beyond `last`.
    Resumed { turn: TurnId, last: EventId },
    /// A message was stored whole.
    Message { turn: TurnId, message: MessageId, role: MessageRole },
    /// The turn ended; nothing more comes from it.
    Complete { turn: TurnId, state: TurnState, message: Option<MessageId>, text: String },
    /// A list that clients show has changed; fetch it again.
    ListChanged { list: List },
}

impl Event {
    /// The turn that it tells of.
    pub fn turn(&self) -> Option<TurnId> {
        match self {
            Self::Delta { turn, .. }
            | Self::Status { turn, .. }
            | Self::Usage { turn, .. }
            | Self::Resumed { turn, .. }
            | Self::Message { turn, .. }
            | Self::Complete { turn, .. } => Some(*turn),
            Self::ListChanged { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeltaKind {
    Text,
    Reasoning,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Status {
    Streaming,
    ToolRunning {
        call: String,
        tool: String,
    },
    /// Waits for somebody to approve exactly this.
    WaitingForInput {
        approval: ApprovalId,
        code: String,
        summary: String,
    },
    Idle,
    /// Something failed and is tried again, or the turn ends with it.
    Error {
        message: String,
        retrying: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum List {
    Conversations,
    Messages,
    Approvals,
    Schedules,
    Knowledge,
}

/// Viewers attached to this process.
pub trait Viewers: Send + Sync + 'static {
    /// Shows an event now, before it is stored.
    fn publish(&self, envelope: &Arc<Envelope>);
    /// Everything of the conversation up to and with this id is stored.
    fn stored(&self, conversation: ConversationId, up_to: EventId);
    /// Tells the viewers of a person that a list has changed.
    fn list_changed(&self, person: PersonId, list: List);
}

/// The record from which viewers elsewhere, and later ones, read.
#[async_trait]
pub trait EventLog: Send + Sync + 'static {
    /// Stores events without waiting for the disk. Storing one twice is storing it once.
    ///
    /// `session` is what the caller's last append answered. When the database session is another
    /// one by now, what the caller stored before may be gone: nothing is stored, so that no later
    /// event stands in the table before an earlier one, and the caller stores all of it again.
    async fn append(
        &self,
        person: PersonId,
        events: Vec<Arc<Envelope>>,
        session: Option<u64>,
    ) -> Result<Appended, StoreError>;
}

/// What came of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// Stored by this session.
    Stored(u64),
    /// Not stored: this is another session.
    NewSession(u64),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_order_and_read_back() {
        let a = EventId { fence: 1_763_700_000_000_000, number: 9 };
        let b = EventId { fence: 1_763_700_000_000_000, number: 10 };
        // A later worker begins to count anew, under a greater token.
        let later = EventId { fence: a.fence + 1, number: 0 };
        assert!(a < b && b < later);
        assert_eq!(b.to_string().parse::<EventId>(), Ok(b));
        assert!("".parse::<EventId>().is_err());
        assert!("1".parse::<EventId>().is_err());
        assert!("x-1".parse::<EventId>().is_err());
    }

    #[test]
    fn an_old_event_still_parses() {
        let stored = r#"{"v":1,"id":{"fence":5,"number":2},
            "conversation":"01890000-0000-7000-8000-000000000000","at":"2026-11-21T10:00:00Z",
            "event":{"type":"status","turn":"01890000-0000-7000-8000-000000000001",
                     "status":{"is":"tool_running","call":"c1","tool":"get_time"}}}"#;
        let envelope: Envelope = serde_json::from_str(stored).unwrap();
        assert_eq!(envelope.id, EventId { fence: 5, number: 2 });
    }
}
