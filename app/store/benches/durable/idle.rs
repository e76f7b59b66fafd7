//! What Postgres is asked when nothing happens, and how fast the first message after it is.

use crate::{
    latency::Latencies,
    messages::message,
    pickup::{LIMITS, Stamps, work},
    proof,
    request::Request,
    world::World,
};
use anyhow::{Context, Result};
use famulus_core::{accept::Accept as _, ids::TurnId};
use famulus_lifecycle::OnExit;
use famulus_queue::{Class, worker};
use famulus_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use sqlx::{Connection, Executor, PgConnection, PgPool, postgres::PgConnectOptions};
use std::{
    str::FromStr,
    sync::Arc,
    time::{Duration, Instant},
};

const CONVERSATIONS: usize = 10_000;
/// Sessions report what they did within a minute, those that have nothing more to do as well.
const REPORTED: Duration = Duration::from_secs(62);
/// Messages into the silence, one every half second.
const AFTERWARDS: u64 = 20;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let (world, first) = World::open(&request.url).await?;
    let second = world.instance().await?;
    let places = world.conversations(CONVERSATIONS).await?;
    let stamps = Stamps::new(world.bench.clone());
    for store in [&first, &second] {
        work(&world.tasks, store, &stamps, LIMITS);
        deliver(&world, store, &stamps);
    }
    // Every conversation has been talked in.
    let talk = |(number, place)| first.accept(message(place, number));
    let talked: Vec<TurnId> = stream::iter((0_u64..).zip(&places))
        .map(talk)
        .buffer_unordered(64)
        .map_ok(|accepted| accepted.turn)
        .try_collect()
        .await?;
    proof::nothing_lost_or_doubled(&world.bench, &talked).await?;
    // Settled in the statistics, and the vacuum that it called for is over.
    sqlx::raw_sql("vacuum analyze").execute(&world.bench).await?;
    // Its rounds through the catalogue, some hundred transactions once a minute, are Postgres's own:
    // a window of half a minute has one of them or none.
    set(&world.bench, "alter system set autovacuum = off").await?;
    tokio::time::sleep(REPORTED).await;

    let asked = transactions(&request.url, Duration::from_secs(request.seconds)).await?;
    set(&world.bench, "alter system reset autovacuum").await?;

    let mut picked_up = Latencies::new()?;
    for number in 0..AFTERWARDS {
        let place = &places[number as usize * 97 % places.len()];
        let due = Instant::now();
        let accepted = first.accept(message(place, talked.len() as u64 + number)).await?;
        tokio::time::sleep(Duration::from_millis(500)).await;
        let begun = stamps.begun(accepted.turn).context("a turn did not begin in half a second")?;
        picked_up.record(begun.duration_since(due));
    }
    world.close([first, second]).await;
    Ok(json!({ "per_second": asked, "picked_up_afterwards": picked_up.report() }))
}

/// Changes a setting of the server.
async fn set(bench: &PgPool, change: &'static str) -> Result<()> {
    bench.execute(change).await?;
    bench.execute("select pg_reload_conf()").await?;
    Ok(())
}

/// The other class of work has a worker too.
fn deliver(world: &World, store: &Store, handler: &Arc<Stamps>) {
    let worker = worker::run(
        store.queue.clone(),
        Class::Delivery,
        store.hints.clone(),
        Arc::clone(handler),
        LIMITS,
        world.tasks.token(),
    );
    world.tasks.spawn("delivery worker", OnExit::ShutDown, worker);
}

/// Transactions per second in the database, counted from another one.
async fn transactions(url: &str, window: Duration) -> Result<f64> {
    let options = PgConnectOptions::from_str(url)?;
    let database = options.get_database().context("the URL names no database")?.to_owned();
    let mut elsewhere = PgConnection::connect_with(&options.database("postgres")).await?;
    let mut count = async || -> Result<i64> {
        let count = sqlx::query_scalar(
            "select xact_commit + xact_rollback from pg_stat_database where datname = $1",
        );
        Ok(count.bind(&database).fetch_one(&mut elsewhere).await?)
    };
    let before = count().await?;
    tokio::time::sleep(window).await;
    let after = count().await?;
    Ok((after - before) as f64 / window.as_secs_f64())
}
