//! Messages as the turn loop reads and writes them.

use crate::{
    codec::{DbLabel, decode_parts, encode_parts, read_enum, without_nul},
    error::Error,
};
use famulus_core::{
    ids::{MessageId, PersonId, TurnId},
    message::{
        Heard, Message, MessageRole, Part, PartBody, Provenance, ProviderBlocks, visible_text,
    },
    turn::{Fence, NewMessage},
};
use famulus_queue::Instant;
use sqlx::PgConnection;
use std::{collections::HashMap, sync::Arc};
use uuid::Uuid;

/// Messages before a turn that it reads back, at most; the model's window ends long before. Its own it reads
/// all: each of them is to be answered.
const WINDOW: i64 = 400;

struct Row {
    id: Uuid,
    seq: i64,
    role: String,
    sender_id: Option<Uuid>,
    turn_id: Uuid,
    parts: Vec<u8>,
    provider: Option<String>,
    blocks: Option<Vec<u8>>,
    created_at: Instant,
}

impl TryFrom<Row> for Message {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: MessageId(row.id),
            seq: row.seq,
            role: read_enum("a message's role", &row.role)?,
            person: row.sender_id.map(PersonId),
            turn: Some(TurnId(row.turn_id)),
            parts: decode_parts(&row.parts)?,
            blocks: row
                .provider
                .zip(row.blocks)
                .map(|(provider, bytes)| ProviderBlocks { provider, bytes }),
            created_at: row.created_at.0,
        })
    }
}

fn messages(rows: Vec<Row>) -> Result<Vec<Arc<Message>>, Error> {
    rows.into_iter().map(|row| Message::try_from(row).map(Arc::new)).collect()
}

