//! What pages and clients read of conversations and turns.
//!
//! A stored message of a person holds the text as the model reads it, under its header; a view
//! shows what the person wrote.

use crate::{
    approvals,
    codec::{decode_parts, read_enum},
    db::{Scope, Store},
    error::Error,
};
use famulus_core::{
    approval::Approval,
    ids::{ConversationId, MessageId, PersonId, TurnId},
    message::{MessageRole, Part, PartBody, Provenance, visible_text},
    model::Usage,
    place,
    turn::TurnState,
};
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::Timestamp;
use std::{fmt, str::FromStr};

/// A conversation in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConversationView {
    pub id: ConversationId,
    pub title: Option<String>,
    /// The agent's name.
    pub agent: String,
    /// The turn that a worker has taken up, and how far it is; `None` when nothing runs.
    pub live: Option<(TurnId, TurnState)>,
    pub last_seq: i64,
    pub created_at: Timestamp,
    /// When the last message was stored.
    pub updated_at: Timestamp,
}

/// The place of a message in its conversation: messages are read by turn, then by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageCursor {
    pub turn_ord: i64,
    pub seq: i64,
}

impl fmt::Display for MessageCursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.turn_ord, self.seq)
    }
}

/// The text is not a cursor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a place in a conversation; send back the cursor as it was received")]
pub struct NotACursor(pub String);

impl FromStr for MessageCursor {
    type Err = NotACursor;

    fn from_str(text: &str) -> Result<Self, NotACursor> {
        let (turn_ord, seq) = place::read(text).ok_or_else(|| NotACursor(text.to_owned()))?;
        Ok(Self { turn_ord, seq })
    }
}

