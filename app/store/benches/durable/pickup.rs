//! Accepted to picked up: from the moment that a message is due at the door until a worker runs the
//! first instruction of its turn.

use crate::{
    latency::Latencies, messages::message, pace::open_loop, proof, request::Request,
    settle::settle, world::World,
};
use anyhow::{Context, Result};
use async_trait::async_trait;
use famulus_core::{accept::Accept as _, ids::TurnId};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{
    Class, Lease,
    worker::{self, Handler, Limits, Outcome},
};
use famulus_store::Store;
use parking_lot::Mutex;
use serde_json::{Value, json};
use sqlx::PgPool;
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

const RATE: u64 = 100;
const CONVERSATIONS: usize = 1_000;
/// Messages before those that count: sessions are opened, statements prepared, lanes made.
const WARM_UP_SECONDS: u64 = 2;

/// What latencies are measured with: enough for every message that is under way.
pub(crate) const LIMITS: Limits = Limits { concurrency: 16, grace: Duration::from_secs(5) };

/// Which process works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Worker {
    /// The one that accepts.
    Here,
    /// Another one on the same database, which hears of work by NOTIFY only.
    Elsewhere,
}

/// Notes when work began, then settles it.
pub(crate) struct Stamps {
    bench: PgPool,
    begun: Mutex<HashMap<Uuid, Instant>>,
}

impl Stamps {
    pub(crate) fn new(bench: PgPool) -> Arc<Self> {
        Arc::new(Self { bench, begun: Mutex::default() })
    }

    pub(crate) fn begun(&self, turn: TurnId) -> Option<Instant> {
        self.begun.lock().get(&turn.0).copied()
    }
}

#[async_trait]
impl Handler for Stamps {
    async fn work(&self, lease: Lease, _cancel: CancellationToken) -> Outcome {
        let at = Instant::now();
        self.begun.lock().entry(lease.job.id).or_insert(at);
        if let Err(error) = settle(&self.bench, &[lease]).await {
            eprintln!("a lease was not settled: {error:#}");
            return Outcome::Retry { delay: Duration::ZERO, blameless: false };
        }
        Outcome::Settled
    }
}

/// Runs a worker of the queue as the product does.
pub(crate) fn work(tasks: &Tasks, store: &Store, handler: &Arc<impl Handler>, limits: Limits) {
    let worker = worker::run(
        store.queue.clone(),
        Class::Turn,
        store.hints.clone(),
        Arc::clone(handler),
        limits,
        tasks.token(),
    );
    tasks.spawn("worker", OnExit::ShutDown, worker);
}

/// One message: when it was due, when it was acknowledged, and its turn.
struct Sent {
    due: Instant,
    acknowledged: Instant,
    turn: TurnId,
}

pub(crate) async fn measure(request: &Request, by: Worker) -> Result<Value> {
    let (world, store) = World::open(&request.url).await?;
    let other = match by {
        Worker::Here => None,
        Worker::Elsewhere => Some(world.instance().await?),
    };
    let places = Arc::new(world.conversations(CONVERSATIONS).await?);
    let stamps = Stamps::new(world.bench.clone());
    work(&world.tasks, other.as_ref().unwrap_or(&store), &stamps, LIMITS);

    let send = |number: u64, due: Instant| {
        let (store, places) = (store.clone(), Arc::clone(&places));
        async move {
            let place = &places[number as usize % places.len()];
            let accepted = store.accept(message(place, number)).await?;
            anyhow::Ok(Sent { due, acknowledged: Instant::now(), turn: accepted.turn })
        }
    };
    // The numbers of the warm-up follow those that count, so that no key is used twice.
    let counted = RATE * request.seconds;
    let warm = open_loop(RATE, WARM_UP_SECONDS, |number, due| send(counted + number, due)).await?;
    let sent = open_loop(RATE, request.seconds, send).await?;
    let warm = warm.into_iter().collect::<Result<Vec<Sent>>>()?;
    let sent = sent.into_iter().collect::<Result<Vec<Sent>>>()?;
    let turns: Vec<TurnId> = warm.iter().chain(&sent).map(|sent| sent.turn).collect();
    proof::nothing_lost_or_doubled(&world.bench, &turns).await?;

    let mut picked_up = Latencies::new()?;
    for Sent { due, turn, .. } in &sent {
        let begun = stamps.begun(*turn).context("a turn has an effect but never began")?;
        picked_up.record(begun.duration_since(*due));
    }
    let accepted = Latencies::of(sent.iter().map(|sent| sent.acknowledged - sent.due))?;
    world.close(other.into_iter().chain([store])).await;
    Ok(json!({
        "picked_up": picked_up.report(),
        "accepted": accepted.report(),
        "messages": turns.len(),
    }))
}
