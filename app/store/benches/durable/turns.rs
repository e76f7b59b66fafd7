//! Whole turns per second: accepted, claimed by the queue's worker, driven by the turn loop with a
//! model that answers at once, and ended with the reply in the transcript.
//!
//! As many turns are under way as there are producers: one that only waited for the acknowledgement
//! would take the processor from the turns, and what is measured would be how the two share it.

use crate::{
    lifecycles::{CONVERSATIONS, PRODUCERS, Room, WARM_UP, produce, rate},
    parts::{self, Clocked, Parts},
    pickup::work,
    proof,
    request::Request,
    timed::{Clock, Clocks, Timed},
    world::World,
};
use anyhow::Result;
use async_trait::async_trait;
use famulus_agent::{Driven, Driver, prompt::Budget};
use famulus_core::{
    agent::Grants,
    clock::SystemClock,
    event::{Envelope, EventId, List, Viewers},
    ids::{ConversationId, PersonId, TurnId},
    message::{Part, ToolCall},
    model::{Model, ModelEvent, ModelReply, ModelRequest, ModelStream, Usage},
    tool::{CheckedCall, ToolOutput, ToolSpec, Tools},
};
use famulus_queue::{
    Lease,
    worker::{Handler, Limits, Outcome},
};
use famulus_store::Store;
use futures::{StreamExt, stream};
use serde::Serialize;
use serde_json::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The product's default: `turns.concurrency`.
const LIMITS: Limits = Limits { concurrency: 64, grace: Duration::from_secs(5) };

const REPLY: &str = "The next train to the coast leaves on Sunday at 9:14. It is on the list.";

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let (world, store) = World::open(&request.url).await?;
    let places = world.conversations(CONVERSATIONS).await?;
    let room = Arc::new(Room { permits: Semaphore::new(PRODUCERS), accept: Clock::default() });
    let clocks = Arc::new(Clocks::default());
    let turns = Arc::new(Turns {
        driver: driver(&store, &clocks),
        done: AtomicU64::new(0),
        room: Arc::clone(&room),
    });
    work(&world.tasks, &store, &turns, LIMITS);
    let window = Duration::from_secs(request.seconds);
    let end = Instant::now() + WARM_UP + window;
    let (sent, per_second, parts) = tokio::try_join!(
        produce(&store, &places, end, Some(&room)),
        rate(&turns.done, WARM_UP, window),
        parts::look(&world.bench, Clocked { room: &room, turns: &clocks }, WARM_UP, window),
    )?;
    proof::every_turn_complete(&world.bench, &sent).await?;
    world.close([store]).await;
    let concurrency = LIMITS.concurrency;
    Ok(serde_json::to_value(Report { per_second, messages: sent.len(), concurrency, parts })?)
}

#[derive(Serialize)]
struct Report {
    per_second: f64,
    messages: usize,
    /// Turns that the worker has places for.
    concurrency: usize,
    #[serde(flatten)]
    parts: Parts,
}

fn driver(store: &Store, clocks: &Arc<Clocks>) -> Driver {
    Driver {
        log: Arc::new(Timed { log: Arc::new(store.clone()), clocks: Arc::clone(clocks) }),
        events: Arc::new(store.clone()),
        viewers: Arc::new(Nobody),
        model: Arc::new(Instantly),
        transcriber: None,
        tools: Arc::new(Without),
        knowledge: Arc::new(store.clone()),
        blobs: Arc::new(store.clone()),
        clock: Arc::new(SystemClock),
        channels: Arc::default(),
        limits: famulus_agent::Limits {
            timeouts: usual(),
            budget: Budget { history_tokens: 100_000, knowledge_tokens: 8_000 },
            approval_seconds: 300,
        },
    }
}

/// For a type whose name stays inside its crate.
fn usual<T: Default>() -> T {
    T::default()
}

struct Turns {
    driver: Driver,
    done: AtomicU64,
    room: Arc<Room>,
}

#[async_trait]
impl Handler for Turns {
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome {
        let stop = CancellationToken::new();
        match self.driver.drive(&lease.fence, TurnId(lease.job.id), &stop, &cancel).await {
            Ok(Driven::Ended(_)) => {
                self.done.fetch_add(1, Ordering::Release);
                self.room.permits.add_permits(1);
                Outcome::Settled
            }
            Ok(Driven::Parked) => Outcome::Settled,
            Ok(Driven::Abandoned) => Outcome::Retry { delay: Duration::ZERO, blameless: true },
            Err(error) => {
                eprintln!("a turn could not be driven: {error}");
                Outcome::Retry { delay: Duration::from_secs(1), blameless: false }
            }
        }
    }
}

/// A model without thought.
struct Instantly;

impl Model for Instantly {
    fn provider(&self) -> &'static str {
        "instant"
    }

    fn ask(&self, _request: ModelRequest) -> ModelStream {
        let reply = ModelReply {
            model: "instant".to_owned(),
            parts: vec![Part::assistant_text(REPLY)],
            blocks: None,
            usage: Usage { input_tokens: Some(100), output_tokens: Some(20) },
        };
        let events =
            [Ok(ModelEvent::Text(REPLY.to_owned())), Ok(ModelEvent::Done(Box::new(reply)))];
        stream::iter(events).boxed()
    }
}

struct Without;

impl Tools for Without {
    fn catalogue(&self, _grants: &Grants) -> Vec<ToolSpec> {
        Vec::new()
    }

    fn checked<'a>(
        &'a self,
        _call: &ToolCall,
        _grants: &Grants,
    ) -> Result<Arc<dyn CheckedCall + 'a>, ToolOutput> {
        Err(ToolOutput::Error("there are no tools".to_owned()))
    }
}

struct Nobody;

impl Viewers for Nobody {
    fn publish(&self, _envelope: &Arc<Envelope>) {}

    fn stored(&self, _conversation: ConversationId, _up_to: EventId) {}

    fn list_changed(&self, _person: PersonId, _list: List) {}
}
