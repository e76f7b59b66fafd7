//! The rows of a batch of accepted messages, gathered by column and written in one statement.

use crate::{
    accept::{Accepted, Disposition},
    accept_lock::{Conversations, Locked},
    codec::{Word, encode, encode_parts, without_nul},
    error::Error,
};
use famulus_core::{
    blob::BlobRef,
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Attachment, Inbound, Meeting, Source},
    message::{FilePart, Part, PartBody, Provenance},
    render,
};
use famulus_queue::{Class, Instant, Job};
use sqlx::PgConnection;
use std::collections::BTreeSet;
use uuid::Uuid;

/// The rows of a batch, column by column.
#[derive(Default)]
pub(crate) struct Rows {
    turns: Vec<TurnRow>,
    messages: Vec<MessageRow>,
    blobs: Vec<(Uuid, Uuid, Uuid)>,
    /// Conversations whose running turn a message joined.
    pub(crate) steered: Vec<Uuid>,
}

struct TurnRow {
    id: Uuid,
    conversation: Uuid,
    host: Uuid,
    actor: Uuid,
    agent: Uuid,
    ord: i64,
    began_by: &'static str,
    origin: String,
    schedule: Option<Uuid>,
}

struct MessageRow {
    id: Uuid,
    conversation: Uuid,
    host: Uuid,
    sender: Uuid,
    turn: Uuid,
    turn_ord: i64,
    seq: i64,
    source: String,
    external: Option<String>,
    provenance: &'static str,
    parts: Vec<u8>,
    body: String,
    seen: bool,
    sent_at: Option<Instant>,
}

