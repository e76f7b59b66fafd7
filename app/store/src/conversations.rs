//! Conversations as lists and pages show them.

use crate::{
    codec::{read_enum, without_nul},
    db::{Scope, Store},
    error::Error,
    views::ConversationView,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    conversation::{Conversations, NewConversation},
    ids::{ConversationId, PersonId, TurnId},
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use uuid::Uuid;

struct Row {
    id: Uuid,
    title: Option<String>,
    agent: String,
    live_turn: Option<Uuid>,
    live_state: Option<String>,
    last_seq: i64,
    created_at: Instant,
    updated_at: Instant,
}

impl TryFrom<Row> for ConversationView {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        let state = row.live_state.map(|state| read_enum("a turn's state", &state)).transpose()?;
        Ok(Self {
            id: ConversationId(row.id),
            title: row.title,
            agent: row.agent,
            live: row.live_turn.map(TurnId).zip(state),
            last_seq: row.last_seq,
            created_at: row.created_at.0,
            updated_at: row.updated_at.0,
        })
    }
}

impl Store {
    /// The conversation, if it belongs to the person.
    #[boxed]
    pub async fn conversation(
        &self,
        person: PersonId,
        id: ConversationId,
    ) -> Result<Option<ConversationView>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let row = sqlx::query_as!(
            Row,
            r#"select c.id, c.title, a.name as agent, t.id as "live_turn?",
                      t.state as "live_state?", c.last_seq,
                      c.created_at as "created_at: Instant", c.updated_at as "updated_at: Instant"
               from conversation c
               join agent a on a.id = c.agent_id
               left join turn t on t.id = c.live_turn
               where c.id = $1"#,
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read a conversation"))?;
        tx.commit().await.map_err(Error::on("read a conversation"))?;
        row.map(ConversationView::try_from).transpose()
    }

    /// The person's conversations, those that were used last first; with `before`, those that stand
    /// behind that conversation.
    #[boxed]
    pub async fn conversations(
        &self,
        person: PersonId,
        before: Option<ConversationId>,
        limit: i64,
    ) -> Result<Vec<ConversationView>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query_as!(
            Row,
            r#"select c.id, c.title, a.name as agent, t.id as "live_turn?",
                      t.state as "live_state?", c.last_seq,
                      c.created_at as "created_at: Instant", c.updated_at as "updated_at: Instant"
               from conversation c
               join agent a on a.id = c.agent_id
               left join turn t on t.id = c.live_turn
               where $1::uuid is null
                  or (c.updated_at, c.id) < (select b.updated_at, b.id from conversation b
                                             where b.id = $1)
               order by c.updated_at desc, c.id desc limit $2"#,
            before.map(|id| id.0),
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read conversations"))?;
        tx.commit().await.map_err(Error::on("read conversations"))?;
        rows.into_iter().map(ConversationView::try_from).collect()
    }

    /// The conversation with this key, opened now if it is not there.
    ///
    /// # Errors
    /// [`Error::Refused`] when the key's conversation belongs to somebody else.
    #[boxed]
    pub async fn ensure_conversation(
        &self,
        person: PersonId,
        new: NewConversation,
    ) -> Result<ConversationId, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        sqlx::query!(
            "insert into conversation (id, person_id, agent_id, key, title)
             values ($1, $2, $3, $4, $5) on conflict (key) do nothing",
            ConversationId::new().0,
            person.0,
            new.agent.0,
            new.key.0,
            new.title.as_deref().map(without_nul),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("open a conversation"))?;
        let id = sqlx::query_scalar!("select id from conversation where key = $1", new.key.0)
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::on("open a conversation"))?
            .ok_or(Error::Refused {
                operation: "open a conversation whose key is somebody else's",
                source: sqlx::Error::RowNotFound,
            })?;
        tx.commit().await.map_err(Error::on("open a conversation"))?;
        Ok(ConversationId(id))
    }

    /// Gives the conversation a title of the person's own, which nothing but another one replaces;
    /// false when it is not there.
    #[boxed]
    pub async fn rename(
        &self,
        person: PersonId,
        id: ConversationId,
        title: &str,
    ) -> Result<bool, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        let done = sqlx::query!(
            "update conversation set title = $2 where id = $1",
            id.0,
            without_nul(title),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("rename a conversation"))?;
        tx.commit().await.map_err(Error::on("rename a conversation"))?;
        Ok(done.rows_affected() == 1)
    }
}

#[async_trait]
impl Conversations for Store {
    async fn has(&self, person: PersonId, id: ConversationId) -> Result<bool, StoreError> {
        Ok(self.conversation(person, id).await?.is_some())
    }

    async fn open(
        &self,
        person: PersonId,
        new: NewConversation,
    ) -> Result<ConversationId, StoreError> {
        Ok(self.ensure_conversation(person, new).await?)
    }

    async fn stop(
        &self,
        host: PersonId,
        actor: Option<PersonId>,
        id: ConversationId,
    ) -> Result<Vec<TurnId>, StoreError> {
        Ok(self.stop_conversation(host, actor, id).await?.turns)
    }
}
