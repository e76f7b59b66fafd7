//! Claiming lanes, and keeping hold of them.

use crate::{
    error::QueueError,
    handover::Handover,
    instant::Instant,
    lane::{self, Class, Job, Lease},
};
use famulus_core::crash;
use famulus_core::ids::{PersonId, WorkerId};
use famulus_core::turn::Fence;
use famulus_lifecycle::boxed;
use jiff::Timestamp;
use sqlx::PgPool;
use std::{collections::HashSet, io, time::Duration};
use tokio::time::timeout;
use uuid::Uuid;

/// What giving a lease back may take; a process that ends waits for no longer.
const GIVEN_BACK: Duration = Duration::from_secs(3);

/// One process's hold on the queue.
///
/// The pool's sessions do not wait for the disk (`synchronous_commit = off`): a claim or heartbeat
/// that a crash of Postgres forgets is one that nobody relied on, because every write behind it
/// proves the token again. Tokens are wall-clock microseconds, so that even a forgotten one is not
/// given out twice.
#[derive(Clone, Debug)]
pub struct Queue {
    pool: PgPool,
    pub worker: WorkerId,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// The way to this process's worker of turns.
    pub handover: Handover,
}

impl Queue {
    pub fn new(relaxed_pool: PgPool, lease: Duration) -> Self {
        Self { pool: relaxed_pool, worker: WorkerId::new(), lease, handover: Handover::default() }
    }

    pub fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Leases up to `limit` lanes that are due, those that have waited longest first.
    #[boxed]
    pub async fn claim(&self, class: Class, limit: usize) -> Result<Vec<Lease>, QueueError> {
        #[cfg(feature = "sabotage")]
        if crate::sabotage::is_out(crate::sabotage::Safety::Lease) {
            self.expire_leases_of_others(class).await?;
        }
        crash::before("queue.claim");
        let rows = sqlx::query!(
            r#"
            with due as (
                select id from queue_lane
                where class = $1 and due_at <= now()
                order by due_at
                limit $2
                for no key update skip locked
            ),
            leased as (
                update queue_lane l set
                    state = 'leased',
                    worker = $3,
                    attempts = l.attempts + 1,
                    due_at = now() + $4 * interval '1 microsecond',
                    fence = greatest(
                        l.fence + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint)
                -- Not as a join: see `session_options` in the store.
                where l.class = $1 and l.id = any(array(select id from due))
                returning l.id, l.fence, l.attempts
            )
            select leased.id as "lane!", leased.fence as "token!", leased.attempts as "attempts!",
                   job.id as "job?", job.person_id as "person?"
            from leased left join lateral (
                select j.id, j.person_id from queue_job j
                where j.class = $1 and j.lane = leased.id and not j.dead
                order by j.ord limit 1
            ) job on true
            "#,
            class.as_str(),
            limit as i64,
            self.worker.0,
            self.lease.as_micros() as f64,
        )
        .fetch_all(&self.pool)
        .await
        .map_err(QueueError::database("claim"))?;
        if !rows.is_empty() {
            crash::after("queue.claim");
        }

        let mut leases = Vec::with_capacity(rows.len());
        for row in rows {
            let head = match (row.job, row.person) {
                (Some(job), Some(person)) => Some((job, person)),
                // The job was committed between this statement's snapshot and its lock.
                _ => self.head(class, row.lane).await?,
            };
            let Some((job, person)) = head else {
                tracing::error!(lane = %row.lane, "a due lane has no job; it idles until the next");
                self.settle_empty(class, row.lane, row.token).await?;
                continue;
            };
            let person = PersonId(person);
            let fence = Fence { lane: row.lane, worker: self.worker, token: row.token, person };
            let job = Job { id: job, class, lane: row.lane, person };
            leases.push(Lease { fence, job, attempts: row.attempts });
        }
        Ok(leases)
    }

