//! Taking turns up: marking them running, and reading all that the loop needs. Turns that are taken
//! up at the same time share one transaction.

use crate::{
    calls,
    codec::{decode, read_enum},
    db::{Scope, begin, rename},
    error::Error,
    gather::{Bounds, Work},
    history::{self, Place},
    knowledge,
};
use famulus_core::{
    agent::{Agent, Budgets, Grants, MAIN},
    crash,
    event::{DeltaKind, Envelope, EventId},
    ids::{AgentId, ConversationId, PersonId, TurnId},
    knowledge::Knowledge,
    message::Message,
    model::Usage,
    person::Person,
    replay::Replay,
    turn::{Fence, LoadedTurn, Partial, RecordedCall},
};
use famulus_queue::{Class, lane, lane::Progress};
use sqlx::{PgConnection, PgPool};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};
use uuid::Uuid;

pub(crate) const BOUNDS: Bounds =
    Bounds { batch: 32, at_once: 2, patience: Duration::ZERO, waiting: 1024 };

/// Takes turns up.
pub(crate) struct Beginnings {
    /// Its commits do not wait for the disk.
    pub(crate) pool: PgPool,
}

impl Work for Beginnings {
    type Item = (Fence, TurnId);
    type Answer = Result<LoadedTurn, Error>;

    const OPERATION: &'static str = "take the turn up";

    async fn commit(
        &self,
        _slot: usize,
        items: &[(Fence, TurnId)],
    ) -> Result<Vec<Result<LoadedTurn, Error>>, Error> {
        let people: Vec<PersonId> = items.iter().map(|(fence, _)| fence.person).collect();
        let fences: Vec<Fence> = items.iter().map(|(fence, _)| *fence).collect();
        let mut tx = begin(&self.pool, Scope::Persons(&people)).await?;
        history::lock(&mut tx, &fences).await?;
        let proofs = lane::guard_many(&mut tx, Class::Turn, &fences, Progress::Begins).await?;
        let held: Vec<TurnId> = items
            .iter()
            .zip(&proofs)
            .filter(|(_, proof)| proof.is_ok())
            .map(|((_, turn), _)| *turn)
            .collect();
        let mut rows = take(&mut tx, &held).await?;
        let places: Vec<Place> = rows.values().map(Row::place).collect();
        let mut calls: HashMap<TurnId, Vec<RecordedCall>> = HashMap::new();
        for place in places.iter().filter(|place| rows.get(&place.turn).is_some_and(|r| !r.fresh)) {
            calls.insert(place.turn, calls::of_turn(&mut tx, place.turn).await?);
            // What was written while nobody worked is read from here on, and in the history below.
            history::take_steering(&mut tx, *place).await?;
        }
        let mut windows = history::windows(&mut tx, &places).await?;
        let actors: HashSet<PersonId> =
            rows.values().filter(|row| row.agent_name == MAIN).map(|r| PersonId(r.actor)).collect();
        let knowledge = digests(&mut tx, actors).await?;
        crash::before("turn.take_up");
        tx.commit().await.map_err(Error::on("take the turn up"))?;
        crash::after("turn.take_up");
        let mut answers = Vec::with_capacity(items.len());
        for ((_, turn), proof) in items.iter().zip(proofs) {
            let found = proof.map_err(Error::from).and_then(|()| {
                rows.remove(turn)
                    .ok_or_else(|| Error::on("take the turn up")(sqlx::Error::RowNotFound))
            });
            let loaded = match found {
                Ok(row) => {
                    let parts = Parts {
                        history: windows.remove(turn).unwrap_or_else(|| Ok(Vec::new())),
                        calls: calls.remove(turn).unwrap_or_default(),
                        knowledge: (row.agent_name == MAIN)
                            .then(|| knowledge.get(&PersonId(row.actor)).cloned())
                            .map(Option::unwrap_or_default),
                        partial: self.partial(&row).await,
                    };
                    row.load(parts)
                }
                Err(error) => Err(error),
            };
            answers.push(loaded);
        }
        Ok(answers)
    }
}

impl Beginnings {
    /// What viewers were shown of a reply that was never recorded.
    async fn partial(&self, row: &Row) -> Result<Option<Partial>, Error> {
        if row.fresh {
            return Ok(None);
        }
        let (turn, shown) = (TurnId(row.id), row.shown());
        let mut replay = Replay::new(turn, shown);
        for envelope in self.stored_events(row, shown).await? {
            replay.apply(envelope);
        }
        let last = replay.position();
        Ok((last > shown).then(|| Partial {
            last,
            text: replay.written(DeltaKind::Text),
            reasoning: replay.written(DeltaKind::Reasoning),
        }))
    }

