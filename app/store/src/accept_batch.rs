//! One transaction's worth of accepted messages.
//!
//! Order of locks, the same in every batch so that no two wait for each other: conversations by id,
//! then inbox keys, then lanes by id.

use crate::{
    accept::{AcceptError, Accepted, Disposition},
    codec::{Word, encode, encode_parts, without_nul},
    error::Error,
};
use famulus_core::{
    blob::BlobRef,
    ids::{ConversationId, MessageId, PersonId, TurnId},
    inbound::{Attachment, Inbound, Meeting, Source, Target},
    message::{FilePart, Part, PartBody, Provenance},
    render,
};
use famulus_queue::{Class, Instant, Job, lane};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use uuid::Uuid;

/// A conversation whose row this transaction holds.
struct Locked {
    id: Uuid,
    host: Uuid,
    agent: Uuid,
    last_seq: i64,
    live: Option<Live>,
}

#[derive(Clone, Copy)]
struct Live {
    turn: Uuid,
    ord: i64,
    person: Uuid,
}

/// Stores messages inside the caller's transaction, which must name all hosts and persons.
///
/// The outer error means that nothing may be committed; an inner one concerns one message only.
pub(crate) async fn accept_in(
    conn: &mut PgConnection,
    inbounds: &[Inbound],
) -> Result<Vec<Result<Accepted, AcceptError>>, Error> {
    let mut locked = lock_conversations(conn, inbounds).await?;
    let attached = known_attachments(conn, inbounds).await?;
    let ids: Vec<MessageId> = inbounds.iter().map(|_| MessageId::new()).collect();

    // What cannot be stored is set aside before its key is taken.
    let mut results: Vec<Option<Result<Accepted, AcceptError>>> =
        inbounds.iter().map(|inbound| refuse(inbound, &locked, &attached).map(Err)).collect();
    let fresh = take_keys(conn, inbounds, &ids, &results, &locked).await?;

    let mut rows = Rows::default();
    let mut repeats = Vec::new();
    for (place, inbound) in inbounds.iter().enumerate() {
        if results[place].is_some() {
            continue;
        }
        if !fresh.contains(&place) {
            repeats.push(place);
            continue;
        }
        let Some(conversation) = locked.get_mut(&inbound.target) else { continue };
        let accepted = rows.add(inbound, ids[place], conversation)?;
        results[place] = Some(Ok(accepted));
    }
    if !rows.messages.is_empty() {
        rows.write(conn, &locked).await?;
        let jobs: Vec<Job> = rows.jobs();
        if !jobs.is_empty() {
            lane::enqueue(conn, Class::Turn, &jobs).await?;
        }
        if !rows.steered.is_empty() {
            lane::wake(conn, Class::Turn, &rows.steered).await?;
        }
    }
    for place in repeats {
        results[place] = Some(look_up(conn, &inbounds[place]).await?);
    }
    Ok(results
        .into_iter()
        .map(|result| {
            result.unwrap_or_else(|| {
                Err(AcceptError::NoConversation { id: "of this message".into() })
            })
        })
        .collect())
}

fn refuse(
    inbound: &Inbound,
    locked: &Conversations,
    attached: &HashSet<Uuid>,
) -> Option<AcceptError> {
    if locked.get(&inbound.target).is_none() {
        let id = match &inbound.target {
            Target::Existing(id) => id.to_string(),
            Target::Key(key) => key.0.clone(),
        };
        return Some(AcceptError::NoConversation { id });
    }
    inbound
        .attachments
        .iter()
        .map(|file| file.blob.id)
        .find(|id| !attached.contains(&id.0))
        .map(|id| AcceptError::NoAttachment { id })
}

/// The conversations of a batch, found by whatever its messages name.
#[derive(Default)]
struct Conversations {
    by_key: HashMap<String, Uuid>,
    rows: BTreeMap<Uuid, Locked>,
}

impl Conversations {
    fn id(&self, target: &Target) -> Option<Uuid> {
        match target {
            Target::Existing(id) => Some(id.0),
            Target::Key(key) => self.by_key.get(&key.0).copied(),
        }
    }

