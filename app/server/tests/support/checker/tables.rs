//! The tables as they stand, read once.

use anyhow::{Context, Result};
use serde_json::Value;
use sqlx::{FromRow, PgPool};
use std::collections::BTreeMap;
use uuid::Uuid;

#[derive(FromRow)]
pub(super) struct Conversation {
    pub(super) id: Uuid,
    pub(super) last_seq: i64,
    pub(super) live_turn: Option<Uuid>,
}

#[derive(FromRow)]
pub(super) struct Turn {
    pub(super) id: Uuid,
    pub(super) conversation_id: Uuid,
    pub(super) ord: i64,
    pub(super) state: String,
    pub(super) steps: i32,
    pub(super) error: Option<String>,
    pub(super) origin_channel: Option<String>,
    pub(super) schedule_id: Option<Uuid>,
    /// The turn that took over what this one had not read.
    pub(super) successor_id: Option<Uuid>,
    /// Microseconds since 1970.
    pub(super) started_at: Option<i64>,
    pub(super) ended_at: Option<i64>,
}

impl Turn {
    pub(super) fn is_complete(&self) -> bool {
        self.state == "complete"
    }
}

#[derive(FromRow)]
struct MessageRow {
    id: Uuid,
    conversation_id: Uuid,
    turn_id: Uuid,
    turn_ord: i64,
    seq: i64,
    role: String,
    external_id: Option<String>,
    parts: Vec<u8>,
    seen: bool,
    model: Option<String>,
    moved_from: Option<Uuid>,
}

#[derive(Debug)]
pub(super) struct Message {
    pub(super) id: Uuid,
    pub(super) conversation: Uuid,
    pub(super) turn: Uuid,
    pub(super) turn_ord: i64,
    pub(super) seq: i64,
    pub(super) role: String,
    pub(super) external_id: Option<String>,
    pub(super) parts: Vec<Value>,
    pub(super) seen: bool,
    pub(super) model: Option<String>,
    /// The turn that ended without having read it.
    pub(super) moved_from: Option<Uuid>,
}

impl Message {
    pub(super) fn is(&self, role: &str) -> bool {
        self.role == role
    }

    /// The text parts, joined.
    pub(super) fn text(&self) -> String {
        self.of_type("text").filter_map(|part| part["text"].as_str()).collect()
    }

    pub(super) fn of_type<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.parts.iter().filter(move |part| part["type"] == kind)
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.of_type("sentinel").any(|part| part["reason"] == "interrupted")
    }
}

#[derive(FromRow)]
struct CallRow {
    turn_id: Uuid,
    step: i32,
    call: i32,
    item: i32,
    provider_id: String,
    tool: String,
    arguments: Vec<u8>,
    state: String,
    output: Option<Vec<u8>>,
}

pub(super) struct Call {
    pub(super) turn: Uuid,
    pub(super) step: i32,
    /// Within the step.
    pub(super) place: i32,
    pub(super) provider_id: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
    pub(super) state: String,
    pub(super) output: Option<Value>,
    /// As the product writes it.
    pub(super) key: String,
}

impl Call {
    /// `text`, `json`, `error`, `unknown`, `denied`, or nothing.
    pub(super) fn outcome(&self) -> &str {
        self.output.as_ref().and_then(|output| output["kind"].as_str()).unwrap_or("")
    }
}

#[derive(FromRow)]
pub(super) struct Approval {
    pub(super) turn_id: Uuid,
    pub(super) step: i32,
    pub(super) call: i32,
    pub(super) state: String,
    pub(super) decided_via: Option<String>,
}

#[derive(FromRow)]
struct OutboxRow {
    id: Uuid,
    turn_id: Option<Uuid>,
    channel: String,
    chat: String,
    state: String,
    attempts: i32,
    body: Vec<u8>,
}

pub(super) struct Outbound {
    pub(super) id: Uuid,
    /// None of what the installation says to somebody it does not know.
    pub(super) turn: Option<Uuid>,
    pub(super) channel: String,
    pub(super) chat: String,
    pub(super) state: String,
    /// How often it was begun to be sent.
    pub(super) attempts: i32,
    pub(super) markdown: String,
}

