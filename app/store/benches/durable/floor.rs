//! What the machine and Postgres cost before anything of ours is in the way.

use crate::{latency::Latencies, pace::open_loop, request::Request};
use anyhow::{Context, Result};
use futures::future::join_all;
use serde_json::{Map, Value, json};
use sqlx::{
    Executor, PgPool,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use std::{
    collections::HashMap,
    fs::File,
    os::unix::fs::FileExt,
    path::Path,
    str::FromStr,
    time::{Duration, Instant},
};

/// The rate at which pickups are measured too.
const RATE: u64 = 100;
/// What Postgres writes at least.
const PAGE: [u8; 8192] = [0x5a; 8192];
/// Writers at the same time.
const WRITERS: [usize; 3] = [1, 8, 64];

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let short = Duration::from_secs(request.seconds.min(3));
    let disk = request.disk.clone();
    let flush = tokio::task::spawn_blocking(move || flush(&disk, short)).await??;
    let options = PgConnectOptions::from_str(&request.url)?;
    let pool = PgPoolOptions::new().max_connections(64).connect_with(options).await?;
    pool.execute(
        "create table floor_row (id bigint generated always as identity primary key, note text)",
    )
    .await?;
    let round_trip = round_trip(&pool, short).await?;
    let heard = heard(&pool, request.seconds).await?;
    let mut inserts = Map::new();
    for writers in WRITERS {
        inserts.insert(writers.to_string(), json!(insert_rate(&pool, writers, short).await?));
    }
    pool.close().await;
    Ok(json!({
        "fdatasync": flush.report(),
        "round_trip": round_trip.report(),
        "insert_to_listener": heard.report(),
        "inserts_per_second": inserts,
    }))
}

/// Overwrites one page of a file and waits for the disk, over and over.
fn flush(folder: &Path, length: Duration) -> Result<Latencies> {
    let path = folder.join(format!("floor-{}", std::process::id()));
    let file = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let flushed = flush_file(&file, length);
    std::fs::remove_file(&path)?;
    flushed
}

fn flush_file(file: &File, length: Duration) -> Result<Latencies> {
    file.write_all_at(&vec![0; 1 << 20], 0)?;
    file.sync_all()?;
    let mut latencies = Latencies::new()?;
    let begun = Instant::now();
    while begun.elapsed() < length {
        let one = Instant::now();
        file.write_all_at(&PAGE, 0)?;
        file.sync_data()?;
        latencies.record(one.elapsed());
    }
    Ok(latencies)
}

/// The cheapest statement, one after the other.
async fn round_trip(pool: &PgPool, length: Duration) -> Result<Latencies> {
    let mut conn = pool.acquire().await?;
    let mut latencies = Latencies::new()?;
    let begun = Instant::now();
    while begun.elapsed() < length {
        let one = Instant::now();
        sqlx::query("select 1").execute(&mut *conn).await?;
        latencies.record(one.elapsed());
    }
    Ok(latencies)
}

/// One statement that inserts a row and notifies, until the listener of another session hears it:
/// nothing durable can be picked up faster by way of Postgres.
async fn heard(pool: &PgPool, seconds: u64) -> Result<Latencies> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen("floor").await?;
    let listen = async {
        let mut heard: HashMap<u64, Instant> = HashMap::new();
        while heard.len() < (RATE * seconds) as usize {
            let hint = listener.recv().await?;
            let at = Instant::now();
            heard.insert(hint.payload().parse()?, at);
        }
        anyhow::Ok(heard)
    };
    let send = open_loop(RATE, seconds, |number, due| {
        let pool = pool.clone();
        async move {
            sqlx::query(
                "with added as (insert into floor_row (note) values ($1) returning id)
                 select pg_notify('floor', $1) from added",
            )
            .bind(number.to_string())
            .execute(&pool)
            .await?;
            anyhow::Ok((number, due))
        }
    });
    let (heard, sent) = tokio::try_join!(listen, send)?;
    let mut latencies = Latencies::new()?;
    for sent in sent {
        let (number, due) = sent?;
        let at = heard.get(&number).context("a notification was not heard")?;
        latencies.record(at.duration_since(due));
    }
    Ok(latencies)
}

/// Rows per second when every row is a transaction of its own that waits for the disk.
async fn insert_rate(pool: &PgPool, writers: usize, length: Duration) -> Result<f64> {
    let end = Instant::now() + length;
    let write = || async {
        let mut conn = pool.acquire().await?;
        let mut rows = 0_u64;
        while Instant::now() < end {
            sqlx::query("insert into floor_row (note) values ('one row')")
                .execute(&mut *conn)
                .await?;
            rows += 1;
        }
        anyhow::Ok(rows)
    };
    let written = join_all((0..writers).map(|_| write())).await;
    let rows = written.into_iter().sum::<Result<u64>>()?;
    Ok(rows as f64 / length.as_secs_f64())
}
