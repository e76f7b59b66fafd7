//! One batch of messages, in one statement: `accept_batch` of the migrations.
//!
//! A round trip costs as much as a flush of the disk, so all of it is one function in the
//! database. What it locks, and in which order, stands there.

use crate::{
    codec::{DbLabel, encode, encode_parts, read_enum, without_nul},
    error::Error,
};
use famulus_core::{
    accept::{AcceptError, Accepted, Disposition},
    blob::BlobRef,
    ids::{BlobId, ConversationId, MessageId, PersonId, TurnId, WorkerId},
    inbound::{Attachment, Inbound, Meeting, Source, Target},
    message::{FilePart, Part, PartBody, Provenance},
    render,
    turn::Fence,
};
use famulus_queue::{Class, Instant, Job, Lease};
use serde::Deserialize;
use sqlx::{PgExecutor, postgres::types::PgInterval, query_as};
use std::time::Duration;
use uuid::Uuid;

/// Whose rows a message may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageScope {
    /// Its sender's and its host's.
    Own,
    /// Those of the transaction that it is stored in.
    Transaction,
}

/// What the database says of one row.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Started,
    Steered,
    Duplicate,
    KeyReused,
    NoConversation,
    NoAttachment,
    /// Not a message, but a turn that was leased at once.
    Leased,
}

/// One message as the database takes it: the type `inbound` of the migrations, which says what each
/// field means.
#[derive(sqlx::Type)]
#[sqlx(type_name = "inbound")]
struct Entry {
    new_message: Uuid,
    new_turn: Uuid,
    new_conversation: Uuid,
    to_conversation: Option<Uuid>,
    to_key: Option<String>,
    host: Uuid,
    sender: Uuid,
    agent: Uuid,
    may_steer: bool,
    said_by: String,
    said_in: String,
    reply_to: String,
    by_schedule: Option<Uuid>,
    key_channel: String,
    key_account: String,
    key_id: Option<String>,
    key_hash: Vec<u8>,
    part: Vec<u8>,
    visible: String,
    written_at: Option<Instant>,
    files: Vec<Uuid>,
}

impl Entry {
    fn of(inbound: &Inbound) -> Result<Self, Error> {
        let (part, visible) = message_of(inbound)?;
        let keyed_by = inbound.keyed_by.as_ref().unwrap_or(&inbound.reply);
        let (to_conversation, to_key) = match &inbound.target {
            Target::Existing(id) => (Some(id.0), None),
            Target::Key(key) => (None, Some(key.0.clone())),
        };
        Ok(Self {
            new_message: MessageId::new().0,
            new_turn: TurnId::new().0,
            new_conversation: ConversationId::new().0,
            to_conversation,
            to_key,
            host: inbound.host.0,
            sender: inbound.person.0,
            agent: inbound.agent.0,
            may_steer: inbound.meeting == Meeting::Steer && !inbound.source.is_internal(),
            said_by: inbound.provenance.label().to_owned(),
            said_in: json_of(&inbound.source)?,
            reply_to: json_of(&inbound.reply)?,
            by_schedule: schedule_of(inbound),
            key_channel: keyed_by.channel.clone(),
            key_account: keyed_by.account.clone(),
            key_id: key_of(inbound),
            key_hash: inbound.body_hash.to_vec(),
            part,
            visible,
            written_at: inbound.sent_at.map(Instant),
            files: inbound.attachments.iter().map(|file| file.blob.id.0).collect(),
        })
    }
}

/// What the database says of one message.
struct Row {
    outcome: String,
    conversation: Option<Uuid>,
    message: Option<Uuid>,
    turn: Option<Uuid>,
    blob: Option<Uuid>,
    owner: Option<Uuid>,
    token: Option<i64>,
}

/// What became of a batch.
pub(crate) struct Batch {
    /// One for every message, in order.
    pub(crate) results: Vec<Result<Accepted, AcceptError>>,
    /// The turns that were leased at once.
    pub(crate) leases: Vec<Lease>,
}

/// Who would begin turns at once, and how many.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lessee {
    pub(crate) worker: WorkerId,
    pub(crate) places: usize,
    pub(crate) lease: Duration,
}

impl Lessee {
    /// The work waits for whoever claims it.
    pub(crate) fn nobody() -> Self {
        Self { worker: WorkerId(Uuid::nil()), places: 0, lease: Duration::ZERO }
    }
}

