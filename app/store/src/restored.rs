//! What is particular about a database that comes from a backup: what it is, whether it is sound, and
//! what it must not do again.
//!
//! Between the backup and the restore time went on: a message that was on its way then has been sent
//! since, and a slot that was due has fired. Nothing here says so. So both wait for a person: messages
//! become *unknown*, as one does whose worker died while it sent, and slots count as missed.

use crate::{
    db::{Scope, Store},
    error::{ConnectError, Error},
    opening::Connect,
    reach::Homes,
    schema::{MIGRATIONS, RECORD},
    sweep,
};
use famulus_core::ids::PersonId;
use famulus_lifecycle::boxed;
use famulus_queue::{Class, lane};
use jiff::Timestamp;
use sqlx::{Connection, PgConnection};

/// Schedules decided in one transaction.
const AT_ONCE: i64 = 100;

/// Each with a query that counts what breaks it.
const INVARIANTS: &[(&str, &str)] = &[
    ("one person is the owner", "select abs(count(*) - 1) from person where role = 'owner'"),
    (
        "every turn has its conversation",
        "select count(*) from turn t
         where not exists (select 1 from conversation c where c.id = t.conversation_id)",
    ),
    (
        "every message has its turn, in the same conversation",
        "select count(*) from message m
         where not exists (select 1 from turn t
                           where t.id = m.turn_id and t.conversation_id = m.conversation_id)",
    ),
    (
        "the messages of a conversation are in one order",
        "select count(*) from (select 1 from message
                               group by conversation_id, turn_ord, seq having count(*) > 1) twice",
    ),
    (
        "no message is numbered beyond its conversation",
        "select count(*) from message m join conversation c on c.id = m.conversation_id
         where m.seq > c.last_seq",
    ),
    (
        "no lane is leased for ever",
        "select count(*) from queue_lane
         where state = 'leased' and (due_at is null or due_at > now() + interval '1 day')",
    ),
    (
        "every lane counts its jobs",
        "select count(*) from queue_lane l
         where l.pending <> (select count(*) from queue_job j
                             where j.class = l.class and j.lane = l.id and not j.dead)",
    ),
    (
        "every turn that has not ended has a job",
        "select count(*) from turn t
         where t.state in ('queued', 'running', 'waiting')
             and not exists (select 1 from queue_job j where j.id = t.id)",
    ),
    (
        "what platforms told and nobody read has a job",
        "select count(*) from arrival a
         where not exists (select 1 from queue_job j where j.id = a.id)",
    ),
    (
        "every file is whole, to the last byte",
        "select count(*) from blob b
         cross join lateral (
             select coalesce(sum(octet_length(p.data)), 0) as size,
                    sha256(coalesce(string_agg(p.data, ''::bytea order by p.number), '')) as digest
             from blob_piece p where p.blob_id = b.id
         ) stored
         where b.state = 'whole' and (stored.size <> b.size or stored.digest <> b.sha256)",
    ),
    (
        "every file that a message has is there",
        "select count(*) from message_blob m
         where not exists (select 1 from blob b where b.id = m.blob_id and b.state = 'whole')",
    ),
];

/// An installation, as it is known by its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installation {
    /// The only person that every installation has, and that no two have in common.
    pub owner: PersonId,
    /// The newest migration of the database.
    pub schema: i64,
}

/// A question to a database, and its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invariant {
    pub holds_that: &'static str,
    /// How many rows break it.
    pub broken: i64,
}

/// What waits for a person's word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeldBack {
    /// Messages that were on their way out.
    pub messages: u64,
    /// Slots of schedules that passed since the backup.
    pub slots: u64,
    /// Turns that go on where they were.
    pub turns: u64,
}

struct PassedOver {
    schedules: usize,
    slots: u64,
}

/// The newest migration that this release has.
pub fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Whose database this is; `None` for one that was never used. It is not migrated.
#[boxed]
pub async fn installation(connect: &Connect) -> Result<Option<Installation>, ConnectError> {
    let mut conn = crate::opening::look(connect).await?;
    let recorded: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(RECORD)
        .fetch_one(&mut conn)
        .await
        .map_err(ConnectError::Database)?;
    if !recorded {
        return Ok(None);
    }
    let schema: Option<i64> = sqlx::query_scalar("select max(version) from _sqlx_migrations")
        .fetch_one(&mut conn)
        .await
        .map_err(ConnectError::Database)?;
    let owner: Option<uuid::Uuid> = sqlx::query_scalar(
        "select id from person where role = 'owner' order by created_at limit 1",
    )
    .fetch_optional(&mut conn)
    .await
    .map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(owner.zip(schema).map(|(owner, schema)| Installation { owner: PersonId(owner), schema }))
}

