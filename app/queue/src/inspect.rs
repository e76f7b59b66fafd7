//! Looking at the queue: how deep it is, and what died in it.

use crate::{error::QueueError, instant::Instant, lane::Class};
use famulus_lifecycle::boxed;
use sqlx::{PgConnection, PgExecutor};
use uuid::Uuid;

/// The state of one class of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Depth {
    /// Live jobs, those being worked included.
    pub jobs: i64,
    /// Lanes that could be claimed now.
    pub ready: i64,
    pub leased: i64,
    pub waiting: i64,
    /// Age in seconds of the oldest live job.
    pub oldest_seconds: f64,
    pub dead: i64,
}

/// A job that will not be tried again by itself.
#[derive(Clone, Debug, PartialEq)]
pub struct DeadLetter {
    pub id: Uuid,
    pub class: String,
    pub lane: Uuid,
    pub reason: String,
    pub created_at: Instant,
    pub died_at: Instant,
}

/// Counts a class.
pub async fn depth(executor: impl PgExecutor<'_>, class: Class) -> Result<Depth, QueueError> {
    sqlx::query_as!(
        Depth,
        r#"
        select
            (select count(*) from queue_job where class = $1 and not dead) as "jobs!",
            (select count(*) from queue_lane
                where class = $1 and state = 'ready' and due_at <= now()) as "ready!",
            (select count(*) from queue_lane where class = $1 and state = 'leased') as "leased!",
            (select count(*) from queue_lane where class = $1 and state = 'waiting') as "waiting!",
            (select coalesce(extract(epoch from now() - min(created_at)), 0)::float8
                from queue_job where class = $1 and not dead) as "oldest_seconds!",
            (select count(*) from queue_job where class = $1 and dead) as "dead!"
        "#,
        class.as_str(),
    )
    .fetch_one(executor)
    .await
    .map_err(QueueError::database("count the queue"))
}

/// The dead letters, newest first.
pub async fn dead_letters(
    executor: impl PgExecutor<'_>,
    limit: i64,
) -> Result<Vec<DeadLetter>, QueueError> {
    sqlx::query_as!(
        DeadLetter,
        r#"
        select id, class, lane, coalesce(reason, '') as "reason!",
               created_at as "created_at: Instant", died_at as "died_at!: Instant"
        from queue_job where dead order by died_at desc limit $1
        "#,
        limit,
    )
    .fetch_all(executor)
    .await
    .map_err(QueueError::database("read the dead letters"))
}

/// Puts a dead letter back at the end of its lane; returns whether it was there.
#[boxed]
pub async fn revive(conn: &mut PgConnection, job: Uuid) -> Result<bool, QueueError> {
    let done = sqlx::query!(
        r#"
        with revived as (
            update queue_job set dead = false, reason = null, died_at = null,
                ord = nextval(pg_get_serial_sequence('queue_job', 'ord'))
            where id = $1 and dead
            returning class, lane
        )
        insert into queue_lane as l (class, id, state, due_at, pending)
        select class, lane, 'ready', now(), 1 from revived
        on conflict (class, id) do update set
            pending = l.pending + 1,
            attempts = 0,
            state = case when l.state = 'idle' then 'ready' else l.state end,
            due_at = case when l.state = 'idle' then excluded.due_at else l.due_at end
        "#,
        job,
    )
    .execute(conn)
    .await
    .map_err(QueueError::database("revive the dead letter"))?;
    Ok(done.rows_affected() == 1)
}
