//! What is let go, and when. The transcript never is.
//!
//! Everything here is idempotent and takes no more than it finds: rows go in bounded batches, each
//! its own transaction, so that a sweep over years of rows holds no lock for long. Commits do not
//! wait for the disk: what a crash brings back goes next time.

use crate::{
    db::{Scope, Store, Tx},
    error::Error,
};
use famulus_lifecycle::boxed;
use famulus_queue::{Class, Instant};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use sqlx::error::DatabaseError;

/// Rows of one transaction.
const BATCH: i64 = 2000;
/// Files of one transaction; each takes its pieces with it, at most 100 for a 25 MiB upload.
const FILES: i64 = 50;
/// Transactions of one kind in one sweep, so that a sweep ends.
const ROUNDS: usize = 200;

/// How long things are kept. The section `retention` of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retention {
    /// Hours: events, after their turn ended.
    pub events_hours: u32,
    /// Days: keys of messages that came in and results of keyed writes, by which a repeat is known.
    pub repeats_days: u32,
    /// Days: files that no message refers to.
    pub files_days: u32,
    /// Days: what went out, after it ended.
    pub deliveries_days: u32,
    /// Days: questions, after they were answered.
    pub questions_days: u32,
    /// Days: which slots of schedules fired or were missed.
    pub slots_days: u32,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            events_hours: 1,
            repeats_days: 30,
            files_days: 30,
            deliveries_days: 30,
            questions_days: 90,
            slots_days: 90,
        }
    }
}

/// Days: uploads and bundles that never became whole.
const PARTIAL: u32 = 1;
/// Days: places in the queue of chats in which nothing happens. Anybody may open a chat.
const LANES: u32 = 1;
/// Days: calls whose result came, or comes no more.
const LATE_CALLS: u32 = 30;

/// How many rows went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SweptRows {
    pub events: u64,
    pub inbox: u64,
    pub keyed_writes: u64,
    pub partial_blobs: u64,
    pub unreferenced_blobs: u64,
    pub partial_bundles: u64,
    pub late_calls: u64,
    pub deliveries: u64,
    pub questions: u64,
    pub slots: u64,
    pub lanes: u64,
}

#[derive(Clone, Copy)]
enum Kind {
    Events,
    Inbox,
    KeyedWrites,
    PartialBlobs,
    UnreferencedBlobs,
    PartialBundles,
    LateCalls,
    Deliveries,
    Questions,
    Slots,
    Lanes,
}

impl Store {
    /// Deletes what is older than is to be kept.
    #[boxed]
    pub async fn sweep_old(&self, now: Timestamp, keep: &Retention) -> Result<SweptRows, Error> {
        let hours = |hours: u32| {
            let keep = SignedDuration::from_hours(i64::from(hours));
            Instant(now.checked_sub(keep).unwrap_or(Timestamp::MIN))
        };
        let days = |days: u32| hours(days.saturating_mul(24));
        let repeats = days(keep.repeats_days);
        Ok(SweptRows {
            events: self.sweep_kind(Kind::Events, hours(keep.events_hours)).await?,
            inbox: self.sweep_kind(Kind::Inbox, repeats).await?,
            keyed_writes: self.sweep_kind(Kind::KeyedWrites, repeats).await?,
            partial_blobs: self.sweep_kind(Kind::PartialBlobs, days(PARTIAL)).await?,
            unreferenced_blobs: self
                .sweep_kind(Kind::UnreferencedBlobs, days(keep.files_days))
                .await?,
            partial_bundles: self.sweep_kind(Kind::PartialBundles, days(PARTIAL)).await?,
            late_calls: self.sweep_kind(Kind::LateCalls, days(LATE_CALLS)).await?,
            deliveries: self.sweep_kind(Kind::Deliveries, days(keep.deliveries_days)).await?,
            questions: self.sweep_kind(Kind::Questions, days(keep.questions_days)).await?,
            slots: self.sweep_kind(Kind::Slots, days(keep.slots_days)).await?,
            lanes: self.sweep_kind(Kind::Lanes, days(LANES)).await?,
        })
    }

    async fn sweep_kind(&self, kind: Kind, until: Instant) -> Result<u64, Error> {
        let mut swept = 0;
        for _ in 0..ROUNDS {
            let mut tx = self.begin_relaxed(Scope::System).await?;
            let (gone, batch) = match kind {
                Kind::Events => (events(&mut tx, until).await?, BATCH),
                Kind::Inbox => (inbox(&mut tx, until).await?, BATCH),
                Kind::KeyedWrites => (keyed_writes(&mut tx, until).await?, BATCH),
                Kind::PartialBlobs => (partial_blobs(&mut tx, until).await?, FILES),
                Kind::UnreferencedBlobs => (unreferenced_blobs(&mut tx, until).await?, FILES),
                Kind::PartialBundles => (partial_bundles(&mut tx, until).await?, FILES),
                Kind::LateCalls => (late_calls(&mut tx, until).await?, BATCH),
                Kind::Deliveries => (deliveries(&mut tx, until).await?, BATCH),
                Kind::Questions => (questions(&mut tx, until).await?, BATCH),
                Kind::Slots => (slots(&mut tx, until).await?, BATCH),
                Kind::Lanes => (lanes(&mut tx, until).await?, BATCH),
            };
            tx.commit().await.map_err(Error::on("delete what is old"))?;
            swept += gone;
            if gone < batch as u64 {
                break;
            }
        }
        Ok(swept)
    }
}

