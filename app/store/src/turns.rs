//! The record of turns, as the turn loop keeps it.
//!
//! Every write proves the lease in its own transaction, and holds the conversation's row where it
//! must be ordered with what arrives. Locks are taken in one order everywhere, so that no two
//! transactions wait for each other: the conversation before everything else. Commits wait for the
//! disk before the effect that they announce. Taking a turn up does not: it leaves its token in the
//! lane, and a later record that does not find it there is refused.

use crate::{
    approvals, calls,
    codec::{decode, read_enum},
    db::{Scope, Store},
    ending,
    error::Error,
    events,
    events::Cursor,
    history::{self, Place},
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    agent::{Agent, Budgets, Grants},
    crash,
    event::{DeltaKind, Envelope, EventId},
    ids::{AgentId, ConversationId, MessageId, PersonId, TurnId},
    message::{Message, MessageRole, Part, ToolResult},
    model::Usage,
    person::Person,
    replay::Replay,
    tool::{CallKey, ToolOutput},
    turn::{
        Burial, Ended, Ending, Fence, LoadedTurn, NewMessage, Partial, RecordedCall, ReplyRecord,
        TurnLog,
    },
};
use famulus_queue::{Class, Instant, hint::Topic, lane, lane::Progress};
use jiff::Timestamp;
use std::sync::Arc;

#[async_trait]
impl TurnLog for Store {
    async fn take_up(&self, fence: &Fence, turn: TurnId) -> Result<LoadedTurn, StoreError> {
        Ok(self.take_turn_up(fence, turn).await?)
    }

