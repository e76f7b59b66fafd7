//! What happens to a lane inside somebody's transaction.
//!
//! These functions take a connection, so that work is enqueued, and a lease settled, in the very
//! transaction that writes the domain rows.

use crate::{error::QueueError, instant::Instant};
use famulus_core::ids::PersonId;
use famulus_core::turn::Fence;
use famulus_lifecycle::boxed;
use jiff::Timestamp;
use sqlx::PgConnection;
use std::{collections::HashMap, slice, time::Duration};
use uuid::Uuid;

/// A kind of work, with workers of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Turns; the lane is the conversation.
    Turn,
    /// Messages on their way out; the lane is the chat that they go to.
    Delivery,
    /// What platforms told; the lane is the chat that it happened in.
    Arrival,
}

impl Class {
    pub const ALL: [Self; 3] = [Self::Turn, Self::Delivery, Self::Arrival];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Turn => "turn",
            Self::Delivery => "delivery",
            Self::Arrival => "arrival",
        }
    }
}

/// One piece of work. Its id is the id of what is to be worked (a turn, an outbound message).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: Uuid,
    pub class: Class,
    pub lane: Uuid,
    pub person: PersonId,
}

/// A leased lane and the job at its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lease {
    pub fence: Fence,
    pub job: Job,
    /// How often the lane was claimed since it last made progress, this time included.
    pub attempts: i32,
}

/// What a guarded write means for the work of its lease.
///
/// Work begins in a transaction that does not wait for the disk. A crash of Postgres may forget it
/// and keep the lease, and the worker, which has not died, goes on. So the beginning leaves its token
/// in the lane, and what is recorded later looks whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Nothing: the write stands for itself.
    None,
    /// The work is taken up: what follows relies on this transaction.
    Begins,
    /// It relies on the beginning, and a successor may have to do all of it again.
    Relies,
    /// Something is recorded that a successor need not repeat: earlier deaths are forgiven.
    Made,
}

/// Adds jobs to the ends of their lanes. One statement for any number of jobs of one class.
#[boxed]
pub async fn enqueue(
    conn: &mut PgConnection,
    class: Class,
    jobs: &[Job],
) -> Result<(), QueueError> {
    let ids: Vec<Uuid> = jobs.iter().map(|job| job.id).collect();
    let lanes: Vec<Uuid> = jobs.iter().map(|job| job.lane).collect();
    let persons: Vec<Uuid> = jobs.iter().map(|job| job.person.0).collect();
    sqlx::query_scalar!(
        r#"select count(*) as "leased!" from enqueue_jobs($1, $2, $3, $4)"#,
        class.as_str(),
        &ids,
        &lanes,
        &persons,
    )
    .fetch_one(conn)
    .await
    .map_err(QueueError::database("enqueue"))?;
    Ok(())
}

/// Proves that the lease is still this worker's, and holds the lane's row until the transaction
/// ends, so that nobody can claim it between the proof and the commit.
///
/// # Errors
///
/// [`QueueError::LeaseLost`]; and [`QueueError::Forgotten`] when something would be recorded of work
/// whose beginning is gone.
#[boxed]
pub async fn guard(
    conn: &mut PgConnection,
    class: Class,
    fence: &Fence,
    progress: Progress,
) -> Result<(), QueueError> {
    let mut proofs = guard_many(conn, class, slice::from_ref(fence), progress).await?;
    proofs.pop().unwrap_or(Err(QueueError::LeaseLost))
}

