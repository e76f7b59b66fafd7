//! A worker: claims lanes of one class, works them concurrently, and keeps the leases alive.

use crate::{
    claim::Queue,
    handover::{HandedLease, HandoverReceiver},
    hint::{Hints, Topic},
    lane::{Class, Lease},
};
use async_trait::async_trait;
use famulus_core::turn::Fence;
use std::{collections::HashMap, future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{Id, JoinError, JoinSet},
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};
use tokio_util::sync::CancellationToken;

/// Work is looked for this often even when no hint comes.
const POLL: Duration = Duration::from_secs(10);
/// And this often by a worker that holds leases. It does not look ahead, because the ends of its own
/// leases, which the heartbeat moves, would be all that it sees.
const BUSY_POLL: Duration = Duration::from_secs(1);
/// Lanes claimed in one statement.
const BATCH: usize = 64;

/// Does the work of one class.
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Works a lease, and settles it in the transaction that records the outcome. `cancel` ends
    /// when the lease is lost or the process must give its work up.
    async fn work(&self, lease: Lease, cancel: CancellationToken) -> Outcome;
}

/// What became of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Settled, or lost to somebody else.
    Settled,
    /// To be given back and tried again.
    Retry { delay: Duration, blameless: bool },
}

/// Bounds of one worker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Leases worked at once.
    pub concurrency: usize,
    /// After shutdown begins, work may end by itself for this long; then it is handed over.
    pub grace: Duration,
}

struct ActiveLease {
    lease: Lease,
    cancel: CancellationToken,
    place: OwnedSemaphorePermit,
}

/// What a worker works at this moment.
struct Running<H> {
    queue: Queue,
    class: Class,
    handler: Arc<H>,
    tasks: JoinSet<Outcome>,
    held: HashMap<Id, ActiveLease>,
    /// When the leases were extended last.
    last_beat: Instant,
}

impl<H: Handler> Running<H> {
    fn begin(&mut self, lease: Lease, place: OwnedSemaphorePermit) {
        if self.held.is_empty() {
            self.last_beat = Instant::now();
        }
        let cancel = CancellationToken::new();
        let work = {
            let (handler, cancel) = (Arc::clone(&self.handler), cancel.clone());
            async move { handler.work(lease, cancel).await }
        };
        let id = self.tasks.spawn(work).id();
        self.held.insert(id, ActiveLease { lease, cancel, place });
    }

    fn end(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let id = match &ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        // What was given back is not held any more.
        let Some(ActiveLease { lease, place, .. }) = self.held.remove(&id) else { return };
        let (delay, blameless) = match ended.map(|(_, outcome)| outcome) {
            Ok(Outcome::Settled) => return,
            Ok(Outcome::Retry { delay, blameless }) => (delay, blameless),
            Err(error) => {
                tracing::error!(job = %lease.job.id, error = %error, "a worker task panicked");
                (backoff(lease.attempts), false)
            }
        };
        self.give_back(lease, place, delay, blameless);
    }

    /// Beside the others, whose leases go on being extended; the place is free when it is done.
    fn give_back(
        &mut self,
        lease: Lease,
        place: OwnedSemaphorePermit,
        delay: Duration,
        blameless: bool,
    ) {
        let (queue, class) = (self.queue.clone(), self.class);
        self.tasks.spawn(async move {
            if let Err(error) = queue.give_back(class, &lease.fence, delay, blameless).await {
                tracing::warn!(job = %lease.job.id, error = %error,
                    "a lease was not given back; it ends by itself");
            }
            drop(place);
            Outcome::Settled
        });
    }
}

