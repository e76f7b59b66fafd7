//! The record of turns, as the turn loop keeps it.
//!
//! Every write proves the lease in its own transaction, and holds the conversation's row where it
//! must be ordered with what arrives. Locks are taken in one order everywhere, so that no two
//! transactions wait for each other: the conversation before everything else. Commits wait for the
//! disk before the effect that they announce. Taking a turn up does not: it leaves its token in the
//! lane, and a later record that does not find it there is refused. Turns begin and end in batches:
//! [`crate::take_up`] and [`crate::finish`].

use crate::{
    approvals, calls,
    db::{Scope, Store},
    ending,
    error::{Error, shared},
    events, history,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError, crash,
    event::{Envelope, EventId},
    ids::{MessageId, TurnId},
    message::{Heard, Message, MessageRole, Part, ToolResult},
    tool::{CallKey, ToolOutput},
    turn::{
        Burial, Ended, Ending, Fence, LoadedTurn, NewMessage, RecordedCall, ReplyRecord, TurnLog,
    },
};
use famulus_queue::{Class, Instant, hint::Topic, lane, lane::Progress};
use jiff::Timestamp;
use std::sync::Arc;

#[async_trait]
impl TurnLog for Store {
    async fn take_up(&self, fence: &Fence, turn: TurnId) -> Result<LoadedTurn, StoreError> {
        Ok(self.beginnings.pass((*fence, turn)).await.map_err(shared)??)
    }

