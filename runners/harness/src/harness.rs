//! A runner that serves: built from what it needs, run until it is told to stop.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use famulus_lifecycle::{OnExit, Tasks};
use tokio::time::{Instant, interval, timeout_at};

use crate::bearer::Bearer;
use crate::call_store::CallStore;
use crate::callback::{CallbackSender, RetryPolicy};
use crate::calls::{Calls, Counts};
use crate::endpoint::Listener;
use crate::handlers;
use crate::limits::Limits;
use crate::serve::serve;
use crate::supervisor::Supervisor;
use crate::work::Work;

/// How often unused uploads are looked for, and the end of the last call while draining.
const SWEEP: Duration = Duration::from_mins(1);
const DRAIN_LOOK: Duration = Duration::from_millis(50);

/// How long results are kept for an app that is away while the runner ends: another worker takes over
/// after 20 s, and delivery is tried anew after 32 s at the latest by then.
const FETCHED: Duration = Duration::from_mins(1);

#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    #[error(
        "the folder of kept results {path} cannot be used; it must be a folder of the runner's"
    )]
    CallStore { path: PathBuf, source: io::Error },
}

/// What a runner is made of.
pub struct Parts {
    pub work: Arc<dyn Work>,
    pub listener: Listener,
    pub bearer: Bearer,
    /// The folder in which calls are kept; nothing that runs may reach it.
    pub kept: PathBuf,
    pub supervisor: Supervisor,
    pub limits: Limits,
    pub retry: RetryPolicy,
}

/// A runner in its tasks.
pub struct Harness {
    calls: Arc<Calls>,
}

impl Harness {
    /// Starts to serve on the listener, within `tasks`.
    pub fn start(parts: Parts, tasks: &Tasks) -> Result<Self, HarnessError> {
        let Parts { work, listener, bearer, kept, supervisor, limits, retry } = parts;
        let (call_store, found) = CallStore::open(kept.clone())
            .map_err(|source| HarnessError::CallStore { path: kept, source })?;
        let callbacks = CallbackSender::new(bearer.clone(), retry);
        let calls = Calls::new(work, call_store, supervisor, callbacks, limits, tasks.clone());
        calls.take_up(found);
        let router = handlers::router(Arc::clone(&calls));
        tasks.spawn(
            "runner.serve",
            OnExit::ShutDown,
            serve(listener, router, bearer, tasks.token()),
        );
        let (swept, shutdown) = (Arc::clone(&calls), tasks.token());
        tasks.spawn("runner.sweep", OnExit::ShutDown, async move {
            let mut tick = interval(SWEEP);
            loop {
                tokio::select! {
                    _ = tick.tick() => swept.sweep().await,
                    () = shutdown.cancelled() => return,
                }
            }
        });
        Ok(Self { calls })
    }

    /// Takes no new calls, and waits until the last one has ended and its result is with whoever
    /// wants it, or for `patience`.
    pub async fn drain(&self, patience: Duration) {
        self.calls.drain();
        let deadline = Instant::now() + patience;
        let running = |counts: Counts| counts.running + counts.queued;
        if !self.until_none(running, deadline).await {
            tracing::warn!("calls still run at the end of the runner: they are lost");
        }
        let deadline = deadline.min(Instant::now() + FETCHED);
        if !self.until_none(|counts| counts.kept, deadline).await {
            tracing::warn!("results that were not acknowledged are lost with the runner");
        }
    }

    /// Whether there was an instant before the deadline without any.
    async fn until_none(&self, count: impl Fn(Counts) -> u32, deadline: Instant) -> bool {
        let mut tick = interval(DRAIN_LOOK);
        let gone = timeout_at(deadline, async {
            while count(self.calls.counts()) > 0 {
                tick.tick().await;
            }
        });
        gone.await.is_ok()
    }
}