/// A piece of a list, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the piece before this one ends; `None` when there is nothing before.
    pub before: Option<MessageCursor>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageView {
    pub id: MessageId,
    pub seq: i64,
    pub role: MessageRole,
    pub turn: TurnId,
    pub parts: Vec<Part>,
    /// The text parts, joined.
    pub text: String,
    /// Whether there is anything to read in the text.
    pub has_text: bool,
    /// The model that wrote it.
    pub model: Option<String>,
    pub created_at: Timestamp,
    pub cursor: MessageCursor,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnView {
    pub id: TurnId,
    pub conversation: ConversationId,
    pub state: TurnState,
    /// Model replies recorded so far.
    pub steps: u32,
    pub usage: Usage,
    pub model: Option<String>,
    /// Why it failed, for the person who waits.
    pub error: Option<String>,
    /// The text of the turn's reply so far, if there is one.
    pub text: Option<String>,
    /// The turn that took over what joined this one and was read by no reply of it.
    pub successor: Option<TurnId>,
    /// The questions that it waits for.
    pub approvals: Vec<Approval>,
    pub created_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
}

impl Store {
    /// The last messages of a conversation, or the last ones before a place, oldest first. A
    /// conversation that is not the person's has none.
    #[boxed]
    pub async fn messages(
        &self,
        person: PersonId,
        conversation: ConversationId,
        before: Option<MessageCursor>,
        limit: i64,
    ) -> Result<Page<MessageView>, Error> {
        let end = before.unwrap_or(MessageCursor { turn_ord: i64::MAX, seq: i64::MAX });
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        // One more than is shown tells whether there is something before.
        let rows = sqlx::query!(
            r#"select id, seq, role, turn_id, turn_ord, provenance, parts, body, model,
                      created_at as "created_at: Instant"
               from message where conversation_id = $1 and (turn_ord, seq) < ($2, $3)
               order by turn_ord desc, seq desc limit $4"#,
            conversation.0,
            end.turn_ord,
            end.seq,
            limit.saturating_add(1),
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read messages"))?;
        tx.commit().await.map_err(Error::on("read messages"))?;
        let limit = usize::try_from(limit).unwrap_or(0);
        let more = rows.len() > limit;
        let mut items = rows
            .into_iter()
            .take(limit)
            .map(|row| {
                let role = read_enum("a message's role", &row.role)?;
                let stored = decode_parts(&row.parts)?;
                let parts = match role {
                    MessageRole::User => {
                        as_written(stored, &row.body, read_enum("a provenance", &row.provenance)?)
                    }
                    MessageRole::Assistant | MessageRole::Tool => stored,
                };
                let text = visible_text(&parts);
                Ok(MessageView {
                    id: MessageId(row.id),
                    seq: row.seq,
                    role,
                    turn: TurnId(row.turn_id),
                    has_text: !text.trim().is_empty(),
                    text,
                    parts,
                    model: row.model,
                    created_at: row.created_at.0,
                    cursor: MessageCursor { turn_ord: row.turn_ord, seq: row.seq },
                })
            })
            .collect::<Result<Vec<_>, Error>>()?;
        items.reverse();
        let before = items.first().filter(|_| more).map(|first| first.cursor);
        Ok(Page { items, before })
    }

    /// A turn of one of the person's conversations.
    #[boxed]
    pub async fn turn(&self, person: PersonId, id: TurnId) -> Result<Option<TurnView>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let Some(row) = sqlx::query!(
            r#"select t.conversation_id, t.state, t.steps, t.input_tokens, t.output_tokens,
                      t.model, t.error, t.successor_id, t.created_at as "created_at: Instant",
                      t.started_at as "started_at: Instant", t.ended_at as "ended_at: Instant",
                      m.reply
               from turn t
               left join lateral (
                   -- A reply that was cut short and asked for again is several messages.
                   select string_agg(body, '' order by seq) as reply from message r
                   where r.conversation_id = t.conversation_id and r.turn_ord = t.ord
                       and r.turn_id = t.id and r.role = 'assistant'
                       -- Those cut short name no model: behind the last one that does, or that is
                       -- not the model's, the reply begins.
                       and r.seq > (select coalesce(max(q.seq), 0) from message q
                                    where q.conversation_id = t.conversation_id
                                      and q.turn_ord = t.ord and q.turn_id = t.id
                                      and (q.role <> 'assistant' or q.model is not null)
                                      and q.seq < (select max(l.seq) from message l
                                                   where l.conversation_id = t.conversation_id
                                                     and l.turn_ord = t.ord and l.turn_id = t.id
                                                     and l.role = 'assistant'))
               ) m on true
               where t.id = $1"#,
            id.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read a turn"))?
        else {
            return Ok(None);
        };
        let approvals = approvals::pending(&mut tx, id).await?;
        tx.commit().await.map_err(Error::on("read a turn"))?;
        Ok(Some(TurnView {
            id,
            conversation: ConversationId(row.conversation_id),
            state: read_enum("a turn's state", &row.state)?,
            steps: row.steps as u32,
            usage: Usage {
                input_tokens: row.input_tokens.map(|tokens| tokens as u64),
                output_tokens: row.output_tokens.map(|tokens| tokens as u64),
            },
            model: row.model,
            error: row.error,
            text: row.reply,
            successor: row.successor_id.map(TurnId),
            approvals,
            created_at: row.created_at.0,
            started_at: row.started_at.map(|at| at.0),
            ended_at: row.ended_at.map(|at| at.0),
        }))
    }
}

impl Store {
    /// The turn that a message of one of the person's conversations is in: it may have moved since
    /// it was accepted.
    #[boxed]
    pub async fn turn_of(
        &self,
        person: PersonId,
        message: MessageId,
    ) -> Result<Option<TurnId>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let turn = sqlx::query_scalar!("select turn_id from message where id = $1", message.0)
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::on("find a message's turn"))?;
        tx.commit().await.map_err(Error::on("find a message's turn"))?;
        Ok(turn.map(TurnId))
    }
}

/// Puts what the person wrote in the place of the text that the model reads.
fn as_written(stored: Vec<Part>, body: &str, provenance: Provenance) -> Vec<Part> {
    let written =
        (!body.is_empty()).then(|| Part::new(PartBody::Text { text: body.to_owned() }, provenance));
    let others = stored.into_iter().filter(|part| !matches!(part.body, PartBody::Text { .. }));
    written.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::{blob::BlobRef, ids::BlobId, message::FilePart};

    #[test]
    fn a_persons_message_is_shown_as_it_was_written() {
        let text =
            |text: &str| Part::new(PartBody::Text { text: text.to_owned() }, Provenance::Owner);
        let blob = BlobRef {
            id: BlobId::new(),
            sha256: String::new(),
            mime: "text/plain".into(),
            size: 1,
        };
        let file = Part::new(PartBody::File(FilePart::new(blob, "a")), Provenance::Owner);
        let stored = vec![text("Time: …\nText: hello"), file.clone()];
        let shown = as_written(stored.clone(), "hello", Provenance::Owner);
        assert_eq!(shown, vec![text("hello"), file.clone()]);
        assert_eq!(as_written(stored, "", Provenance::Owner), vec![file]);
    }

    #[test]
    fn a_cursor_reads_back_from_its_text() {
        let cursor = MessageCursor { turn_ord: 7, seq: 12 };
        assert_eq!(cursor.to_string().parse(), Ok(cursor));
        assert_eq!("7".parse::<MessageCursor>(), Err(NotACursor("7".into())));
    }
}
