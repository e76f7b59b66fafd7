//! The conversations that a batch of messages goes to, locked in one order.

use crate::error::Error;
use famulus_core::{
    ids::ConversationId,
    inbound::{Inbound, Target},
};
use sqlx::PgConnection;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use uuid::Uuid;

/// A conversation whose row this transaction holds.
pub(crate) struct Locked {
    pub(crate) id: Uuid,
    pub(crate) host: Uuid,
    pub(crate) agent: Uuid,
    pub(crate) last_seq: i64,
    pub(crate) live: Option<Live>,
}

#[derive(Clone, Copy)]
pub(crate) struct Live {
    pub(crate) turn: Uuid,
    pub(crate) ord: i64,
    pub(crate) person: Uuid,
}

/// The conversations of a batch, found by whatever its messages name.
#[derive(Default)]
pub(crate) struct Conversations {
    pub(crate) by_key: HashMap<String, Uuid>,
    pub(crate) rows: BTreeMap<Uuid, Locked>,
}

impl Conversations {
    fn id(&self, target: &Target) -> Option<Uuid> {
        match target {
            Target::Existing(id) => Some(id.0),
            Target::Key(key) => self.by_key.get(&key.0).copied(),
        }
    }

    pub(crate) fn get(&self, target: &Target) -> Option<&Locked> {
        self.rows.get(&self.id(target)?)
    }

    pub(crate) fn get_mut(&mut self, target: &Target) -> Option<&mut Locked> {
        self.rows.get_mut(&self.id(target)?)
    }
}

/// Locks every conversation of the batch, opening those that are not there.
pub(crate) async fn lock_conversations(
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
