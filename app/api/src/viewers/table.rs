//! What the viewers read from the record.

use async_trait::async_trait;
use famulus_core::{
    event::{Envelope, EventId},
    ids::{ConversationId, PersonId, TurnId},
};
use famulus_store::{Cursor, Error, ListMarks, Store};

/// A conversation as the stream of its person knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecentConversation {
    pub conversation: ConversationId,
    pub last_seq: i64,
    /// The turn that is taken up.
    pub live: Option<TurnId>,
}

/// Conversations of a person that are looked at, the last used first.
const RECENT: i64 = 50;

/// The port to the table of events.
#[async_trait]
pub trait EventTable: Send + Sync + 'static {
    /// See [`Store::events_after`].
    async fn events_after(&self, cursors: &[Cursor], limit: i64) -> Result<Vec<Envelope>, Error>;

    /// See [`Store::stream_start`].
    async fn stream_start(
        &self,
        person: PersonId,
        conversation: ConversationId,
        after: Option<EventId>,
    ) -> Result<(EventId, bool), Error>;

    /// The person's conversations, the last used first.
    async fn recent(&self, person: PersonId) -> Result<Vec<RecentConversation>, Error>;

    /// See [`Store::list_marks`].
    async fn list_marks(&self, person: PersonId) -> Result<ListMarks, Error>;
}

#[async_trait]
impl EventTable for Store {
    async fn events_after(&self, cursors: &[Cursor], limit: i64) -> Result<Vec<Envelope>, Error> {
        Self::events_after(self, cursors, limit).await
    }

    async fn stream_start(
        &self,
        person: PersonId,
        conversation: ConversationId,
        after: Option<EventId>,
    ) -> Result<(EventId, bool), Error> {
        Self::stream_start(self, person, conversation, after).await
    }

    async fn recent(&self, person: PersonId) -> Result<Vec<RecentConversation>, Error> {
        let conversations = self.conversations(person, None, RECENT).await?;
        Ok(conversations
            .into_iter()
            .map(|view| RecentConversation {
                conversation: view.id,
                last_seq: view.last_seq,
                live: view.live.map(|(turn, _)| turn),
            })
            .collect())
    }

    async fn list_marks(&self, person: PersonId) -> Result<ListMarks, Error> {
        Self::list_marks(self, person).await
    }
}
