//! Ending what runs: recorded first, then hinted to whoever runs it.

use crate::{
    approvals::lock_conversation,
    db::{Scope, Store},
    error::Error,
};
use famulus_core::{
    crash,
    ids::{ConversationId, PersonId, TurnId},
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, hint::Topic, lane};

/// Turns that were asked to end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    pub turns: Vec<TurnId>,
}

impl Store {
    /// Asks every unfinished turn of this person in the conversation to end: the running one now,
    /// the waiting ones when their lane comes to them, before a model is asked.
    ///
    /// `actor` narrows it to the turns that run in that person's name; the host may end them all.
    #[boxed]
    pub async fn stop_conversation(
        &self,
        host: PersonId,
        actor: Option<PersonId>,
        conversation: ConversationId,
    ) -> Result<Stopped, Error> {
        self.stop(host, actor, conversation, None).await
    }

    /// Asks one turn to end; `None` when there is no such turn of this person.
    #[boxed]
    pub async fn cancel_turn(
        &self,
        host: PersonId,
        turn: TurnId,
    ) -> Result<Option<Stopped>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(host)).await?;
        let conversation =
            sqlx::query_scalar!("select conversation_id from turn where id = $1", turn.0)
                .fetch_optional(&mut *tx)
                .await
                .map_err(Error::on("find the turn"))?;
        tx.commit().await.map_err(Error::on("find the turn"))?;
        match conversation {
            None => Ok(None),
            Some(conversation) => {
                self.stop(host, None, ConversationId(conversation), Some(turn)).await.map(Some)
            }
        }
    }

    async fn stop(
        &self,
        host: PersonId,
        actor: Option<PersonId>,
        conversation: ConversationId,
        only: Option<TurnId>,
    ) -> Result<Stopped, Error> {
        let mut tx = self.begin(Scope::Person(host)).await?;
        lock_conversation(&mut tx, conversation.0).await?;
        let turns = sqlx::query_scalar!(
            "update turn set cancel_requested_at = now()
             where conversation_id = $1 and state in ('queued', 'running', 'waiting')
               and cancel_requested_at is null
               and ($2::uuid is null or actor_id = $2) and ($3::uuid is null or id = $3)
             returning id",
            conversation.0,
            actor.map(|person| person.0),
            only.map(|turn| turn.0),
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("stop turns"))?;
        // What comes after a stop joins nothing that was stopped.
        sqlx::query!(
            "update conversation set live_turn = null, live_ord = null, live_person = null
             where id = $1 and live_turn in (select id from turn
                 where conversation_id = $1 and cancel_requested_at is not null)",
            conversation.0,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("stop turns"))?;
        lane::wake(&mut tx, Class::Turn, &[conversation.0]).await?;
        crash::before("stop.commit");
        tx.commit().await.map_err(Error::on("stop turns"))?;
        crash::after("stop.commit");
        self.hints.announce(Topic::Control);
        self.hints.announce(Topic::Turn);
        Ok(Stopped { turns: turns.into_iter().map(TurnId).collect() })
    }
}
