//! Identifiers. Each is a newtype over a UUIDv7 made by the app, so that ids sort by creation time
//! and a turn can name what it is about to write before it writes it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use uuid::Uuid;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(transparent)]
        pub struct $name(pub Uuid);

        impl $name {
            /// A new id, later in sort order than every id made before it by this process.
            #[expect(clippy::new_without_default, reason = "each call makes another value")]
            pub fn new() -> Self {
                Self(Uuid::now_v7())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;
            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Uuid::parse_str(text).map(Self)
            }
        }

        impl From<Uuid> for $name {
            fn from(id: Uuid) -> Self {
                Self(id)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }
    )+};
}

ids! {
    /// A human being known to this installation.
    PersonId,
    /// One account of a person on one channel.
    IdentityId,
    /// An API token.
    TokenId,
    /// An agent: prompt, model, limits and tools.
    AgentId,
    /// A conversation; also the lane in which its turns are worked, one at a time.
    ConversationId,
    /// One message of a conversation.
    MessageId,
    /// One turn: from an inbound message to its reply.
    TurnId,
    /// A durable question.
    ApprovalId,
    /// A schedule.
    ScheduleId,
    /// A memory or a scratchpad page.
    KnowledgeId,
    /// A stored file.
    BlobId,
    /// One message on its way out.
    OutboundId,
    /// One process that works the queue.
    WorkerId,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_creation() {
        let made: Vec<TurnId> = (0..100).map(|_| TurnId::new()).collect();
        let mut sorted = made.clone();
        sorted.sort();
        assert_eq!(made, sorted);
    }

    #[test]
    fn an_id_reads_back_from_its_text() {
        let id = PersonId::new();
        assert_eq!(id.to_string().parse::<PersonId>().unwrap(), id);
    }
}