    async fn record_interrupted(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: Option<NewMessage>,
        shown: EventId,
        events: Vec<Arc<Envelope>>,
    ) -> Result<Option<Arc<Message>>, StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        let (place, seq) = history::place(&mut tx, turn).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Relies).await.map_err(Error::from)?;
        let stored = match message {
            Some(new) => {
                let role = MessageRole::Assistant;
                Some(history::append(&mut tx, place, seq, role, new, None).await?)
            }
            None => None,
        };
        ending::set_shown(&mut tx, turn, shown).await?;
        events::insert_for(&mut tx, fence.person, events).await?;
        crash::before("turn.interrupted");
        tx.commit().await.map_err(Error::on("record an interruption"))?;
        crash::after("turn.interrupted");
        Ok(stored)
    }

    async fn record_heard(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: MessageId,
        part: usize,
        heard: &Heard,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        history::lock(&mut tx, &[*fence]).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Relies).await.map_err(Error::from)?;
        history::hear(&mut tx, turn, message, part, heard).await?;
        crash::before("turn.heard");
        tx.commit().await.map_err(Error::on("record what was heard"))?;
        crash::after("turn.heard");
        Ok(())
    }

    async fn record_reply(
        &self,
        fence: &Fence,
        record: ReplyRecord,
    ) -> Result<Arc<Message>, StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        let (place, seq) = history::place(&mut tx, record.turn).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Made).await.map_err(Error::from)?;
        let stored = history::append(
            &mut tx,
            place,
            seq,
            MessageRole::Assistant,
            record.message,
            Some(&record.model),
        )
        .await?;
        let asks = record.calls.iter().any(|call| call.approval.is_some());
        if !record.calls.is_empty() {
            calls::plan(&mut tx, place.host, &record.calls).await?;
        }
        sqlx::query!(
            "update turn set steps = $2, model = $3, input_tokens = $4, output_tokens = $5,
                    shown_fence = $6, shown_number = $7
             where id = $1",
            record.turn.0,
            record.step as i32 + 1,
            record.model,
            record.usage.input_tokens.map(|n| n as i64),
            record.usage.output_tokens.map(|n| n as i64),
            record.shown.fence,
            record.shown.number,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("record a reply"))?;
        events::insert_for(&mut tx, fence.person, record.events).await?;
        crash::before("turn.reply");
        tx.commit().await.map_err(Error::on("record a reply"))?;
        crash::after("turn.reply");
        if asks {
            self.hints.announce(Topic::Control);
        }
        Ok(stored)
    }

    async fn mark_sent(&self, fence: &Fence, call: &RecordedCall) -> Result<bool, StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        if call.approval.is_some() {
            approvals::lock_conversation(&mut tx, fence.lane).await?;
        }
        if call.approval.is_some() && !approvals::consume(&mut tx, call).await? {
            return Ok(false);
        }
        lane::guard(&mut tx, Class::Turn, fence, Progress::Relies).await.map_err(Error::from)?;
        calls::sent(&mut tx, call.key).await?;
        crash::before("turn.sent");
        tx.commit().await.map_err(Error::on("mark a call as sent"))?;
        crash::after("turn.sent");
        Ok(true)
    }

    async fn record_output(
        &self,
        fence: &Fence,
        key: CallKey,
        output: &ToolOutput,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Made).await.map_err(Error::from)?;
        calls::done(&mut tx, &[(key, output)]).await?;
        crash::before("turn.output");
        tx.commit().await.map_err(Error::on("record an output"))?;
        crash::after("turn.output");
        Ok(())
    }

    async fn record_results(
        &self,
        fence: &Fence,
        turn: TurnId,
        step: u32,
        message: MessageId,
        results: Vec<ToolResult>,
    ) -> Result<Vec<Arc<Message>>, StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        let (place, seq) = history::place(&mut tx, turn).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Made).await.map_err(Error::from)?;
        let keyed: Vec<(CallKey, &ToolOutput)> = results
            .iter()
            .enumerate()
            .map(|(call, result)| {
                (CallKey { turn, step, call: call as u32, item: 0 }, &result.output)
            })
            .collect();
        calls::done(&mut tx, &keyed).await?;
        let parts = results.iter().cloned().map(Part::result).collect();
        let new = NewMessage { id: message, parts, blocks: None };
        let stored = history::append(&mut tx, place, seq, MessageRole::Tool, new, None).await?;
        let mut news = vec![stored];
        news.extend(history::take_steering(&mut tx, place).await?);
        crash::before("turn.results");
        tx.commit().await.map_err(Error::on("record results"))?;
        crash::after("turn.results");
        Ok(news)
    }

    async fn park(
        &self,
        fence: &Fence,
        turn: TurnId,
        deadline: Timestamp,
    ) -> Result<(), StoreError> {
        Ok(self.park_turn(fence, turn, deadline).await?)
    }

    async fn close_approvals(
        &self,
        fence: &Fence,
        turn: TurnId,
        now: Timestamp,
        supersede: bool,
    ) -> Result<(), StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        approvals::lock_conversation(&mut tx, fence.lane).await?;
        approvals::close_open(&mut tx, turn, now, supersede).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::None).await.map_err(Error::from)?;
        crash::before("approval.close");
        tx.commit().await.map_err(Error::on("close approvals"))?;
        crash::after("approval.close");
        Ok(())
    }

    async fn finish(&self, fence: &Fence, ending: Ending) -> Result<Ended, StoreError> {
        Ok(self.endings.pass((*fence, ending)).await.map_err(shared)??)
    }

    async fn bury(&self, fence: &Fence, burial: Burial) -> Result<Vec<Arc<Envelope>>, StoreError> {
        Ok(ending::bury(self, fence, burial).await?)
    }

    async fn cancelled(&self, turns: &[TurnId]) -> Result<Vec<TurnId>, StoreError> {
        let ids: Vec<uuid::Uuid> = turns.iter().map(|turn| turn.0).collect();
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let found = sqlx::query_scalar!(
            "select id from turn where id = any($1) and cancel_requested_at is not null",
            &ids,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("look for cancelled turns"))?;
        tx.commit().await.map_err(Error::on("look for cancelled turns"))?;
        Ok(found.into_iter().map(TurnId).collect())
    }

    async fn set_title(&self, turn: TurnId, title: &str) -> Result<(), StoreError> {
        Ok(self.title_of_turn(turn, title).await?)
    }
}

impl Store {
    /// Parks a turn, unless what it would wait for has happened already: then it is due at once.
    async fn park_turn(
        &self,
        fence: &Fence,
        turn: TurnId,
        deadline: Timestamp,
    ) -> Result<(), Error> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        approvals::lock_conversation(&mut tx, fence.lane).await?;
        let row = sqlx::query!(
            r#"update turn t set state = 'waiting' where id = $1
               returning t.cancel_requested_at is not null
                   or exists (select 1 from message m
                              where m.conversation_id = t.conversation_id
                                and m.turn_ord = t.ord and m.turn_id = t.id and not m.seen)
                   or not exists (select 1 from approval a
                                  where a.turn_id = t.id and a.state = 'pending')
                   as "due!", now() as "now!: Instant""#,
            turn.0,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("park the turn"))?;
        let until = if row.due { row.now.0 } else { deadline };
        lane::park(&mut tx, Class::Turn, fence, until).await?;
        crash::before("turn.park");
        tx.commit().await.map_err(Error::on("park the turn"))?;
        crash::after("turn.park");
        if row.due {
            self.hints.announce(Topic::Turn);
        }
        Ok(())
    }
}