/// A plugin of one machine that a database knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginThere {
    pub uid: String,
    pub name: String,
}

/// The plugins that a database knows, by name; none, where it is of a release that knew none.
///
/// # Errors
/// The database cannot be reached or read.
#[boxed]
pub async fn plugins_there(connect: &Connect) -> Result<Vec<PluginThere>, ConnectError> {
    let mut conn = crate::opening::look_at_all(connect).await?;
    let is_known: bool = sqlx::query_scalar("select to_regclass('plugin') is not null")
        .fetch_one(&mut conn)
        .await
        .map_err(ConnectError::Database)?;
    let mut there = Vec::new();
    if is_known {
        let rows: Vec<(uuid::Uuid, String)> =
            sqlx::query_as("select uid, name from plugin order by name")
                .fetch_all(&mut conn)
                .await
                .map_err(ConnectError::Database)?;
        there
            .extend(rows.into_iter().map(|(uid, name)| PluginThere { uid: uid.to_string(), name }));
    }
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(there)
}

/// Asks a database at rest whether it is sound.
#[boxed]
pub async fn soundness(connect: &Connect) -> Result<Vec<Invariant>, ConnectError> {
    let mut conn: PgConnection = crate::opening::look_at_all(connect).await?;
    let mut answers = Vec::with_capacity(INVARIANTS.len());
    for (holds_that, query) in INVARIANTS {
        let broken = sqlx::query_scalar(*query)
            .fetch_one(&mut conn)
            .await
            .map_err(ConnectError::Database)?;
        answers.push(Invariant { holds_that, broken });
    }
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(answers)
}

impl Store {
    /// Sees to it that a restored database does not repeat what it did after the backup.
    ///
    /// # Errors
    /// The database failed; this can be done again.
    #[boxed]
    pub async fn hold_back(&self, now: Timestamp) -> Result<HeldBack, Error> {
        let messages = self.hold_messages().await?;
        let mut slots = 0;
        loop {
            let passed = self.pass_over_due(now).await?;
            slots += passed.slots;
            if passed.schedules == 0 {
                break;
            }
        }
        let mut tx = self.begin(Scope::System).await?;
        let turns = sqlx::query_scalar!(
            r#"select count(*) as "count!" from turn where state in ('queued', 'running', 'waiting')"#
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("count the turns that go on"))?;
        // What was told of backups before is not of this database.
        let told = "forget how backups stood";
        sqlx::query!("delete from backup_report")
            .execute(&mut *tx)
            .await
            .map_err(Error::on(told))?;
        tx.commit().await.map_err(Error::on(told))?;
        Ok(HeldBack { messages, slots, turns: turns.unsigned_abs() })
    }

    /// Counts the slots that are due as missed, whatever their rules say of missed ones.
    async fn pass_over_due(&self, now: Timestamp) -> Result<PassedOver, Error> {
        let mut tx = self.begin(Scope::System).await?;
        let mut decisions = sweep::decide(&mut tx, &Homes::default(), now, AT_ONCE).await?;
        for decision in &mut decisions {
            let late = decision.slots.fire.take();
            decision.slots.missed.extend(late);
        }
        sweep::record(&mut tx, &decisions, now).await?;
        tx.commit().await.map_err(Error::on("pass over due schedules"))?;
        let slots = decisions.iter().map(|decision| decision.slots.missed_total()).sum();
        Ok(PassedOver { schedules: decisions.len(), slots })
    }

    async fn hold_messages(&self) -> Result<u64, Error> {
        let mut tx = self.begin(Scope::System).await?;
        let held = sqlx::query!(
            "update outbox
             set state = 'unknown', ended_at = now(), outcome_told = true,
                 error = 'the database was restored from a backup; it may have been sent since'
             where state in ('pending', 'sending')"
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("hold messages back"))?;
        // A message whose outcome is unknown has no job.
        lane::clear(&mut tx, Class::Delivery).await?;
        tx.commit().await.map_err(Error::on("hold messages back"))?;
        Ok(held.rows_affected())
    }
}