impl Rows {
    pub(crate) fn add(
        &mut self,
        inbound: &Inbound,
        id: MessageId,
        conversation: &mut Locked,
    ) -> Result<Accepted, Error> {
        conversation.last_seq += 1;
        let seq = conversation.last_seq;
        let live = conversation.live.filter(|live| {
            inbound.meeting == Meeting::Steer
                && live.person == inbound.person.0
                && !inbound.source.is_internal()
        });
        let (turn, turn_ord) =
            live.map_or_else(|| (TurnId::new().0, seq), |live| (live.turn, live.ord));
        if live.is_some() {
            self.steered.push(conversation.id);
        } else {
            self.turns.push(TurnRow {
                id: turn,
                conversation: conversation.id,
                host: conversation.host,
                actor: inbound.person.0,
                agent: conversation.agent,
                ord: seq,
                began_by: inbound.provenance.word(),
                origin: to_json(&inbound.reply)?,
                schedule: match &inbound.source {
                    Source::Schedule(id) => Some(id.0),
                    Source::Http
                    | Source::Cli
                    | Source::Channel(_)
                    | Source::Callback(_)
                    | Source::Upload
                    | Source::Plugin(_)
                    | Source::Agent(_) => None,
                },
            });
        }
        self.messages.push(MessageRow {
            id: id.0,
            conversation: conversation.id,
            host: conversation.host,
            sender: inbound.person.0,
            turn,
            turn_ord,
            seq,
            source: to_json(&inbound.source)?,
            external: inbound.external_id.clone(),
            provenance: inbound.provenance.word(),
            parts: encode_parts(&parts_of(inbound))?,
            body: without_nul(&inbound.text),
            seen: live.is_none(),
            sent_at: inbound.sent_at.map(Instant),
        });
        for file in &inbound.attachments {
            let reference = (id.0, file.blob.id.0, conversation.host);
            if !self.blobs.contains(&reference) {
                self.blobs.push(reference);
            }
        }
        Ok(Accepted {
            conversation: ConversationId(conversation.id),
            message: id,
            turn: TurnId(turn),
            disposition: if live.is_some() { Disposition::Steered } else { Disposition::Started },
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub(crate) fn jobs(&self) -> Vec<Job> {
        self.turns
            .iter()
            .map(|turn| Job {
                id: turn.id,
                class: Class::Turn,
                lane: turn.conversation,
                person: PersonId(turn.host),
            })
            .collect()
    }

    pub(crate) async fn write(
        &self,
        conn: &mut PgConnection,
        locked: &Conversations,
    ) -> Result<(), Error> {
        let touched: BTreeSet<Uuid> = self.messages.iter().map(|m| m.conversation).collect();
        let (ids, seqs): (Vec<Uuid>, Vec<i64>) = touched
            .into_iter()
            .filter_map(|id| locked.rows.get(&id).map(|row| (id, row.last_seq)))
            .unzip();
        let t = &self.turns;
        let m = &self.messages;
        sqlx::query!(
            r#"
            with counted as (
                update conversation c set last_seq = v.seq, updated_at = now()
                from unnest($1::uuid[], $2::bigint[]) as v (id, seq) where c.id = v.id
            ),
            turns as (
                insert into turn (id, conversation_id, person_id, actor_id, agent_id, ord,
                                  began_by, origin, schedule_id, state)
                select id, conversation, host, actor, agent, ord, began_by, origin::jsonb,
                       schedule, 'queued'
                from unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::uuid[],
                            $8::bigint[], $9::text[], $10::text[], $11::uuid[])
                    as t (id, conversation, host, actor, agent, ord, began_by, origin, schedule)
            )
            insert into message (id, conversation_id, person_id, sender_id, turn_id, turn_ord, seq,
                                 role, source, external_id, provenance, parts, body, seen, sent_at)
            select id, conversation, host, sender, turn, turn_ord, seq,
                   'user', source::jsonb, external, provenance, parts, body, seen, sent_at
            from unnest($12::uuid[], $13::uuid[], $14::uuid[], $15::uuid[], $16::uuid[],
                        $17::bigint[], $18::bigint[], $19::text[], $20::text[], $21::text[],
                        $22::bytea[], $23::text[], $24::boolean[], $25::timestamptz[])
                as m (id, conversation, host, sender, turn, turn_ord, seq, source, external,
                      provenance, parts, body, seen, sent_at)
            "#,
            &ids,
            &seqs,
            &t.iter().map(|r| r.id).collect::<Vec<_>>(),
            &t.iter().map(|r| r.conversation).collect::<Vec<_>>(),
            &t.iter().map(|r| r.host).collect::<Vec<_>>(),
            &t.iter().map(|r| r.actor).collect::<Vec<_>>(),
            &t.iter().map(|r| r.agent).collect::<Vec<_>>(),
            &t.iter().map(|r| r.ord).collect::<Vec<_>>(),
            &t.iter().map(|r| r.began_by.to_owned()).collect::<Vec<_>>(),
            &t.iter().map(|r| r.origin.clone()).collect::<Vec<_>>(),
            &t.iter().map(|r| r.schedule).collect::<Vec<_>>() as &[Option<Uuid>],
            &m.iter().map(|r| r.id).collect::<Vec<_>>(),
            &m.iter().map(|r| r.conversation).collect::<Vec<_>>(),
            &m.iter().map(|r| r.host).collect::<Vec<_>>(),
            &m.iter().map(|r| r.sender).collect::<Vec<_>>(),
            &m.iter().map(|r| r.turn).collect::<Vec<_>>(),
            &m.iter().map(|r| r.turn_ord).collect::<Vec<_>>(),
            &m.iter().map(|r| r.seq).collect::<Vec<_>>(),
            &m.iter().map(|r| r.source.clone()).collect::<Vec<_>>(),
            &m.iter().map(|r| r.external.clone()).collect::<Vec<_>>() as &[Option<String>],
            &m.iter().map(|r| r.provenance.to_owned()).collect::<Vec<_>>(),
            &m.iter().map(|r| r.parts.clone()).collect::<Vec<_>>(),
            &m.iter().map(|r| r.body.clone()).collect::<Vec<_>>(),
            &m.iter().map(|r| r.seen).collect::<Vec<_>>(),
            &m.iter().map(|r| r.sent_at).collect::<Vec<_>>() as &[Option<Instant>],
        )
        .execute(&mut *conn)
        .await
        .map_err(Error::on("store messages"))?;
        self.write_references(conn).await
    }

    async fn write_references(&self, conn: &mut PgConnection) -> Result<(), Error> {
        if self.blobs.is_empty() {
            return Ok(());
        }
        sqlx::query!(
            "insert into message_blob (message_id, blob_id, person_id)
             select * from unnest($1::uuid[], $2::uuid[], $3::uuid[])",
            &self.blobs.iter().map(|b| b.0).collect::<Vec<_>>(),
            &self.blobs.iter().map(|b| b.1).collect::<Vec<_>>(),
            &self.blobs.iter().map(|b| b.2).collect::<Vec<_>>(),
        )
        .execute(conn)
        .await
        .map_err(Error::on("store attachments"))?;
        Ok(())
    }
}

fn to_json<T: serde::Serialize>(value: &T) -> Result<String, Error> {
    let bytes = encode("an address", value)?;
    Ok(without_nul(&String::from_utf8_lossy(&bytes)).replace("\\u0000", "\u{fffd}"))
}

/// What the model reads: the header with the text, then the files.
fn parts_of(inbound: &Inbound) -> Vec<Part> {
    let text = render::header(
        inbound.sent_at.unwrap_or(inbound.arrived_at),
        &inbound.time_zone,
        &inbound.source.label(),
        &inbound.sender,
        &inbound.text,
        &inbound.attachments,
    );
    let mut parts = vec![Part::new(PartBody::Text { text }, inbound.provenance)];
    parts.extend(inbound.attachments.iter().map(|file| part_of(file, inbound.provenance)));
    parts
}

fn part_of(file: &Attachment, provenance: Provenance) -> Part {
    let BlobRef { mime, .. } = &file.blob;
    let reference = FilePart { blob: file.blob.clone(), name: file.name.clone() };
    let body = if mime.starts_with("image/") {
        PartBody::Image(reference)
    } else if mime.starts_with("audio/") {
        PartBody::Audio(reference)
    } else {
        PartBody::File(reference)
    };
    Part::new(body, provenance)
}
