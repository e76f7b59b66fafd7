//! One transaction's worth of accepted messages.
//!
//! Order of locks, the same in every batch so that no two wait for each other: conversations by id,
//! then inbox keys, then lanes by id.

use crate::{
    accept::{AcceptError, Accepted, Disposition},
    accept_lock::{Conversations, lock_conversations},
    accept_rows::Rows,
    error::Error,
};
use famulus_core::{
    ids::{ConversationId, MessageId, TurnId},
    inbound::{Inbound, Target},
};
use famulus_queue::{Class, Job, lane};
use sqlx::PgConnection;
use std::collections::HashSet;
use uuid::Uuid;

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
    if !rows.is_empty() {
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