/// [`guard`] for many leases in one statement: one answer for each, in order.
#[boxed]
pub async fn guard_many(
    conn: &mut PgConnection,
    class: Class,
    fences: &[Fence],
    progress: Progress,
) -> Result<Vec<Result<(), QueueError>>, QueueError> {
    #[cfg(feature = "sabotage")]
    if crate::sabotage::is_out(crate::sabotage::Safety::Fencing) {
        return Ok(fences.iter().map(|_| Ok(())).collect());
    }
    let lanes: Vec<Uuid> = fences.iter().map(|fence| fence.lane).collect();
    let held = match progress {
        Progress::Begins | Progress::Made => {
            let workers: Vec<Uuid> = fences.iter().map(|fence| fence.worker.0).collect();
            let tokens: Vec<i64> = fences.iter().map(|fence| fence.token).collect();
            sqlx::query_as!(
                Held,
                r#"
                with locked as (
                    select id from queue_lane where class = $1 and id = any($2::uuid[])
                    order by id for no key update
                )
                update queue_lane l set
                    begun = case when $5 then fence else begun end,
                    attempts = case when $5 then attempts else 0 end
                where l.class = $1 and l.id = any(array(select id from locked))
                    and exists (
                        select 1 from unnest($2::uuid[], $3::uuid[], $4::bigint[])
                            as f (lane, worker, token)
                        where f.lane = l.id and f.worker = l.worker and f.token = l.fence)
                returning id as lane, worker, fence as token, begun = fence as "begun!"
                "#,
                class.as_str(),
                &lanes,
                &workers,
                &tokens,
                progress == Progress::Begins,
            )
            .fetch_all(conn)
            .await
        }
        Progress::None | Progress::Relies => {
            sqlx::query_as!(
                Held,
                r#"select id as lane, worker, fence as token, begun = fence as "begun!"
                   from queue_lane where class = $1 and id = any($2::uuid[])
                   order by id for no key update"#,
                class.as_str(),
                &lanes,
            )
            .fetch_all(conn)
            .await
        }
    }
    .map_err(QueueError::database("check the lease"))?;
    let held: HashMap<Uuid, Held> = held.into_iter().map(|held| (held.lane, held)).collect();
    let proof = |fence: &Fence| match held.get(&fence.lane) {
        Some(held) if held.token == fence.token && held.worker == Some(fence.worker.0) => {
            let relies = progress != Progress::None;
            if relies && !held.begun { Err(QueueError::Forgotten) } else { Ok(()) }
        }
        Some(_) | None => Err(QueueError::LeaseLost),
    };
    Ok(fences.iter().map(proof).collect())
}

/// Who holds a lane.
struct Held {
    lane: Uuid,
    worker: Option<Uuid>,
    token: i64,
    /// Whether the work of this lease has been begun.
    begun: bool,
}

/// Settles a finished job: the lane goes on with the next one, or idles.
#[boxed]
pub async fn complete(
    conn: &mut PgConnection,
    class: Class,
    fence: &Fence,
    job: Uuid,
) -> Result<(), QueueError> {
    complete_many(conn, class, &[(*fence, job)])
        .await
        .and_then(|done| if done == 1 { Ok(()) } else { Err(QueueError::LeaseLost) })
}

/// Settles many finished jobs at once; returns how many leases were still held.
#[boxed]
pub async fn complete_many(
    conn: &mut PgConnection,
    class: Class,
    finished: &[(Fence, Uuid)],
) -> Result<u64, QueueError> {
    let lanes: Vec<Uuid> = finished.iter().map(|(fence, _)| fence.lane).collect();
    let workers: Vec<Uuid> = finished.iter().map(|(fence, _)| fence.worker.0).collect();
    let tokens: Vec<i64> = finished.iter().map(|(fence, _)| fence.token).collect();
    let jobs: Vec<Uuid> = finished.iter().map(|(_, job)| *job).collect();
    #[cfg(feature = "sabotage")]
    let unfenced = crate::sabotage::is_out(crate::sabotage::Safety::Fencing);
    #[cfg(not(feature = "sabotage"))]
    let unfenced = false;
    // `pending` is counted down on the row itself, not recounted: a job that is being enqueued at
    // this moment holds the row's lock, and its count is then seen.
    let done = sqlx::query!(
        r#"
        with locked as (
            select id from queue_lane where class = $1 and id = any($2::uuid[])
            order by id for no key update
        ),
        settled as (
            update queue_lane l set
                pending = l.pending - 1,
                attempts = 0,
                worker = null,
                state = case when l.pending > 1 then 'ready' else 'idle' end,
                due_at = case when l.pending > 1 then now() end
            where l.class = $1 and l.id = any(array(select id from locked))
                and ($6 or (
                    l.worker = ($3::uuid[])[array_position($2::uuid[], l.id)]
                    and l.fence = ($4::bigint[])[array_position($2::uuid[], l.id)]
                ))
            returning ($5::uuid[])[array_position($2::uuid[], l.id)] as job
        )
        delete from queue_job where id = any(array(select job from settled))
        "#,
        class.as_str(),
        &lanes,
        &workers,
        &tokens,
        &jobs,
        unfenced,
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("complete"))?;
    Ok(done.rows_affected())
}