    async fn stored_events(&self, row: &Row, after: EventId) -> Result<Vec<Envelope>, Error> {
        let mut tx = begin(&self.pool, Scope::Person(PersonId(row.person_id))).await?;
        let rows = sqlx::query_scalar!(
            "select data from event
             where conversation_id = $1 and turn_id = $2 and (fence, number) > ($3, $4)
             order by fence, number",
            row.conversation_id,
            row.id,
            after.fence,
            after.number,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read the turn's events"))?;
        tx.commit().await.map_err(Error::on("read the turn's events"))?;
        rows.iter().map(|data| decode("an event", data)).collect()
    }
}

/// What each of these people's assistant knows.
async fn digests(
    conn: &mut PgConnection,
    people: HashSet<PersonId>,
) -> Result<HashMap<PersonId, Vec<Knowledge>>, Error> {
    if people.is_empty() {
        return Ok(HashMap::new());
    }
    let people: Vec<PersonId> = people.into_iter().collect();
    // In a group the turn may be somebody else's than the conversation.
    rename(conn, Scope::Persons(&people)).await?;
    knowledge::digests(conn, &people).await
}

/// Marks turns running, and reads them with the conversation, the person and the agent.
async fn take(conn: &mut PgConnection, turns: &[TurnId]) -> Result<HashMap<TurnId, Row>, Error> {
    let ids: Vec<Uuid> = turns.iter().map(|turn| turn.0).collect();
    let rows = sqlx::query_as!(
        Row,
        r#"
        with taken as (
            update turn set state = 'running', started_at = coalesce(started_at, now())
            where id = any($1) and state in ('queued', 'running', 'waiting')
            returning id
        ),
        live as (
            update conversation c
            set live_turn = t.id, live_ord = t.ord,
                -- Nothing joins what the installation says by itself: its words are settled.
                live_person = case when t.began_by <> 'system' or t.schedule_id is not null
                              then t.actor_id end
            from turn t
            -- What comes after a stop begins a turn of its own.
            where t.id = any($1) and t.id in (select id from taken) and c.id = t.conversation_id
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
        where t.id = any($1)
        "#,
        &ids,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("take the turn up"))?;
    Ok(rows.into_iter().map(|row| (TurnId(row.id), row)).collect())
}

/// A turn with its conversation, person and agent.
struct Row {
    id: Uuid,
    conversation_id: Uuid,
    person_id: Uuid,
    depth: i32,
    ord: i64,
    state: String,
    steps: i32,
    input_tokens: Option<i64>,
    output_tokens: Option<i64>,
    began_by: String,
    origin: Option<serde_json::Value>,
    shown_fence: i64,
    shown_number: i64,
    cancel: bool,
    fresh: bool,
    untitled: bool,
    actor: Uuid,
    actor_name: String,
    actor_role: String,
    time_zone: String,
    language: String,
    agent: Uuid,
    agent_name: String,
    prompt: String,
    agent_model: Option<String>,
    step_cap: Option<i32>,
    budget_read: i32,
    budget_write: i32,
    budget_external: i32,
    tools: Vec<String>,
}

/// What is read of a turn elsewhere.
struct Parts {
    history: Result<Vec<Arc<Message>>, Error>,
    calls: Vec<RecordedCall>,
    knowledge: Option<Vec<Knowledge>>,
    partial: Result<Option<Partial>, Error>,
}

impl Row {
    fn place(&self) -> Place {
        Place {
            turn: TurnId(self.id),
            conversation: self.conversation_id,
            host: self.person_id,
            ord: self.ord,
        }
    }

    fn shown(&self) -> EventId {
        EventId { fence: self.shown_fence, number: self.shown_number }
    }

    fn load(self, parts: Parts) -> Result<LoadedTurn, Error> {
        Ok(LoadedTurn {
            id: TurnId(self.id),
            conversation: ConversationId(self.conversation_id),
            shown: self.shown(),
            agent: Agent {
                id: AgentId(self.agent),
                name: self.agent_name,
                prompt: self.prompt,
                model: self.agent_model,
                step_cap: self.step_cap.map(|cap| cap as u32),
                budgets: Budgets {
                    read: self.budget_read as u32,
                    write: self.budget_write as u32,
                    external: self.budget_external as u32,
                },
                tools: Grants::from_names(self.tools),
            },
            person: Person {
                id: PersonId(self.actor),
                name: self.actor_name,
                role: read_enum("a person's role", &self.actor_role)?,
                time_zone: self.time_zone,
                language: self.language,
            },
            host: PersonId(self.person_id),
            depth: self.depth as u32,
            state: read_enum("a turn's state", &self.state)?,
            steps: self.steps as u32,
            usage: Usage {
                input_tokens: self.input_tokens.map(|n| n as u64),
                output_tokens: self.output_tokens.map(|n| n as u64),
            },
            began_by: read_enum("a provenance", &self.began_by)?,
            origin: self
                .origin
                .map(serde_json::from_value)
                .transpose()
                .map_err(Error::unreadable("an address"))?,
            cancel_requested: self.cancel,
            history: parts.history?,
            calls: parts.calls,
            knowledge: parts.knowledge,
            partial: parts.partial?,
            is_fresh: self.fresh,
            untitled: self.untitled,
        })
    }
}