    fn get(&self, target: &Target) -> Option<&Locked> {
        self.rows.get(&self.id(target)?)
    }

    fn get_mut(&mut self, target: &Target) -> Option<&mut Locked> {
        self.rows.get_mut(&self.id(target)?)
    }
}

/// Locks every conversation of the batch, opening those that are not there.
async fn lock_conversations(
    conn: &mut PgConnection,
    inbounds: &[Inbound],
) -> Result<Conversations, Error> {
    let mut keys: BTreeMap<&str, &Inbound> = BTreeMap::new();
    let mut ids: BTreeSet<Uuid> = BTreeSet::new();
    for inbound in inbounds {
        match &inbound.target {
            Target::Key(key) => {
                keys.insert(&key.0, inbound);
            }
            Target::Existing(id) => {
                ids.insert(id.0);
            }
        }
    }
    let mut found = lock_existing(conn, &keys, &ids).await?;
    let missing: Vec<(&str, &Inbound)> = keys
        .iter()
        .filter(|(key, _)| !found.by_key.contains_key(**key))
        .map(|(key, inbound)| (*key, *inbound))
        .collect();
    if !missing.is_empty() {
        open(conn, &missing).await?;
        found = lock_existing(conn, &keys, &ids).await?;
    }
    Ok(found)
}

async fn lock_existing(
    conn: &mut PgConnection,
    keys: &BTreeMap<&str, &Inbound>,
    ids: &BTreeSet<Uuid>,
) -> Result<Conversations, Error> {
    let keys: Vec<String> = keys.keys().map(|key| (*key).to_owned()).collect();
    let ids: Vec<Uuid> = ids.iter().copied().collect();
    let rows = sqlx::query!(
        "select id, key, person_id, agent_id, last_seq, live_turn, live_ord, live_person
         from conversation where key = any($1) or id = any($2)
         order by id for no key update",
        &keys,
        &ids,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("lock conversations"))?;
    let mut found = Conversations::default();
    for row in rows {
        let live = match (row.live_turn, row.live_ord, row.live_person) {
            (Some(turn), Some(ord), Some(person)) => Some(Live { turn, ord, person }),
            _ => None,
        };
        found.by_key.insert(row.key, row.id);
        found.rows.insert(
            row.id,
            Locked {
                id: row.id,
                host: row.person_id,
                agent: row.agent_id,
                last_seq: row.last_seq,
                live,
            },
        );
    }
    Ok(found)
}

async fn open(conn: &mut PgConnection, missing: &[(&str, &Inbound)]) -> Result<(), Error> {
    let ids: Vec<Uuid> = missing.iter().map(|_| ConversationId::new().0).collect();
    let keys: Vec<String> = missing.iter().map(|(key, _)| (*key).to_owned()).collect();
    let hosts: Vec<Uuid> = missing.iter().map(|(_, inbound)| inbound.host.0).collect();
    let agents: Vec<Uuid> = missing.iter().map(|(_, inbound)| inbound.agent.0).collect();
    sqlx::query!(
        "insert into conversation (id, key, person_id, agent_id)
         select * from unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[])
         on conflict (key) do nothing",
        &ids,
        &keys,
        &hosts,
        &agents,
    )
    .execute(conn)
    .await
    .map_err(Error::on("open conversations"))?;
    Ok(())
}

async fn known_attachments(
    conn: &mut PgConnection,
    inbounds: &[Inbound],
) -> Result<HashSet<Uuid>, Error> {
    let ids: Vec<Uuid> =
        inbounds.iter().flat_map(|i| &i.attachments).map(|file| file.blob.id.0).collect();
    if ids.is_empty() {
        return Ok(HashSet::new());
    }
    // The lock keeps retention away until the reference is committed.
    let rows = sqlx::query_scalar!(
        "select id from blob where id = any($1) and state = 'whole' for key share",
        &ids,
    )
    .fetch_all(conn)
    .await
    .map_err(Error::on("find attachments"))?;
    Ok(rows.into_iter().collect())
}