/// Gives the lane up until `deadline`, or until [`wake`]. The wait ends once: whichever comes first
/// moves the lane out of `waiting`, and the other finds nothing to do.
#[boxed]
pub async fn park(
    conn: &mut PgConnection,
    class: Class,
    fence: &Fence,
    deadline: Timestamp,
) -> Result<(), QueueError> {
    let done = sqlx::query!(
        "update queue_lane set state = 'waiting', due_at = $5, worker = null, attempts = 0
         where class = $1 and id = $2 and worker = $3 and fence = $4",
        class.as_str(),
        fence.lane,
        fence.worker.0,
        fence.token,
        Instant(deadline) as _,
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("park"))?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(QueueError::LeaseLost) }
}

/// Ends waits now. Lanes that do not wait are left alone.
#[boxed]
pub async fn wake(conn: &mut PgConnection, class: Class, lanes: &[Uuid]) -> Result<(), QueueError> {
    sqlx::query_scalar!(r#"select 1 as "one!" from wake_lanes($1, $2)"#, class.as_str(), lanes,)
        .fetch_one(conn)
        .await
        .map_err(QueueError::database("wake"))?;
    Ok(())
}

/// Gives the lease back for another try after `delay`. `blameless` takes back the attempt, for a
/// worker that only shuts down.
#[boxed]
pub async fn retry(
    conn: &mut PgConnection,
    class: Class,
    fence: &Fence,
    delay: Duration,
    blameless: bool,
) -> Result<(), QueueError> {
    let done = sqlx::query!(
        "update queue_lane set
             state = 'ready', worker = null,
             due_at = now() + $5 * interval '1 microsecond',
             attempts = greatest(0, attempts - case when $6 then 1 else 0 end)
         where class = $1 and id = $2 and worker = $3 and fence = $4",
        class.as_str(),
        fence.lane,
        fence.worker.0,
        fence.token,
        delay.as_micros() as f64,
        blameless,
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("give the lease back"))?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(QueueError::LeaseLost) }
}

/// Moves the job at the head of the lane to the dead letters, with the reason; the lane goes on.
#[boxed]
pub async fn bury(
    conn: &mut PgConnection,
    class: Class,
    fence: &Fence,
    job: Uuid,
    reason: &str,
) -> Result<(), QueueError> {
    let done = sqlx::query!(
        r#"
        with settled as (
            update queue_lane l set
                pending = l.pending - 1,
                attempts = 0,
                worker = null,
                state = case when l.pending > 1 then 'ready' else 'idle' end,
                due_at = case when l.pending > 1 then now() end
            where l.class = $1 and l.id = $2 and l.worker = $3 and l.fence = $4
            returning l.id
        )
        update queue_job set dead = true, reason = $6, died_at = now()
        from settled where queue_job.id = $5
        "#,
        class.as_str(),
        fence.lane,
        fence.worker.0,
        fence.token,
        job,
        reason,
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("bury"))?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(QueueError::LeaseLost) }
}

/// Forgets all jobs of a class but its dead letters, and every lease on its lanes: for a database at
/// which nobody works.
#[boxed]
pub async fn clear(conn: &mut PgConnection, class: Class) -> Result<(), QueueError> {
    sqlx::query!("delete from queue_job where class = $1 and not dead", class.as_str())
        .execute(&mut *conn)
        .await
        .map_err(QueueError::database("forget jobs"))?;
    sqlx::query!(
        "update queue_lane
         set state = 'idle', due_at = null, pending = 0, attempts = 0, worker = null
         where class = $1",
        class.as_str(),
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("forget leases"))?;
    Ok(())
}