    async fn record_interrupted(
        &self,
        fence: &Fence,
        turn: TurnId,
        message: NewMessage,
        shown: EventId,
        events: Vec<Arc<Envelope>>,
    ) -> Result<Arc<Message>, StoreError> {
        let mut tx = self.begin(Scope::Person(fence.person)).await?;
        let (place, seq) = history::place(&mut tx, turn).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Relies).await.map_err(Error::from)?;
        let stored =
            history::append(&mut tx, place, seq, MessageRole::Assistant, message, None).await?;
        ending::set_shown(&mut tx, turn, shown).await?;
        events::insert_for(&mut tx, fence.person, events).await?;
        crash::before("turn.interrupted");
        tx.commit().await.map_err(Error::on("record an interruption"))?;
        crash::after("turn.interrupted");
        Ok(stored)
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
        Ok(tx.commit().await.map_err(Error::on("close approvals"))?)
    }

    async fn finish(&self, fence: &Fence, ending: Ending) -> Result<Ended, StoreError> {
        Ok(ending::finish(self, fence, ending).await?)
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
    async fn take_turn_up(&self, fence: &Fence, turn: TurnId) -> Result<LoadedTurn, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(fence.person)).await?;
        approvals::lock_conversation(&mut tx, fence.lane).await?;
        lane::guard(&mut tx, Class::Turn, fence, Progress::Begins).await?;
        let row = sqlx::query!(
            r#"
            with taken as (
                update turn set state = 'running', started_at = coalesce(started_at, now())
                where id = $1 and state in ('queued', 'running', 'waiting')
                returning id
            ),
            live as (
                update conversation c
                set live_turn = t.id, live_ord = t.ord, live_person = t.actor_id
                from turn t, taken
                -- What comes after a stop begins a turn of its own.
                where t.id = taken.id and c.id = t.conversation_id
                  and t.cancel_requested_at is null
            )
            select t.id, t.conversation_id, t.person_id, t.depth, t.ord, t.state, t.steps,
                   t.input_tokens, t.output_tokens, t.began_by, t.origin, t.shown_fence,
                   t.shown_number, t.cancel_requested_at is not null as "cancel!",
                   -- As it was before this statement: whether anybody ever took it up.
                   t.started_at is null as "fresh!",
                   c.title is null as "untitled!",
                   p.id as actor, p.name as actor_name, p.role as actor_role,
                   p.time_zone, p.language,
                   a.id as agent, a.name as agent_name, a.prompt, a.model as agent_model,
                   a.step_cap, a.budget_read, a.budget_write, a.budget_external, a.tools
            from turn t
            join conversation c on c.id = t.conversation_id
            join person p on p.id = t.actor_id
            join agent a on a.id = t.agent_id
            where t.id = $1
            "#,
            turn.0,
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("take the turn up"))?;
        let conversation = ConversationId(row.conversation_id);
        let fresh = row.fresh;
        let calls = if fresh { Vec::new() } else { calls::of_turn(&mut tx, turn).await? };
        if !fresh {
            // What was written while nobody worked is read from here on, and in the history below.
            let place =
                Place { turn, conversation: conversation.0, host: row.person_id, ord: row.ord };
            history::take_steering(&mut tx, place).await?;
        }
        let history = history::window(&mut tx, conversation, row.ord).await?;
        crash::before("turn.take_up");
        tx.commit().await.map_err(Error::on("take the turn up"))?;
        crash::after("turn.take_up");
        let shown = EventId { fence: row.shown_fence, number: row.shown_number };
        let host = PersonId(row.person_id);
        let partial =
            if fresh { None } else { self.partial(host, conversation, turn, shown).await? };
        Ok(LoadedTurn {
            id: turn,
            conversation,
            agent: Agent {
                id: AgentId(row.agent),
                name: row.agent_name,
                prompt: row.prompt,
                model: row.agent_model,
                step_cap: row.step_cap.map(|cap| cap as u32),
                budgets: Budgets {
                    read: row.budget_read as u32,
                    write: row.budget_write as u32,
                    external: row.budget_external as u32,
                },
                tools: Grants::from_names(row.tools),
            },
            person: Person {
                id: PersonId(row.actor),
                name: row.actor_name,
                role: read_enum("a person's role", &row.actor_role)?,
                time_zone: row.time_zone,
                language: row.language,
            },
            host,
            depth: row.depth as u32,
            state: read_enum("a turn's state", &row.state)?,
            steps: row.steps as u32,
            usage: Usage {
                input_tokens: row.input_tokens.map(|n| n as u64),
                output_tokens: row.output_tokens.map(|n| n as u64),
            },
            began_by: read_enum("a provenance", &row.began_by)?,
            origin: row
                .origin
                .map(serde_json::from_value)
                .transpose()
                .map_err(Error::unreadable("an address"))?,
            cancel_requested: row.cancel,
            history,
            calls,
            shown,
            partial,
            untitled: row.untitled,
        })
    }

    /// What viewers were shown of a reply that was never recorded.
    async fn partial(
        &self,
        host: PersonId,
        conversation: ConversationId,
        turn: TurnId,
        shown: EventId,
    ) -> Result<Option<Partial>, Error> {
        let mut replay = Replay::new(turn, shown);
        for envelope in self.stored_events(host, conversation, turn, shown).await? {
            replay.apply(envelope);
        }
        let last = replay.position();
        Ok((last > shown).then(|| Partial {
            last,
            text: replay.written(DeltaKind::Text),
            reasoning: replay.written(DeltaKind::Reasoning),
        }))
    }

    async fn stored_events(
        &self,
        person: PersonId,
        conversation: ConversationId,
        turn: TurnId,
        after: EventId,
    ) -> Result<Vec<Envelope>, Error> {
        let Cursor { person, conversation, after } = Cursor { person, conversation, after };
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query_scalar!(
            "select data from event
             where conversation_id = $1 and turn_id = $2 and (fence, number) > ($3, $4)
             order by fence, number",
            conversation.0,
            turn.0,
            after.fence,
            after.number,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read the turn's events"))?;
        tx.commit().await.map_err(Error::on("read the turn's events"))?;
        rows.iter().map(|data| decode("an event", data)).collect()
    }

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
