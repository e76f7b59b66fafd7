//! Messages as the turn loop reads and writes them.

use crate::{
    codec::{DbLabel, decode_parts, encode_parts, read_enum, without_nul},
    error::Error,
};
use famulus_core::{
    ids::{ConversationId, MessageId, PersonId, TurnId},
    message::{Message, MessageRole, Part, PartBody, Provenance, ProviderBlocks, visible_text},
    turn::NewMessage,
};
use famulus_queue::Instant;
use sqlx::PgConnection;
use std::sync::Arc;
use uuid::Uuid;

/// Messages that a turn reads back, at most; the model's window ends long before.
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

/// The conversation up to and with the turn that began at `ord`.
pub(crate) async fn window(
    conn: &mut PgConnection,
    conversation: ConversationId,
    ord: i64,
) -> Result<Vec<Arc<Message>>, Error> {
    let mut rows = sqlx::query_as!(
        Row,
        r#"select id, seq, role, sender_id, turn_id, parts, provider, blocks,
                  created_at as "created_at: Instant"
           from message where conversation_id = $1 and turn_ord <= $2
           order by turn_ord desc, seq desc limit $3"#,
        conversation.0,
        ord,
        WINDOW,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("read the conversation"))?;
    rows.reverse();
    messages(rows)
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

/// Appends a message of the model or of tools.
pub(crate) async fn append(
    conn: &mut PgConnection,
    place: Place,
    seq: i64,
    role: MessageRole,
    message: NewMessage,
    model: Option<&str>,
) -> Result<Arc<Message>, Error> {
    let provenance = match role {
        MessageRole::Assistant => Provenance::Assistant,
        MessageRole::Tool => Provenance::Tool,
        MessageRole::User => Provenance::System,
    };
    let created_at = sqlx::query_scalar!(
        r#"insert into message (id, conversation_id, person_id, turn_id, turn_ord, seq, role,
                                provenance, parts, body, provider, blocks, model)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
           returning created_at as "created_at: Instant""#,
        message.id.0,
        place.conversation,
        place.host,
        place.turn.0,
        place.ord,
        seq,
        role.as_str(),
        provenance.label(),
        encode_parts(&message.parts)?,
        without_nul(&searchable(&message.parts)),
        message.blocks.as_ref().map(|blocks| blocks.provider.as_str()),
        message.blocks.as_ref().map(|blocks| blocks.bytes.as_slice()),
        model,
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("store a message"))?;
    Ok(Arc::new(Message {
        id: message.id,
        seq,
        role,
        person: None,
        turn: Some(place.turn),
        parts: message.parts,
        blocks: message.blocks,
        created_at: created_at.0,
    }))
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