    /// Gives a lease back, to be claimed again after `delay`; `blameless` takes back the attempt. It is
    /// given up where the lane is held for long: a lease ends by itself.
    #[boxed]
    pub async fn give_back(
        &self,
        class: Class,
        fence: &Fence,
        delay: Duration,
        blameless: bool,
    ) -> Result<(), QueueError> {
        let given = async {
            let mut conn =
                self.pool.acquire().await.map_err(QueueError::database("give the lease back"))?;
            lane::retry(&mut conn, class, fence, delay, blameless).await
        };
        timeout(GIVEN_BACK, given).await.unwrap_or_else(|_elapsed| {
            let source = sqlx::Error::Io(io::ErrorKind::TimedOut.into());
            Err(QueueError::database("give the lease back")(source))
        })
    }

    async fn head(&self, class: Class, lane: Uuid) -> Result<Option<(Uuid, Uuid)>, QueueError> {
        sqlx::query!(
            "select id, person_id from queue_job
             where class = $1 and lane = $2 and not dead order by ord limit 1",
            class.as_str(),
            lane,
        )
        .fetch_optional(&self.pool)
        .await
        .map(|row| row.map(|row| (row.id, row.person_id)))
        .map_err(QueueError::database("read the lane"))
    }

    async fn settle_empty(&self, class: Class, lane: Uuid, token: i64) -> Result<(), QueueError> {
        sqlx::query!(
            "update queue_lane set state = 'idle', due_at = null, worker = null, pending = 0
             where class = $1 and id = $2 and fence = $3
               and not exists (select 1 from queue_job
                               where class = $1 and lane = $2 and not dead)",
            class.as_str(),
            lane,
            token,
        )
        .execute(&self.pool)
        .await
        .map(|_| ())
        .map_err(QueueError::database("settle an empty lane"))
    }

    /// Extends leases; returns those (lane, token) that are still held.
    #[boxed]
    pub async fn heartbeat(
        &self,
        class: Class,
        held: &[Fence],
    ) -> Result<HashSet<(Uuid, i64)>, QueueError> {
        let lanes: Vec<Uuid> = held.iter().map(|fence| fence.lane).collect();
        let tokens: Vec<i64> = held.iter().map(|fence| fence.token).collect();
        crash::before("queue.extend");
        let rows = sqlx::query!(
            r#"
            with locked as (
                select id from queue_lane where class = $1 and id = any($3::uuid[])
                order by id for no key update
            )
            update queue_lane l set due_at = now() + $5 * interval '1 microsecond'
            where l.class = $1 and l.id = any(array(select id from locked))
                and l.fence = ($4::bigint[])[array_position($3::uuid[], l.id)]
                and l.worker = $2 and l.state = 'leased'
            returning l.id, l.fence
            "#,
            class.as_str(),
            self.worker.0,
            &lanes,
            &tokens,
            self.lease.as_micros() as f64,
        )
        .fetch_all(&self.pool)
        .await
        .map_err(QueueError::database("extend the leases"))?;
        crash::after("queue.extend");
        Ok(rows.into_iter().map(|row| (row.id, row.fence)).collect())
    }

    /// When the next lane falls due, as seconds from now; `None` when none will by itself.
    #[boxed]
    pub async fn next_due(&self, class: Class) -> Result<Option<Duration>, QueueError> {
        let due = sqlx::query_scalar!(
            r#"select extract(epoch from min(due_at) - now())::float8 from queue_lane
               where class = $1 and due_at is not null"#,
            class.as_str(),
        )
        .fetch_one(&self.pool)
        .await
        .map_err(QueueError::database("look ahead"))?;
        Ok(due.map(|seconds| Duration::from_secs_f64(seconds.max(0.0))))
    }

    /// The database's clock, which decides what is due.
    #[boxed]
    pub async fn now(&self) -> Result<Timestamp, QueueError> {
        sqlx::query_scalar!(r#"select now() as "now!: Instant""#)
            .fetch_one(&self.pool)
            .await
            .map(|now| now.0)
            .map_err(QueueError::database("tell the time"))
    }

    #[cfg(feature = "sabotage")]
    async fn expire_leases_of_others(&self, class: Class) -> Result<(), QueueError> {
        sqlx::query(
            "update queue_lane set due_at = now() where class = $1 and state = 'leased'
             and worker <> $2",
        )
        .bind(class.as_str())
        .bind(self.worker.0)
        .execute(&self.pool)
        .await
        .map(|_| ())
        .map_err(QueueError::database("claim"))
    }
}
