//! Calls: taken or refused, looked for, acknowledged.
//!
//! ```text
//! start ─► table (known already?) ─► admit ─► queue ─► life: its own task, until the result was told
//! ```

mod life;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::{CallId, CallResult, Kind, Problem, Progress, RunCall, SelfTest};
use parking_lot::Mutex;
use tokio::sync::broadcast;

use self::table::{CallTable, no_call};
use crate::call_store::{CallStore, RecoveredCall, StoredCall};
use crate::callback::CallbackSender;
use crate::limits::Limits;
use crate::live::{Live, Phase};
use crate::supervisor::Supervisor;
use crate::wait_queue::WaitQueue;
use crate::work::{Admitted, Answer, Queue, Work};

pub(crate) struct Calls {
    pub(crate) work: Arc<dyn Work>,
    pub(crate) call_store: CallStore,
    pub(crate) supervisor: Supervisor,
    pub(crate) limits: Limits,
    serial: WaitQueue,
    concurrent: WaitQueue,
    self_tests: WaitQueue,
    callbacks: Arc<CallbackSender>,
    tasks: Tasks,
    draining: AtomicBool,
    /// Held for single operations, never across an await.
    table: Mutex<CallTable>,
}

/// A call that was taken now or before.
pub(crate) struct Started {
    pub(crate) live: Arc<Live>,
    pub(crate) answer: Answer,
    /// What is said of it from before it began.
    pub(crate) lines: broadcast::Receiver<Progress>,
}

impl Started {
    fn of(live: &Arc<Live>, answer: Answer) -> Self {
        Self { live: Arc::clone(live), answer, lines: live.lines.subscribe() }
    }
}

/// How many calls there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) running: u32,
    pub(crate) queued: u32,
    pub(crate) kept: u32,
}

impl Calls {
    pub(crate) fn new(
        work: Arc<dyn Work>,
        call_store: CallStore,
        supervisor: Supervisor,
        callbacks: CallbackSender,
        limits: Limits,
        tasks: Tasks,
    ) -> Arc<Self> {
        Arc::new(Self {
            work,
            call_store,
            supervisor,
            limits,
            serial: WaitQueue::new(1, limits.waiting),
            concurrent: WaitQueue::new(limits.concurrent, limits.waiting),
            self_tests: WaitQueue::new(1, 0),
            callbacks: Arc::new(callbacks),
            tasks,
            draining: AtomicBool::new(false),
            table: Mutex::default(),
        })
    }

    /// Goes on with what a runner before this one kept.
    pub(crate) fn take_up(self: &Arc<Self>, found: Vec<RecoveredCall>) {
        for RecoveredCall { id, taken } in found {
            let live = Arc::new(Live::new(Phase::Ended, taken.callback));
            live.noted.cancel();
            self.table.lock().accept(id.clone(), Arc::clone(&live));
            self.deliver(id, live);
        }
    }

    /// Takes the call, unless it was taken before: then it is that one.
    pub(crate) async fn start(
        self: &Arc<Self>,
        id: CallId,
        request: RunCall,
    ) -> Result<Started, Problem> {
        // What is known is answered also while nothing new is taken.
        if let Some(live) = self.table.lock().taken_before(&id)? {
            // Whoever gave a callback is not waiting on the connection.
            let answer = if request.callback.is_some() { Answer::Later } else { Answer::Stream };
            return Ok(Started::of(&live, answer));
        }
        self.refuse_new()?;
        let (admitted, request) = self.admit(id.clone(), request).await?;
        let queue = match admitted.queue {
            Queue::Serial => &self.serial,
            Queue::Concurrent => &self.concurrent,
        };
        let (live, ticket) = {
            let mut table = self.table.lock();
            if let Some(live) = table.accepted(&id) {
                return Ok(Started::of(&live, admitted.answer));
            }
            let ticket = queue.join().map_err(|_full| busy())?;
            let phase = Phase::Queued(ticket.position() as u32);
            let live = Arc::new(Live::new(phase, request.callback.clone()));
            table.accept(id.clone(), Arc::clone(&live));
            (live, ticket)
        };
        // No await since the call was noted: from here on its own task brings it to its end.
        let started = Started::of(&live, admitted.answer);
        let taken =
            StoredCall { tool: request.tool, each: admitted.each, callback: request.callback };
        let calls = Arc::clone(self);
        self.tasks.spawn("runner.call", OnExit::Log, async move {
            calls.live_through(id, live, ticket, admitted, taken).await;
        });
        Ok(started)
    }

