//! What viewers read from the record: the port to the table of events.

use crate::StoreError;
use crate::event::{Envelope, EventId};
use crate::ids::{ConversationId, PersonId, TurnId};
use async_trait::async_trait;

/// What a viewer has seen of a conversation.
#[derive(Clone, Copy, Debug)]
pub struct Cursor {
    pub person: PersonId,
    pub conversation: ConversationId,
    pub after: EventId,
}

/// A conversation as the stream of its person knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentConversation {
    pub conversation: ConversationId,
    pub last_seq: i64,
    /// The turn that is taken up.
    pub live: Option<TurnId>,
}

/// By what a person's lists can be told from what they were: a list whose mark is another one has
/// changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListMarks {
    pub approvals: String,
    pub schedules: String,
    pub knowledge: String,
}

/// The stored events, and what else viewers are told.
#[async_trait]
pub trait EventTable: Send + Sync + 'static {
    /// Stored events behind each cursor, in order, at most `limit` for each.
    async fn events_after(
        &self,
        cursors: &[Cursor],
        limit: i64,
    ) -> Result<Vec<Envelope>, StoreError>;

    /// Where a viewer that has seen nothing begins: before the first event of the turn that runs, or
    /// behind the last event when nothing runs. The second value says whether events behind `after`, when
    /// given, are kept no longer: whether a turn whose events are gone showed something beyond it.
    async fn stream_start(
        &self,
        person: PersonId,
        conversation: ConversationId,
        after: Option<EventId>,
    ) -> Result<(EventId, bool), StoreError>;

    /// The person's conversations, the last used first.
    async fn recent(&self, person: PersonId) -> Result<Vec<RecentConversation>, StoreError>;

    /// How the person's lists stand, whoever changed them.
    async fn list_marks(&self, person: PersonId) -> Result<ListMarks, StoreError>;
}
