//! Messages on their way out, as people see them.

use crate::{
    NOBODY,
    codec::read_enum,
    db::{Scope, Store},
    error::Error,
    outbox::OutboxState,
};
use famulus_core::{
    ids::{ConversationId, OutboundId, PersonId, TurnId},
    inbound::Address,
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Instant, Job, hint::Topic, inspect, lane};
use jiff::Timestamp;

/// A message in the list of those on their way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxItem {
    pub id: OutboundId,
    /// What the installation says by itself may be nobody's.
    pub person: Option<PersonId>,
    pub conversation: Option<ConversationId>,
    pub turn: Option<TurnId>,
    pub to: Address,
    pub state: OutboxState,
    pub attempts: i32,
    pub error: Option<String>,
    pub created_at: Timestamp,
    pub ended_at: Option<Timestamp>,
}

impl Store {
    /// Messages on their way and those that ended, of a person or of everybody, newest first.
    #[boxed]
    pub async fn outbox(
        &self,
        person: Option<PersonId>,
        state: Option<OutboxState>,
        limit: i64,
    ) -> Result<Vec<OutboxItem>, Error> {
        let scope = person.map_or(Scope::System, Scope::Person);
        let mut tx = self.begin_relaxed(scope).await?;
        let rows = sqlx::query!(
            r#"select id, person_id, conversation_id, turn_id, address, state, attempts, error,
                      created_at as "created_at: Instant", ended_at as "ended_at: Instant"
               from outbox where $1::text is null or state = $1
               order by created_at desc, id desc limit $2"#,
            state.map(OutboxState::as_str),
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read the outbox"))?;
        tx.commit().await.map_err(Error::on("read the outbox"))?;
        rows.into_iter()
            .map(|row| {
                Ok(OutboxItem {
                    id: OutboundId(row.id),
                    person: row.person_id.map(PersonId),
                    conversation: row.conversation_id.map(ConversationId),
                    turn: row.turn_id.map(TurnId),
                    to: serde_json::from_value(row.address)
                        .map_err(Error::unreadable("an address"))?,
                    state: read_enum("the state of an outbound message", &row.state)?,
                    attempts: row.attempts,
                    error: row.error,
                    created_at: row.created_at.0,
                    ended_at: row.ended_at.map(|at| at.0),
                })
            })
            .collect()
    }

    /// Sends a message again whose outcome is unknown, or that failed; false when there is no such
    /// message.
    #[boxed]
    pub async fn retry_outbound(&self, id: OutboundId) -> Result<bool, Error> {
        let mut tx = self.begin(Scope::System).await?;
        let Some(row) = sqlx::query!(
            "update outbox set state = 'pending', error = null, ended_at = null, since = now(),
                 outcome_told = false
             where id = $1 and state in ('unknown', 'failed')
             returning person_id, address",
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("send a message again"))?
        else {
            return Ok(false);
        };
        // A message that failed has a dead letter; one whose outcome is unknown has no job.
        if !inspect::revive(&mut tx, id.0).await? {
            let to: Address =
                serde_json::from_value(row.address).map_err(Error::unreadable("an address"))?;
            let (lane, person) = (to.lane(), row.person_id.map_or(NOBODY, PersonId));
            let job = Job { id: id.0, class: Class::Delivery, lane, person };
            lane::enqueue(&mut tx, Class::Delivery, &[job]).await?;
        }
        tx.commit().await.map_err(Error::on("send a message again"))?;
        self.hints.announce(Topic::Delivery);
        Ok(true)
    }
}