/// Claims and works until `shutdown` ends, then drains.
pub async fn run<H: Handler>(
    queue: Queue,
    class: Class,
    hints: Hints,
    handler: Arc<H>,
    limits: Limits,
    shutdown: CancellationToken,
) {
    let topic = match class {
        Class::Turn => Topic::Turn,
        Class::Delivery => Topic::Delivery,
        Class::Arrival => Topic::Arrival,
    };
    let mut hint = hints.subscribe(topic);
    let places = Arc::new(Semaphore::new(limits.concurrency));
    let mut receiving = match class {
        Class::Turn => Some(queue.handover.receive(&places, limits.concurrency)),
        Class::Delivery | Class::Arrival => None,
    };
    let mut running = Running {
        queue: queue.clone(),
        class,
        handler,
        tasks: JoinSet::new(),
        held: HashMap::new(),
        last_beat: Instant::now(),
    };
    let beat_every = queue.lease / 4;
    let mut beat = interval_at(Instant::now() + beat_every, beat_every);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut look_again = Instant::now();
    let mut give_up: Option<Instant> = None;

    loop {
        let draining = give_up.is_some();
        if draining && running.tasks.is_empty() {
            return;
        }
        let looking = !draining && places.available_permits() > 0;
        if looking && look_again <= Instant::now() {
            hint.mark_unchanged();
            look_again = claim(&queue, class, &places, &mut running).await;
            continue;
        }
        tokio::select! {
            () = shutdown.cancelled(), if !draining => {
                give_up = Some(Instant::now() + limits.grace);
                if let Some(mut receiving) = receiving.take() {
                    for (lease, place) in receiving.rest() {
                        running.give_back(lease, place, Duration::ZERO, true);
                    }
                }
            }
            _changed = hint.changed(), if looking => look_again = Instant::now(),
            () = sleep_until(look_again), if looking => {}
            handed = next(&mut receiving) => if let Some((lease, place)) = handed {
                running.begin(lease, place);
                look_again = look_again.min(Instant::now() + BUSY_POLL);
            },
            () = at(give_up), if draining => {
                for work in running.held.values() {
                    work.cancel.cancel();
                }
                // Cancelled once; what does not listen is ended by the caller's deadline.
                give_up = Some(Instant::now() + Duration::from_hours(1));
            }
            Some(ended) = running.tasks.join_next_with_id() => {
                running.end(ended);
                // Whatever else has ended frees its place, too, for one claim of all.
                while let Some(ended) = running.tasks.try_join_next_with_id() {
                    running.end(ended);
                }
                look_again = Instant::now();
            }
            _tick = beat.tick(), if !running.held.is_empty() => {
                running.last_beat = extend(&queue, class, &running.held, running.last_beat).await;
            }
        }
    }
}

/// Claims as much as there are places for; returns when to look again.
async fn claim<H: Handler>(
    queue: &Queue,
    class: Class,
    places: &Arc<Semaphore>,
    running: &mut Running<H>,
) -> Instant {
    let wanted = places.available_permits().min(BATCH);
    let taken = u32::try_from(wanted).ok().map(|n| Arc::clone(places).try_acquire_many_owned(n));
    let Some(Ok(mut taken)) = taken else {
        // Somebody reserved a place in between.
        return Instant::now();
    };
    let leases = match queue.claim(class, wanted).await {
        Ok(leases) => leases,
        Err(error) => {
            tracing::warn!(error = %error, class = class.as_str(), "claiming failed");
            return Instant::now() + Duration::from_millis(500);
        }
    };
    let full = leases.len() == wanted;
    for lease in leases {
        if let Some(place) = taken.split(1) {
            running.begin(lease, place);
        }
    }
    if full {
        Instant::now()
    } else {
        Instant::now() + sleep_until_due(queue, class, running.held.is_empty()).await
    }
}

async fn next(receiving: &mut Option<HandoverReceiver>) -> Option<HandedLease> {
    match receiving {
        Some(receiving) => receiving.next().await,
        None => pending().await,
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => pending().await,
    }
}

/// How long until something falls due by itself, with some jitter so that replicas spread out.
async fn sleep_until_due(queue: &Queue, class: Class, idle: bool) -> Duration {
    let jitter = Duration::from_millis(u64::from(queue.worker.0.as_bytes()[15]) * 4);
    let poll = POLL + jitter;
    if !idle {
        return BUSY_POLL.min(queue.lease);
    }
    match queue.next_due(class).await {
        Ok(Some(due)) => (due + Duration::from_millis(1)).min(poll),
        Ok(None) => poll,
        Err(error) => {
            tracing::warn!(error = %error, "the next due lane could not be read");
            poll
        }
    }
}

/// Extends all leases. Those that are lost, or that could not be extended before they end, are
/// cancelled: from then on somebody else may hold them.
async fn extend(
    queue: &Queue,
    class: Class,
    held: &HashMap<Id, ActiveLease>,
    last_beat: Instant,
) -> Instant {
    let started = Instant::now();
    let fences: Vec<Fence> = held.values().map(|work| work.lease.fence).collect();
    match queue.heartbeat(class, &fences).await {
        Ok(alive) => {
            for work in held.values() {
                let fence = work.lease.fence;
                if !alive.contains(&(fence.lane, fence.token)) {
                    work.cancel.cancel();
                }
            }
            started
        }
        Err(error) => {
            tracing::warn!(error = %error, leases = held.len(), "extending leases failed");
            if started.duration_since(last_beat) + queue.lease / 4 >= queue.lease {
                for work in held.values() {
                    work.cancel.cancel();
                }
            }
            last_beat
        }
    }
}

/// 0.5 s, doubling, at most 30 s.
pub fn backoff(attempts: i32) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(0).min(6);
    Duration::from_millis(500 << doublings).min(Duration::from_secs(30))
}