#[derive(FromRow)]
pub(super) struct Lane {
    pub(super) class: String,
    pub(super) id: Uuid,
    pub(super) state: String,
    pub(super) pending: i32,
    pub(super) worker: Option<Uuid>,
}

#[derive(FromRow)]
pub(super) struct Job {
    pub(super) id: Uuid,
    pub(super) class: String,
    pub(super) dead: bool,
    pub(super) reason: Option<String>,
}

#[derive(FromRow)]
pub(super) struct Schedule {
    pub(super) id: Uuid,
    pub(super) note: String,
    pub(super) enabled: bool,
}

#[derive(FromRow)]
pub(super) struct Slot {
    pub(super) schedule_id: Uuid,
    pub(super) outcome: String,
    pub(super) turn_id: Option<Uuid>,
}

pub(super) struct Tables {
    pub(super) conversations: Vec<Conversation>,
    pub(super) turns: BTreeMap<Uuid, Turn>,
    /// Of each turn, by sequence.
    pub(super) messages: BTreeMap<Uuid, Vec<Message>>,
    pub(super) calls: Vec<Call>,
    pub(super) approvals: Vec<Approval>,
    /// Message ids by key.
    pub(super) inbox: BTreeMap<String, Uuid>,
    pub(super) outbox: Vec<Outbound>,
    /// Bodies.
    pub(super) knowledge: Vec<String>,
    pub(super) lanes: Vec<Lane>,
    pub(super) jobs: Vec<Job>,
    pub(super) schedules: Vec<Schedule>,
    pub(super) slots: Vec<Slot>,
}

impl Tables {
    pub(super) async fn read(admin: &PgPool) -> Result<Self> {
        let turns: Vec<Turn> = sqlx::query_as(
            "select id, conversation_id, ord, state, steps, error, schedule_id, successor_id,
                    origin ->> 'channel' as origin_channel,
                    (extract(epoch from started_at) * 1000000)::bigint as started_at,
                    (extract(epoch from ended_at) * 1000000)::bigint as ended_at
             from turn",
        )
        .fetch_all(admin)
        .await?;
        Ok(Self {
            conversations: sqlx::query_as("select id, last_seq, live_turn from conversation")
                .fetch_all(admin)
                .await?,
            turns: turns.into_iter().map(|turn| (turn.id, turn)).collect(),
            messages: messages(admin, None).await?,
            calls: calls(admin).await?,
            approvals: sqlx::query_as(
                "select turn_id, step, call, state, decided_via from approval",
            )
            .fetch_all(admin)
            .await?,
            inbox: sqlx::query_as::<_, (String, Uuid)>("select external_id, message_id from inbox")
                .fetch_all(admin)
                .await?
                .into_iter()
                .collect(),
            outbox: outbox(admin).await?,
            knowledge: sqlx::query_scalar("select body from knowledge").fetch_all(admin).await?,
            lanes: sqlx::query_as("select class, id, state, pending, worker from queue_lane")
                .fetch_all(admin)
                .await?,
            jobs: sqlx::query_as("select id, class, dead, reason from queue_job")
                .fetch_all(admin)
                .await?,
            schedules: sqlx::query_as("select id, note, enabled from schedule")
                .fetch_all(admin)
                .await?,
            slots: sqlx::query_as("select schedule_id, outcome, turn_id from schedule_slot")
                .fetch_all(admin)
                .await?,
        })
    }

    /// The messages of a turn, by sequence.
    pub(super) fn of_turn(&self, turn: Uuid) -> &[Message] {
        self.messages.get(&turn).map_or(&[], Vec::as_slice)
    }

    /// The turn that a message is in, if it was named for it or took it over.
    pub(super) fn turn_for(&self, message: Uuid, named: Uuid) -> Option<&Turn> {
        let named = self.turns.get(&named)?;
        let turns = [Some(named), named.successor_id.and_then(|next| self.turns.get(&next))];
        let has = |turn: &&Turn| self.of_turn(turn.id).iter().any(|there| there.id == message);
        turns.into_iter().flatten().find(has)
    }