/// Events of turns that ended long enough ago. An event is never older than its turn's beginning,
/// so the events' own age narrows the search.
async fn events(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from event where ctid = any(array(
             select e.ctid from event e
             where e.created_at < $1
               and not exists (select 1 from turn t
                               where t.id = e.turn_id and (t.ended_at is null or t.ended_at >= $1))
             limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old events"))
}

async fn inbox(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from inbox where ctid = any(array(
             select i.ctid from inbox i where i.created_at < $1 limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old message keys"))
}

/// A result is asked for only while its turn may still be taken up again.
async fn keyed_writes(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from effect where ctid = any(array(
             select e.ctid from effect e where e.created_at < $1 limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old results"))
}

async fn partial_blobs(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from blob where id = any(array(
             select b.id from blob b where b.state = 'partial' and b.created_at < $1 limit $2
             for update skip locked))",
        until as _,
        FILES,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete uploads that never ended"))
}

/// A message that is being accepted holds the rows of its files; those are passed over. Should one
/// slip through, the reference itself forbids the deletion.
async fn unreferenced_blobs(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    let done = sqlx::query!(
        "delete from blob where id = any(array(
             select b.id from blob b
             where b.state = 'whole' and b.created_at < $1
               and not exists (select 1 from message_blob m where m.blob_id = b.id)
             limit $2 for update skip locked))",
        until as _,
        FILES,
    )
    .execute(&mut **tx)
    .await;
    match done {
        Ok(done) => Ok(done.rows_affected()),
        Err(error)
            if error.as_database_error().is_some_and(DatabaseError::is_foreign_key_violation) =>
        {
            tracing::debug!("a file was referred to while it was about to go; it stays");
            Ok(0)
        }
        Err(error) => Err(Error::on("delete files that nothing refers to")(error)),
    }
}

/// Pieces that no revision has: the upload broke off with its process.
async fn partial_bundles(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from plugin_bundle_piece where ctid = any(array(
             select p.ctid from plugin_bundle_piece p
             where p.created_at < $1
               and not exists (select 1 from plugin_revision r where r.bundle = p.bundle)
             limit $2))",
        until as _,
        FILES,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete bundles that never became whole"))
}

async fn late_calls(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from sandbox_call where ctid = any(array(
             select s.ctid from sandbox_call s where s.created_at < $1 limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old calls"))
}

/// What went out and ended, however it did; of what failed, the dead letter too.
async fn deliveries(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    let gone = sqlx::query_scalar!(
        r#"with gone as (
               delete from outbox where id = any(array(
                   select o.id from outbox o where o.ended_at < $1 limit $2))
               returning id
           ),
           letters as (
               delete from queue_job where dead and id in (select id from gone)
           )
           select count(*) as "gone!" from gone"#,
        until as _,
        BATCH,
    )
    .fetch_one(&mut **tx)
    .await
    .map_err(Error::on("delete old deliveries"))?;
    Ok(gone as u64)
}

/// Questions of turns that ended; a turn that may be taken up again needs its answers.
async fn questions(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from approval where id = any(array(
             select a.id from approval a join turn t on t.id = a.turn_id
             where a.decided_at < $1 and t.ended_at < $1 limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old questions"))
}

/// A slot is never decided again: its schedule has moved on behind it.
async fn slots(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from schedule_slot where ctid = any(array(
             select s.ctid from schedule_slot s where s.decided_at < $1 limit $2))",
        until as _,
        BATCH,
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete old slots"))
}

/// A lane that comes back has higher tokens than before: they are the time in microseconds.
async fn lanes(tx: &mut Tx, until: Instant) -> Result<u64, Error> {
    sqlx::query!(
        "delete from queue_lane where ctid = any(array(
             select l.ctid from queue_lane l
             where l.class = any($3) and l.state = 'idle'
                 and l.fence < extract(epoch from $1::timestamptz) * 1000000
             limit $2 for update skip locked))",
        until as _,
        BATCH,
        &[Class::Arrival, Class::Delivery].map(|class| class.as_str().to_owned())[..],
    )
    .execute(&mut **tx)
    .await
    .map(|done| done.rows_affected())
    .map_err(Error::on("delete the lanes of old chats"))
}