    fn refuse_new(&self) -> Result<(), Problem> {
        if self.is_draining() {
            return Err(Problem::new(
                Kind::Draining,
                "the runner is about to end",
                "send the call again when its successor is ready",
            ));
        }
        if self.counts().kept as usize >= self.limits.kept {
            return Err(Problem::new(
                Kind::Unacknowledged,
                format!("{} results wait to be acknowledged", self.limits.kept),
                "fetch and acknowledge them first",
            ));
        }
        Ok(())
    }

    async fn admit(
        self: &Arc<Self>,
        id: CallId,
        request: RunCall,
    ) -> Result<(Admitted, RunCall), Problem> {
        let calls = Arc::clone(self);
        let judged = tokio::task::spawn_blocking(move || {
            let sizes = calls.call_store.upload_sizes(&id).map_err(|error| cannot_write(&error))?;
            calls.work.admit(&request, &sizes).map(|admitted| (admitted, request))
        });
        judged.await.unwrap_or_else(|_panicked| Err(defect("the call could not be judged")))
    }

    /// Notes that files come for a call, unless it was taken.
    pub(crate) fn expect_uploads(&self, id: &CallId) -> Result<(), Problem> {
        self.refuse_new()?;
        self.table.lock().expect_uploads(id)
    }

    /// The call, or `None` while only files came.
    pub(crate) fn find(&self, id: &CallId) -> Result<Option<Arc<Live>>, Problem> {
        self.table.lock().find(id)
    }

    pub(crate) fn taken(&self, id: &CallId) -> Result<Arc<Live>, Problem> {
        self.find(id)?.ok_or_else(|| no_call(id))
    }

    pub(crate) async fn result(&self, id: &CallId) -> Result<CallResult, Problem> {
        self.call_store.result(id).await.map_err(|error| {
            tracing::error!(%error, call.id = %id, "a result cannot be read");
            defect("the result cannot be read from the runner's disk")
        })
    }

    /// Forgets a result that arrived. Repeating it is no error.
    pub(crate) async fn acknowledge(&self, id: &CallId) -> Result<(), Problem> {
        if self.table.lock().was_acknowledged(id) {
            return Ok(());
        }
        let live = self.taken(id)?;
        if live.phase() != Phase::Ended {
            return Err(Problem::new(
                Kind::NotEnded,
                format!("call `{id}` has not ended"),
                "wait for its result, or cancel it",
            ));
        }
        live.acknowledged.cancel();
        self.call_store.forget(id).await.map_err(|error| cannot_write(&error))?;
        self.table.lock().acknowledge(id);
        Ok(())
    }

    /// Runs the self-test, one at a time.
    pub(crate) async fn self_test(&self) -> Result<SelfTest, Problem> {
        let _ticket = self.self_tests.join().map_err(|_full| busy())?;
        let scratch = self.call_store.self_test_folder().map_err(|error| cannot_write(&error))?;
        let checks = self.work.self_test(&self.supervisor, scratch).await;
        let passed = checks.iter().all(|check| check.passed);
        Ok(SelfTest { passed, checks, isolation: self.supervisor.isolation() })
    }

    /// Throws away uploads whose call did not come.
    pub(crate) async fn sweep(&self) {
        let stale = self.table.lock().drop_unused(self.limits.upload_age);
        for id in stale {
            if let Err(error) = self.call_store.forget(&id).await {
                tracing::warn!(%error, call.id = %id, "unused uploads could not be removed");
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (serial, concurrent) = (self.serial.counts(), self.concurrent.counts());
        Counts {
            running: (serial.0 + concurrent.0) as u32,
            queued: (serial.1 + concurrent.1) as u32,
            kept: self.table.lock().kept() as u32,
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

fn busy() -> Problem {
    Problem::new(Kind::Busy, "too many calls wait already", "send the call again a little later")
}

pub(crate) fn defect(what: &str) -> Problem {
    Problem::new(Kind::Internal, what, "see the log of the runner")
}

pub(crate) fn cannot_write(error: &std::io::Error) -> Problem {
    tracing::error!(%error, "the folder of kept calls cannot be read or written");
    Problem::new(
        Kind::Internal,
        format!("the runner's disk does not work: {error}"),
        "see whether its volume is full or read-only",
    )
}