/// Stores messages: in a transaction of its own on a pool, or in the caller's.
///
/// In the caller's transaction its scope holds; otherwise each message has that of its own people.
/// The outer error means that nothing may be committed; an inner one concerns one message only.
pub(crate) async fn accept_in(
    executor: impl PgExecutor<'_>,
    scope: MessageScope,
    inbounds: &[Inbound],
    lessee: Lessee,
) -> Result<Batch, Error> {
    let batch = inbounds.iter().map(Entry::of).collect::<Result<Vec<_>, Error>>()?;
    let rows = query_as!(
        Row,
        r#"select outcome as "outcome!", conversation, message, turn, blob, owner, token
           from accept_batch($1, $2, $3, $4, $5)"#,
        scope == MessageScope::Own,
        &batch as &[Entry],
        lessee.worker.0,
        i32::try_from(lessee.places).unwrap_or(i32::MAX),
        PgInterval { months: 0, days: 0, microseconds: micros(lessee.lease) },
    )
    .fetch_all(executor)
    .await
    .map_err(Error::on("accept messages"))?;

    let (messages, leased) = rows.split_at_checked(inbounds.len()).ok_or_else(unexpected)?;
    let read = |(row, inbound)| read(row, inbound);
    Ok(Batch {
        results: messages.iter().zip(inbounds).map(read).collect::<Result<_, Error>>()?,
        leases: leased
            .iter()
            .map(|row| lease_of(row, lessee.worker).ok_or_else(unexpected))
            .collect::<Result<_, Error>>()?,
    })
}

/// The function of the migrations did not answer as this release expects.
pub(crate) fn unexpected() -> Error {
    Error::Refused { operation: "accept messages as expected", source: sqlx::Error::RowNotFound }
}

fn micros(length: Duration) -> i64 {
    i64::try_from(length.as_micros()).unwrap_or(i64::MAX)
}

fn lease_of(row: &Row, worker: WorkerId) -> Option<Lease> {
    let (lane, person) = (row.conversation?, PersonId(row.owner?));
    Some(Lease {
        fence: Fence { lane, worker, token: row.token?, person },
        job: Job { id: row.turn?, class: Class::Turn, lane, person },
        attempts: 1,
    })
}

fn read(row: &Row, inbound: &Inbound) -> Result<Result<Accepted, AcceptError>, Error> {
    let disposition = match read_enum("outcomes", &row.outcome)? {
        Outcome::Started => Disposition::Started,
        Outcome::Steered => Disposition::Steered,
        Outcome::Duplicate => Disposition::Duplicate,
        // Taken for another body, or by somebody whose messages this person may not see.
        Outcome::KeyReused => {
            let key = inbound.external_id.clone().ok_or_else(unexpected)?;
            return Ok(Err(AcceptError::KeyReused { key }));
        }
        Outcome::NoConversation => return Ok(Err(no_conversation(inbound))),
        Outcome::NoAttachment => {
            let id = BlobId(row.blob.ok_or_else(unexpected)?);
            return Ok(Err(AcceptError::NoAttachment { id }));
        }
        Outcome::Leased => return Err(unexpected()),
    };
    let (Some(conversation), Some(message), Some(turn)) = (row.conversation, row.message, row.turn)
    else {
        return Err(unexpected());
    };
    Ok(Ok(Accepted {
        conversation: ConversationId(conversation),
        message: MessageId(message),
        turn: TurnId(turn),
        disposition,
    }))
}

fn no_conversation(inbound: &Inbound) -> AcceptError {
    let id = match &inbound.target {
        Target::Existing(id) => id.to_string(),
        Target::Key(key) => key.0.clone(),
    };
    AcceptError::NoConversation { id }
}

fn json_of(value: &impl serde::Serialize) -> Result<String, Error> {
    let bytes = encode("an address", value)?;
    Ok(without_nul(&String::from_utf8_lossy(&bytes)).replace("\\u0000", "\u{fffd}"))
}

fn schedule_of(inbound: &Inbound) -> Option<Uuid> {
    match &inbound.source {
        Source::Schedule(id) => Some(id.0),
        Source::Http
        | Source::Cli
        | Source::Channel(_)
        | Source::Callback(_)
        | Source::Upload
        | Source::Plugin(_)
        | Source::Agent(_) => None,
    }
}

fn key_of(inbound: &Inbound) -> Option<String> {
    #[cfg(feature = "sabotage")]
    if famulus_queue::sabotage::is_out(famulus_queue::sabotage::Safety::Deduplication) {
        return inbound.external_id.as_ref().map(|key| format!("{key} {}", Uuid::now_v7()));
    }
    inbound.external_id.clone()
}

/// What is stored of what a message says: its parts, and its visible text.
pub(crate) fn message_of(inbound: &Inbound) -> Result<(Vec<u8>, String), Error> {
    Ok((encode_parts(&parts_of(inbound))?, without_nul(&inbound.text)))
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
    let reference = FilePart::new(file.blob.clone(), file.name.clone());
    let body = if mime.starts_with("image/") {
        PartBody::Image(reference)
    } else if mime.starts_with("audio/") {
        PartBody::Audio(reference)
    } else {
        PartBody::File(reference)
    };
    Part::new(body, provenance)
}
