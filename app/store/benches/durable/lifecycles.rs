//! The ceiling of door and lanes, in lifecycles per second: accepted through the product's door,
//! claimed with a lease, worked (one row), settled by the lease's token, all while new ones keep
//! coming.
//!
//! What works is no worker of the product's: it settles in one transaction what it claimed in one. So
//! the figure says how much door and lanes leave room for, and nothing of what the product does.

use crate::{
    messages::message,
    proof,
    request::Request,
    settle::settle,
    timed::Clock,
    world::{Place, World},
};
use anyhow::{Context, Result};
use famulus_core::{accept::Accept as _, ids::TurnId};
use famulus_queue::{Class, hint::Topic};
use famulus_store::Store;
use futures::future::try_join_all;
use serde_json::{Value, json};
use sqlx::PgPool;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};
use tokio_util::sync::CancellationToken;

pub(crate) const CONVERSATIONS: usize = 10_000;
pub(crate) const PRODUCERS: usize = 64;
/// Before the part that counts: every lane is made, caches and plans are warm.
pub(crate) const WARM_UP: Duration = Duration::from_secs(3);
/// Loops that claim and settle: one waits for the disk while the other claims.
const WORKERS: usize = 2;
/// Leases of one claim, settled in one transaction.
const BATCH: usize = 128;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let (world, store) = World::open(&request.url).await?;
    let places = world.conversations(CONVERSATIONS).await?;
    let done = Arc::new(AtomicU64::new(0));
    let stop = CancellationToken::new();
    let workers = try_join_all((0..WORKERS).map(|_| {
        let (store, bench) = (store.clone(), world.bench.clone());
        let (done, stop) = (Arc::clone(&done), stop.clone());
        async move { work(&store, &bench, &done, stop).await }
    }));
    let end = Instant::now() + WARM_UP + Duration::from_secs(request.seconds);
    let produced = async {
        let turns = produce(&store, &places, end, None).await?;
        proof::nothing_lost_or_doubled(&world.bench, &turns).await?;
        stop.cancel();
        anyhow::Ok(turns.len())
    };
    let rate = rate(&done, WARM_UP, Duration::from_secs(request.seconds));
    let (_ended, messages, rate) = tokio::try_join!(workers, produced, rate)?;
    world.close([store]).await;
    Ok(json!({ "per_second": rate, "messages": messages }))
}

/// What the counter gained per second in the window that begins after `warm_up`.
pub(crate) async fn rate(done: &AtomicU64, warm_up: Duration, window: Duration) -> Result<f64> {
    tokio::time::sleep(warm_up).await;
    let (from, begun) = (done.load(Ordering::Acquire), Instant::now());
    tokio::time::sleep(window).await;
    let gained = done.load(Ordering::Acquire) - from;
    Ok(gained as f64 / begun.elapsed().as_secs_f64())
}

/// A bound of what is under way.
pub(crate) struct Room {
    /// Whoever ends a turn gives one back.
    pub(crate) permits: Semaphore,
    /// What accepting took of the messages that were sent with one.
    pub(crate) accept: Clock,
}

/// Sends from all producers until the end, each in conversations of its own, each waiting for its
/// acknowledgement before the next, and for a permit of `room` where there is one.
pub(crate) async fn produce(
    store: &Store,
    places: &[Place],
    end: Instant,
    room: Option<&Arc<Room>>,
) -> Result<Vec<TurnId>> {
    let mut producers = JoinSet::new();
    for (producer, own) in (0_u64..).zip(places.chunks(places.len().div_ceil(PRODUCERS))) {
        let (store, own, room) = (store.clone(), own.to_vec(), room.cloned());
        producers.spawn(async move {
            let mut turns = Vec::new();
            for (round, place) in (0_u64..).zip(own.iter().cycle()) {
                if Instant::now() >= end {
                    break;
                }
                let accept = store.accept(message(place, producer << 32 | round));
                let accepted = match &room {
                    Some(room) => {
                        room.permits.acquire().await?.forget();
                        room.accept.time(accept).await
                    }
                    None => accept.await,
                };
                turns.push(accepted?.turn);
            }
            anyhow::Ok(turns)
        });
    }
    let turns = producers.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    Ok(turns.concat())
}

async fn work(
    store: &Store,
    bench: &PgPool,
    done: &AtomicU64,
    stop: CancellationToken,
) -> Result<()> {
    let mut hint = store.hints.subscribe(Topic::Turn);
    loop {
        hint.mark_unchanged();
        let leases = store.queue.claim(Class::Turn, BATCH).await.context("cannot claim")?;
        if leases.is_empty() {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                _changed = hint.changed() => {}
                () = tokio::time::sleep(Duration::from_secs(1)) => {}
            }
            continue;
        }
        settle(bench, &leases).await?;
        done.fetch_add(leases.len() as u64, Ordering::Release);
    }
}