/// The conversations before the turns of the places, and those turns whole, by turn.
pub(crate) async fn windows(
    conn: &mut PgConnection,
    places: &[Place],
) -> Result<HashMap<TurnId, Result<Vec<Arc<Message>>, Error>>, Error> {
    let rows = sqlx::query!(
        r#"select t.id as "reader!", m.id as "id!", m.seq as "seq!", m.role as "role!", m.sender_id,
                  m.turn_id as "turn_id!", m.parts as "parts!", m.provider, m.blocks,
                  m.created_at as "created_at!: Instant"
           from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as t (id, conversation, ord)
           cross join lateral (
               (select * from message
                where conversation_id = t.conversation and turn_ord < t.ord
                order by turn_ord desc, seq desc limit $4)
               union all
               select * from message
               where conversation_id = t.conversation and turn_ord = t.ord
           ) m
           order by t.id, m.turn_ord, m.seq"#,
        &places.iter().map(|place| place.turn.0).collect::<Vec<_>>(),
        &places.iter().map(|place| place.conversation).collect::<Vec<_>>(),
        &places.iter().map(|place| place.ord).collect::<Vec<_>>(),
        WINDOW,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read the conversation"))?;
    let mut windows: HashMap<TurnId, Vec<Row>> = HashMap::new();
    for row in rows {
        windows.entry(TurnId(row.reader)).or_default().push(Row {
            id: row.id,
            seq: row.seq,
            role: row.role,
            sender_id: row.sender_id,
            turn_id: row.turn_id,
            parts: row.parts,
            provider: row.provider,
            blocks: row.blocks,
            created_at: row.created_at,
        });
    }
    Ok(windows.into_iter().map(|(turn, rows)| (turn, messages(rows))).collect())
}

/// Takes the messages that joined the turn since it last looked, behind everything that it read
/// before: a message gets its place when it is read, so that whoever reads the conversation later
/// reads it in the order in which the model did. The caller holds the conversation's row.
pub(crate) async fn take_steering(
    conn: &mut PgConnection,
    place: Place,
) -> Result<Vec<Arc<Message>>, Error> {
    let unread = sqlx::query_scalar!(
        "select id from message
         where conversation_id = $1 and turn_ord = $2 and turn_id = $3 and not seen
         order by seq",
        place.conversation,
        place.ord,
        place.turn.0,
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(Error::on("look for what was written meanwhile"))?;
    if unread.is_empty() {
        return Ok(Vec::new());
    }
    let seqs = next_seqs(conn, place.conversation, unread.len()).await?;
    let mut rows = sqlx::query_as!(
        Row,
        r#"update message m set seen = true, seq = v.seq
           from unnest($3::uuid[], $4::bigint[]) as v (id, seq)
           where m.conversation_id = $1 and m.turn_ord = $2 and m.id = v.id
           returning m.id, m.seq, m.role, m.sender_id, m.turn_id, m.parts, m.provider, m.blocks,
                     m.created_at as "created_at: Instant""#,
        place.conversation,
        place.ord,
        &unread,
        &seqs,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read what was written meanwhile"))?;
    rows.sort_by_key(|row| row.seq);
    messages(rows)
}

/// The next numbers of a conversation.
pub(crate) async fn next_seqs(
    conn: &mut PgConnection,
    conversation: Uuid,
    count: usize,
) -> Result<Vec<i64>, Error> {
    let count = count as i64;
    let last = sqlx::query_scalar!(
        "update conversation set last_seq = last_seq + $2 where id = $1 returning last_seq",
        conversation,
        count,
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("make room for what was written meanwhile"))?;
    Ok((last - count + 1..=last).collect())
}

/// Where a turn's messages go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) turn: TurnId,
    pub(crate) conversation: Uuid,
    pub(crate) host: Uuid,
    pub(crate) ord: i64,
}

/// The turn's place; locks the conversation's row, so that the next number is this transaction's.
pub(crate) async fn place(conn: &mut PgConnection, turn: TurnId) -> Result<(Place, i64), Error> {
    let row = sqlx::query!(
        "update conversation c set last_seq = last_seq + 1, updated_at = now()
         from turn t where t.id = $1 and c.id = t.conversation_id
         returning c.id, c.person_id, t.ord, c.last_seq",
        turn.0,
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("find the turn's place"))?;
    let place = Place { turn, conversation: row.id, host: row.person_id, ord: row.ord };
    Ok((place, row.last_seq))
}

/// Takes the rows of the lanes' conversations, in one order.
pub(crate) async fn lock(conn: &mut PgConnection, fences: &[Fence]) -> Result<(), Error> {
    sqlx::query_scalar!(
        r#"select 1 as "one!" from conversation where id = any($1) order by id for no key update"#,
        &fences.iter().map(|fence| fence.lane).collect::<Vec<_>>(),
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("lock the conversation"))?;
    Ok(())
}

/// The next number of each place's conversation. The caller holds the conversations' rows, and
/// names each once.
pub(crate) async fn next_seq_of(
    conn: &mut PgConnection,
    places: &[Place],
) -> Result<Vec<i64>, Error> {
    let ids: Vec<Uuid> = places.iter().map(|place| place.conversation).collect();
    let rows = sqlx::query!(
        "update conversation set last_seq = last_seq + 1, updated_at = now()
         where id = any($1) returning id, last_seq",
        &ids,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("find the turn's place"))?;
    let seqs: HashMap<Uuid, i64> = rows.into_iter().map(|row| (row.id, row.last_seq)).collect();
    ids.iter()
        .map(|id| seqs.get(id).copied().ok_or(sqlx::Error::RowNotFound))
        .collect::<Result<_, _>>()
        .map_err(Error::on("find the turn's place"))
}

/// Writes into a part of a message what was heard in it. The caller holds the conversation's row.
pub(crate) async fn hear(
    conn: &mut PgConnection,
    turn: TurnId,
    message: MessageId,
    part: usize,
    heard: &Heard,
) -> Result<(), Error> {
    let failed = || Error::on("record what was heard");
    let parts = sqlx::query_scalar!(
        "select parts from message where id = $1 and turn_id = $2",
        message.0,
        turn.0
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(failed())?;
    let mut parts = decode_parts(&parts)?;
    match parts.get_mut(part).map(|part| &mut part.body) {
        Some(PartBody::Audio(file)) => file.heard = Some(heard.clone()),
        // The loop reads the numbers of parts off what it loaded of this very row.
        Some(_) | None => return Err(failed()(sqlx::Error::RowNotFound)),
    }
    sqlx::query!("update message set parts = $2 where id = $1", message.0, encode_parts(&parts)?)
        .execute(conn)
        .await
        .map_err(failed())?;
    Ok(())
}

/// A message of the model or of tools, on its way to the end of its conversation.
pub(crate) struct Appended<'a> {
    pub(crate) place: Place,
    pub(crate) seq: i64,
    pub(crate) role: MessageRole,
    pub(crate) message: NewMessage,
    pub(crate) model: Option<&'a str>,
}

/// Appends a message of the model or of tools.
pub(crate) async fn append(
    conn: &mut PgConnection,
    place: Place,
    seq: i64,
    role: MessageRole,
    message: NewMessage,
    model: Option<&str>,
) -> Result<Arc<Message>, Error> {
    let mut stored = append_many(conn, vec![Appended { place, seq, role, message, model }]).await?;
    stored.pop().ok_or_else(|| Error::on("store a message")(sqlx::Error::RowNotFound))
}

/// Appends messages in one statement; returns them in their order.
pub(crate) async fn append_many(
    conn: &mut PgConnection,
    messages: Vec<Appended<'_>>,
) -> Result<Vec<Arc<Message>>, Error> {
    let provenance = |role| match role {
        MessageRole::Assistant => Provenance::Assistant,
        MessageRole::Tool => Provenance::Tool,
        MessageRole::User => Provenance::System,
    };
    let mut rows = Rows::default();
    for Appended { place, seq, role, message, model } in &messages {
        rows.ids.push(message.id.0);
        rows.conversations.push(place.conversation);
        rows.hosts.push(place.host);
        rows.turns.push(place.turn.0);
        rows.ords.push(place.ord);
        rows.seqs.push(*seq);
        rows.roles.push(role.as_str());
        rows.provenances.push(provenance(*role).label());
        rows.parts.push(encode_parts(&message.parts)?);
        rows.bodies.push(without_nul(&searchable(&message.parts)));
        rows.providers.push(message.blocks.as_ref().map(|blocks| blocks.provider.as_str()));
        rows.blocks.push(message.blocks.as_ref().map(|blocks| blocks.bytes.as_slice()));
        rows.models.push(*model);
    }
    // One moment for all: that of the transaction.
    let created_at = sqlx::query_scalar!(
        r#"insert into message (id, conversation_id, person_id, turn_id, turn_ord, seq, role,
                                provenance, parts, body, provider, blocks, model)
           select * from unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[],
                                $6::bigint[], $7::text[], $8::text[], $9::bytea[], $10::text[],
                                $11::text[], $12::bytea[], $13::text[])
           returning created_at as "created_at: Instant""#,
        &rows.ids,
        &rows.conversations,
        &rows.hosts,
        &rows.turns,
        &rows.ords,
        &rows.seqs,
        &rows.roles as &[&str],
        &rows.provenances as &[&str],
        &rows.parts,
        &rows.bodies,
        &rows.providers as &[Option<&str>],
        &rows.blocks as &[Option<&[u8]>],
        &rows.models as &[Option<&str>],
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("store a message"))?;
    let stored = |(appended, created_at): (Appended<'_>, Instant)| {
        let Appended { place, seq, role, message, model: _ } = appended;
        Arc::new(Message {
            id: message.id,
            seq,
            role,
            person: None,
            turn: Some(place.turn),
            parts: message.parts,
            blocks: message.blocks,
            created_at: created_at.0,
        })
    };
    Ok(messages.into_iter().zip(created_at).map(stored).collect())
}

/// Columns of messages.
#[derive(Default)]
struct Rows<'a> {
    ids: Vec<Uuid>,
    conversations: Vec<Uuid>,
    hosts: Vec<Uuid>,
    turns: Vec<Uuid>,
    ords: Vec<i64>,
    seqs: Vec<i64>,
    roles: Vec<&'static str>,
    provenances: Vec<&'static str>,
    parts: Vec<Vec<u8>>,
    bodies: Vec<String>,
    providers: Vec<Option<&'a str>>,
    blocks: Vec<Option<&'a [u8]>>,
    models: Vec<Option<&'a str>>,
}

/// The text that lists and search read: what was said, or what tools returned.
fn searchable(parts: &[Part]) -> String {
    let text = visible_text(parts);
    if !text.is_empty() {
        return text;
    }
    let outputs: Vec<&str> = parts
        .iter()
        .filter_map(|part| match &part.body {
            PartBody::ToolResult(result) => Some(result.output.text()),
            PartBody::Text { .. }
            | PartBody::Reasoning { .. }
            | PartBody::ToolCall(_)
            | PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::File(_)
            | PartBody::Sentinel { .. } => None,
        })
        .collect();
    outputs.join("\n")
}