    pub(super) fn all_messages(&self) -> impl Iterator<Item = &Message> {
        self.messages.values().flatten()
    }

    pub(super) fn said(&self, turn: Uuid) -> String {
        said(self.of_turn(turn))
    }

    pub(super) fn reply(&self, turn: Uuid) -> String {
        reply(self.of_turn(turn))
    }

    pub(super) fn approval_of(&self, call: &Call) -> Option<&Approval> {
        self.approvals
            .iter()
            .find(|a| (a.turn_id, a.step, a.call) == (call.turn, call.step, call.place))
    }
}

/// What viewers must hold of a turn in the end: all that the model said, cut-off parts included.
pub(super) fn said(messages: &[Message]) -> String {
    messages.iter().filter(|message| message.is("assistant")).map(Message::text).collect()
}

/// The reply that a turn ended with: what was cut off and asked for again belongs to it.
pub(super) fn reply(messages: &[Message]) -> String {
    let Some(last) = messages.iter().rposition(|message| message.is("assistant")) else {
        return String::new();
    };
    let mut reply = messages[last].text();
    // What was written meanwhile and never read does not stand between.
    let read = messages[..last].iter().rev().filter(|message| message.seen);
    for message in read.take_while(|message| message.is_interrupted()) {
        reply.insert_str(0, &message.text());
    }
    reply
}

/// The messages of one turn, or of all, by sequence.
pub(super) async fn messages(
    admin: &PgPool,
    turn: Option<Uuid>,
) -> Result<BTreeMap<Uuid, Vec<Message>>> {
    let rows: Vec<MessageRow> = sqlx::query_as(
        "select id, conversation_id, turn_id, turn_ord, seq, role, external_id, parts, seen, model,
                moved_from
         from message
         where $1 or (turn_id = $2
                      and conversation_id = (select conversation_id from turn where id = $2))
         order by conversation_id, turn_ord, seq",
    )
    .bind(turn.is_none())
    .bind(turn)
    .fetch_all(admin)
    .await?;
    let mut by_turn: BTreeMap<Uuid, Vec<Message>> = BTreeMap::new();
    for row in rows {
        let parts = serde_json::from_slice(&row.parts)
            .with_context(|| format!("the parts of message {} are not JSON", row.id))?;
        by_turn.entry(row.turn_id).or_default().push(Message {
            id: row.id,
            conversation: row.conversation_id,
            turn: row.turn_id,
            turn_ord: row.turn_ord,
            seq: row.seq,
            role: row.role,
            external_id: row.external_id,
            parts,
            seen: row.seen,
            model: row.model,
            moved_from: row.moved_from,
        });
    }
    Ok(by_turn)
}

async fn calls(admin: &PgPool) -> Result<Vec<Call>> {
    let rows: Vec<CallRow> = sqlx::query_as(
        "select turn_id, step, call, item, provider_id, tool, arguments, state, output
         from tool_call order by turn_id, step, call, item",
    )
    .fetch_all(admin)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(Call {
                turn: row.turn_id,
                step: row.step,
                place: row.call,
                key: format!("{}.{}.{}.{}", row.turn_id, row.step, row.call, row.item),
                provider_id: row.provider_id,
                tool: row.tool,
                arguments: serde_json::from_slice(&row.arguments)?,
                state: row.state,
                output: row.output.map(|output| serde_json::from_slice(&output)).transpose()?,
            })
        })
        .collect()
}

async fn outbox(admin: &PgPool) -> Result<Vec<Outbound>> {
    let rows: Vec<OutboxRow> = sqlx::query_as(
        "select id, turn_id, address ->> 'channel' as channel,
                address ->> 'chat' as chat, state, attempts, body
             from outbox order by id",
    )
    .fetch_all(admin)
    .await?;
    rows.into_iter()
        .map(|row| {
            let body: Value = serde_json::from_slice(&row.body)?;
            let markdown = body["markdown"].as_str().unwrap_or_default().to_owned();
            let OutboxRow { id, turn_id: turn, channel, chat, state, attempts, .. } = row;
            Ok(Outbound { id, turn, channel, chat, state, attempts, markdown })
        })
        .collect()
}
