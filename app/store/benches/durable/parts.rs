//! Where the time of whole turns goes, seen from both sides: how long a turn waits for what, and
//! what the sessions and the processors do meanwhile.

use crate::{
    lifecycles::{PRODUCERS, Room},
    sessions,
    timed::{Clocks, Spent},
};
use anyhow::{Context, Result};
use serde::Serialize;
use sqlx::PgPool;
use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

/// In which `/proc` counts processor time, on every Linux.
const TICK: Duration = Duration::from_millis(10);

type Named = BTreeMap<String, f64>;

#[derive(Debug, Serialize)]
pub(crate) struct Parts {
    /// The mean of a turn, from its producer's permit until it is given back.
    turn_ms: Named,
    turn_percent: Named,
    /// Of the sessions that are not idle.
    where_percent: Named,
    sessions_busy: f64,
    /// Of one core. The program holds producers, model, turn loop and store.
    processor_percent: Named,
    /// Turns that shared one transaction, in the mean.
    turns_per_commit: Named,
}

/// What turns are timed with.
#[derive(Clone, Copy)]
pub(crate) struct Clocked<'a> {
    /// With a permit for each producer.
    pub(crate) room: &'a Room,
    pub(crate) turns: &'a Clocks,
}

/// Looks at the turns that end in the window.
pub(crate) async fn look(
    bench: &PgPool,
    clocks: Clocked<'_>,
    warm_up: Duration,
    window: Duration,
) -> Result<Parts> {
    tokio::time::sleep(warm_up).await;
    let before = Moment::now(bench, clocks).await?;
    let seen = sessions::watch(bench, window).await?;
    let after = Moment::now(bench, clocks).await?;
    let length = after.at.duration_since(before.at);
    let turn_ms = turn(&before, &after, length.mul_f64(PRODUCERS as f64));
    let share = |later: Duration, earlier: Duration| {
        later.saturating_sub(earlier).as_secs_f64() * 100.0 / length.as_secs_f64()
    };
    Ok(Parts {
        turn_percent: percent(&turn_ms),
        turn_ms,
        where_percent: seen.percent(),
        sessions_busy: seen.busy(),
        processor_percent: named([
            ("program", share(after.program, before.program)),
            ("Postgres", share(after.postgres, before.postgres)),
        ]),
        turns_per_commit: batches(bench, &before, &after).await?,
    })
}

/// Every permit belongs to one turn at any time: the time of all permits is that of all turns.
fn turn(before: &Moment, after: &Moment, of_all: Duration) -> Named {
    let of = |clock: fn(&Moment) -> Spent| clock(after).since(clock(before));
    let (accept, take_up) = (of(|moment| moment.accept), of(|moment| moment.take_up));
    let (between, finish) = (of(|moment| moment.between), of(|moment| moment.finish));
    let whole = of_all.div_f64(finish.calls.max(1) as f64);
    let known = accept.mean() + take_up.mean() + between.mean() + finish.mean();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    named([
        ("accept", ms(accept.mean())),
        // Also the way of the permit to the next producer.
        ("waiting for a worker", ms(whole.saturating_sub(known))),
        ("take up", ms(take_up.mean())),
        ("turn loop and model", ms(between.mean())),
        ("finish", ms(finish.mean())),
    ])
}

/// What is written in one transaction bears its moment.
async fn batches(bench: &PgPool, before: &Moment, after: &Moment) -> Result<Named> {
    let (accept, take_up, finish): (Option<f64>, Option<f64>, Option<f64>) = sqlx::query_as(
        "select count(*)::float8 / nullif(count(distinct created_at), 0),
                count(*)::float8 / nullif(count(distinct started_at), 0),
                count(*)::float8 / nullif(count(distinct ended_at), 0)
         from turn where ended_at >= to_timestamp($1) and ended_at < to_timestamp($2)",
    )
    .bind(before.of_postgres)
    .bind(after.of_postgres)
    .fetch_one(bench)
    .await?;
    let mean = |mean: Option<f64>| mean.context("no turn ended in the window");
    Ok(named([("accept", mean(accept)?), ("take up", mean(take_up)?), ("finish", mean(finish)?)]))
}

/// What there is to read at one moment.
struct Moment {
    at: Instant,
    /// The same by Postgres's clock, in seconds.
    of_postgres: f64,
    accept: Spent,
    take_up: Spent,
    between: Spent,
    finish: Spent,
    program: Duration,
    postgres: Duration,
}

impl Moment {
    async fn now(bench: &PgPool, clocks: Clocked<'_>) -> Result<Self> {
        let of_postgres =
            sqlx::query_scalar("select extract(epoch from clock_timestamp())::float8");
        let processes = sqlx::query_scalar("select pid from pg_stat_activity");
        let processes: Vec<i32> = processes.fetch_all(bench).await?;
        Ok(Self {
            at: Instant::now(),
            of_postgres: of_postgres.fetch_one(bench).await?,
            accept: clocks.room.accept.read(),
            take_up: clocks.turns.take_up.read(),
            between: clocks.turns.between.read(),
            finish: clocks.turns.finish.read(),
            program: processor_time("self").context("cannot read /proc/self/stat")?,
            // One that ended meanwhile counts no longer.
            postgres: processes.iter().filter_map(|pid| processor_time(&pid.to_string())).sum(),
        })
    }
}

/// What all threads of a process have used so far, in the program and in the kernel.
fn processor_time(process: &str) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Behind the name, which may hold anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok();
    Some(TICK * (ticks()? + ticks()?))
}

fn named<const N: usize>(parts: [(&str, f64); N]) -> Named {
    parts.into_iter().map(|(name, part)| (name.to_owned(), part)).collect()
}

fn percent(parts: &Named) -> Named {
    let all: f64 = parts.values().sum();
    parts.iter().map(|(name, part)| (name.clone(), part * 100.0 / all)).collect()
}
