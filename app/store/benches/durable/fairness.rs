//! What one conversation costs another: 50,000 messages are dumped into the first, and the second
//! is asked what it feels, before, during, and while the backlog stands.

use crate::{
    latency::Latencies,
    messages::message,
    pace::open_loop,
    pickup::{LIMITS, Stamps, work},
    proof,
    request::Request,
    world::{Place, World},
};
use anyhow::{Context, Result, ensure};
use famulus_core::{accept::Accept as _, ids::TurnId};
use famulus_store::Store;
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

const DUMPED: u64 = 50_000;
/// Messages of the dump on their way at the same time.
const AT_ONCE: usize = 64;
/// Messages per second of the one who only wants to talk.
const RATE: u64 = 50;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let (world, store) = World::open(&request.url).await?;
    let places = world.conversations(2).await?;
    let [quiet, loud] = places.as_slice() else {
        anyhow::bail!("two conversations were asked for")
    };
    let stamps = Stamps::new(world.bench.clone());
    work(&world.tasks, &store, &stamps, LIMITS);
    let phase = async |phase: u64, seconds: u64| {
        // Numbers of their own for every phase: no key is used twice.
        talk(&store, &stamps, quiet, (phase + 1) << 40, seconds).await
    };
    phase(0, 2).await?;
    let before = phase(1, request.seconds).await?;

    let over = AtomicBool::new(false);
    let dump = async {
        let begun = Instant::now();
        let dumped = dump(&store, loud).await;
        over.store(true, Ordering::Release);
        anyhow::Ok((dumped?, begun.elapsed()))
    };
    let meanwhile = async {
        let mut all = Vec::new();
        for second in 0.. {
            if over.load(Ordering::Acquire) {
                break;
            }
            all.extend(phase(100 + second, 1).await?);
        }
        anyhow::Ok(all)
    };
    let ((dumped, took), during) = tokio::try_join!(dump, meanwhile)?;
    let backlog = proof::waiting(&world.bench).await?;
    let behind = phase(2, request.seconds).await?;
    let left = proof::waiting(&world.bench).await?;
    ensure!(left > 0, "the backlog was gone before the end; dump more than {DUMPED} messages");

    // The backlog is not worked off here: what was accepted is an effect or still waits, once.
    let effects: i64 = sqlx::query_scalar(
        "select count(*) from (select job from bench_effect union all
                               select id from queue_job where not dead) as a (job)
         where job = any ($1)",
    )
    .bind(dumped.iter().map(|turn| turn.0).collect::<Vec<_>>())
    .fetch_one(&world.bench)
    .await?;
    ensure!(effects == dumped.len() as i64, "of {} messages {effects} are there", dumped.len());
    let report = |all: Vec<Duration>| anyhow::Ok(Latencies::of(all)?.report());
    let (before, behind) = (report(before)?, report(behind)?);
    let p99 = |report: &Value| report["p99_ms"].as_f64().unwrap_or(f64::NAN);
    let result = json!({
        "rise_ms": p99(&behind) - p99(&before),
        "before": before,
        "while_dumping": report(during)?,
        "behind_the_backlog": behind,
        "backlog": backlog,
        "dump_seconds": took.as_secs_f64(),
    });
    world.close([store]).await;
    Ok(result)
}

/// Messages in one conversation, in an open loop; how long each took until its turn began.
async fn talk(
    store: &Store,
    stamps: &Arc<Stamps>,
    place: &Place,
    from: u64,
    seconds: u64,
) -> Result<Vec<Duration>> {
    let sent = open_loop(RATE, seconds, |number, due| {
        let (store, place) = (store.clone(), place.clone());
        async move { anyhow::Ok((store.accept(message(&place, from + number)).await?.turn, due)) }
    })
    .await?;
    let mut latencies = Vec::with_capacity(sent.len());
    for sent in sent {
        let (turn, due) = sent?;
        latencies.push(begun(stamps, turn).await?.duration_since(due));
    }
    Ok(latencies)
}

async fn begun(stamps: &Stamps, turn: TurnId) -> Result<Instant> {
    let patience = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(at) = stamps.begun(turn) {
            return Ok(at);
        }
        (Instant::now() < patience)
            .then_some(())
            .context("a turn did not begin for half a minute")?;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn dump(store: &Store, place: &Place) -> Result<Vec<TurnId>> {
    stream::iter(0..DUMPED)
        .map(|number| store.accept(message(place, number)))
        .buffer_unordered(AT_ONCE)
        .map_ok(|accepted| accepted.turn)
        .map_err(anyhow::Error::from)
        .try_collect()
        .await
}