/// Takes the keys of the messages that have one; returns the places of the messages to store.
async fn take_keys(
    conn: &mut PgConnection,
    inbounds: &[Inbound],
    ids: &[MessageId],
    refused: &[Option<Result<Accepted, AcceptError>>],
    locked: &Conversations,
) -> Result<HashSet<usize>, Error> {
    let mut fresh = HashSet::with_capacity(inbounds.len());
    let mut keyed: Vec<(usize, &str)> = Vec::new();
    for (place, inbound) in inbounds.iter().enumerate() {
        match &inbound.external_id {
            _ if refused[place].is_some() => {}
            None => {
                fresh.insert(place);
            }
            Some(key) => keyed.push((place, key)),
        }
    }
    if keyed.is_empty() {
        return Ok(fresh);
    }
    keyed.sort_by_key(|(place, key)| {
        let reply = &inbounds[*place].reply;
        (reply.channel.clone(), reply.account.clone(), (*key).to_owned())
    });
    let column = |of: fn(&Inbound) -> String| -> Vec<String> {
        keyed.iter().map(|(place, _)| of(&inbounds[*place])).collect()
    };
    let channels = column(|inbound| inbound.reply.channel.clone());
    let accounts = column(|inbound| inbound.reply.account.clone());
    let keys: Vec<String> = keyed.iter().map(|(_, key)| (*key).to_owned()).collect();
    let hosts: Vec<Uuid> = keyed
        .iter()
        .map(|(place, _)| {
            let inbound = &inbounds[*place];
            locked.get(&inbound.target).map_or(inbound.host.0, |conversation| conversation.host)
        })
        .collect();
    let hashes: Vec<Vec<u8>> =
        keyed.iter().map(|(place, _)| inbounds[*place].body_hash.to_vec()).collect();
    let messages: Vec<Uuid> = keyed.iter().map(|(place, _)| ids[*place].0).collect();
    let taken = sqlx::query_scalar!(
        "insert into inbox (channel, account, external_id, person_id, body_hash, message_id)
         select * from unnest($1::text[], $2::text[], $3::text[], $4::uuid[], $5::bytea[], $6::uuid[])
         on conflict (channel, account, external_id) do nothing
         returning message_id",
        &channels,
        &accounts,
        &keys,
        &hosts,
        &hashes,
        &messages,
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(Error::on("take message keys"))?;
    let taken: HashSet<Uuid> = taken.into_iter().collect();
    fresh.extend(
        keyed.iter().map(|(place, _)| *place).filter(|place| taken.contains(&ids[*place].0)),
    );
    #[cfg(feature = "sabotage")]
    if famulus_queue::sabotage::is_out(famulus_queue::sabotage::Safety::Deduplication) {
        fresh.extend(keyed.iter().map(|(place, _)| *place));
    }
    Ok(fresh)
}

/// What came of a message when its key was first used.
async fn look_up(
    conn: &mut PgConnection,
    inbound: &Inbound,
) -> Result<Result<Accepted, AcceptError>, Error> {
    let key = inbound.external_id.clone().unwrap_or_default();
    let row = sqlx::query!(
        "select i.body_hash, m.id, m.conversation_id, m.turn_id
         from inbox i join message m on m.id = i.message_id
         where i.channel = $1 and i.account = $2 and i.external_id = $3",
        inbound.reply.channel,
        inbound.reply.account,
        key,
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("look a message up"))?;
    Ok(match row {
        Some(row) if row.body_hash == inbound.body_hash => Ok(Accepted {
            conversation: ConversationId(row.conversation_id),
            message: MessageId(row.id),
            turn: TurnId(row.turn_id),
            disposition: Disposition::Duplicate,
        }),
        // Taken for another body, or by somebody whose messages this person may not see.
        Some(_) | None => Err(AcceptError::KeyReused { key }),
    })
}

/// The rows of a batch, column by column.
#[derive(Default)]
struct Rows {
    turns: Vec<TurnRow>,
    messages: Vec<MessageRow>,
    blobs: Vec<(Uuid, Uuid, Uuid)>,
    steered: Vec<Uuid>,
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
    fn add(
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

    fn jobs(&self) -> Vec<Job> {
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

    async fn write(&self, conn: &mut PgConnection, locked: &Conversations) -> Result<(), Error> {
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
