//! The table of calls: accepting, running, keeping, forgetting.

use std::collections::{HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::{
    CallId, CallResult, Failure, Kind, Outcome, Problem, Progress, Reason, Run, RunCall, SelfTest,
};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

use crate::call_store::{CallStore, RecoveredCall, StoredCall};
use crate::callback::{CallbackSender, Delivered};
use crate::limits::Limits;
use crate::live::{Live, Phase, ProgressSender};
use crate::supervisor::Supervisor;
use crate::wait_queue::{Ticket, WaitQueue};
use crate::work::{Admitted, Answer, Context, Queue, Work};

/// Names of acknowledged calls that are remembered, so that a repeated request does not run again.
const REMEMBERED: usize = 4096;

/// How often a result that could not be written is tried again, and the pause between.
const KEEP_ATTEMPTS: u32 = 20;
const KEEP_AGAIN: Duration = Duration::from_millis(500);

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

#[derive(Default)]
struct CallTable {
    calls: HashMap<CallId, Entry>,
    acknowledged: VecDeque<CallId>,
}

#[derive(Clone)]
enum Entry {
    /// Files came, and the call did not yet.
    Uploading(Instant),
    Accepted(Arc<Live>),
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
            self.table.lock().calls.insert(id.clone(), Entry::Accepted(Arc::clone(&live)));
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
        if let Some(started) = self.taken_before(&id, &request)? {
            return Ok(started);
        }
        self.refuse_new()?;
        let (admitted, request) = self.admit(id.clone(), request).await?;
        let queue = match admitted.queue {
            Queue::Serial => &self.serial,
            Queue::Concurrent => &self.concurrent,
        };
        let (live, ticket) = {
            let mut table = self.table.lock();
            if let Some(Entry::Accepted(live)) = table.calls.get(&id) {
                return Ok(Started::of(live, admitted.answer));
            }
            let ticket = queue.join().map_err(|_full| busy())?;
            let phase = Phase::Queued(ticket.position() as u32);
            let live = Arc::new(Live::new(phase, request.callback.clone()));
            table.calls.insert(id.clone(), Entry::Accepted(Arc::clone(&live)));
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

    fn taken_before(&self, id: &CallId, request: &RunCall) -> Result<Option<Started>, Problem> {
        let table = self.table.lock();
        if table.acknowledged.contains(id) {
            return Err(Problem::new(
                Kind::Acknowledged,
                format!("the result of call `{id}` was acknowledged already"),
                "use the result that you have; a new call needs a new id",
            ));
        }
        Ok(match table.calls.get(id) {
            // Whoever gave a callback is not waiting on the connection.
            Some(Entry::Accepted(live)) => Some(Started::of(
                live,
                if request.callback.is_some() { Answer::Later } else { Answer::Stream },
            )),
            Some(Entry::Uploading(_)) | None => None,
        })
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

    /// From the queue to the store, and on to whoever wants the result.
    async fn live_through(
        self: Arc<Self>,
        id: CallId,
        live: Arc<Live>,
        mut ticket: Ticket,
        admitted: Admitted,
        taken: StoredCall,
    ) {
        let Admitted { each, run, queue: _, answer: _ } = admitted;
        let noted = self.call_store.take(&id, &taken).await;
        live.noted.cancel();
        let runs = if let Err(error) = noted {
            vec![failed(Reason::Runner, &cannot_write(&error).to_string())]
        } else if wait_for_turn(&live, &mut ticket).await {
            live.phase.send_replace(Phase::Running);
            let context = Context {
                call: id.clone(),
                uploads: self.call_store.uploads(&id),
                outputs: self.call_store.outputs(&id),
                progress: ProgressSender::of(&live),
                supervisor: self.supervisor.clone(),
                cancel: live.cancel.clone(),
            };
            let runs = AssertUnwindSafe(run(context)).catch_unwind().await;
            runs.unwrap_or_else(|_panic| {
                vec![failed(
                    Reason::Runner,
                    "the runner failed; see its log. The call may have happened or not",
                )]
            })
        } else {
            vec![failed(Reason::Cancelled, "the call was cancelled before it began")]
        };
        let result = CallResult { call: id.clone(), tool: taken.tool, each, runs };
        self.keep(&result).await;
        // The place is free when the result is there, so that two calls of one queue never overlap.
        drop(ticket);
        live.phase.send_replace(Phase::Ended);
        self.deliver(id, live);
    }

    async fn keep(&self, result: &CallResult) {
        for _attempt in 0..KEEP_ATTEMPTS {
            match self.call_store.keep(result).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, call.id = %result.call, "a result cannot be written");
                    sleep(KEEP_AGAIN).await;
                }
            }
        }
        tracing::error!(call.id = %result.call, "a result is lost: it could not be written to disk");
    }

    /// Calls back, if the call wants that, until it is accepted or not needed any more.
    fn deliver(self: &Arc<Self>, id: CallId, live: Arc<Live>) {
        let Some(callback) = live.callback.clone() else { return };
        let calls = Arc::clone(self);
        let shutdown = self.tasks.token();
        self.tasks.spawn("runner.callback", OnExit::Log, async move {
            let plugin = calls.work.health().plugin.unwrap_or_default();
            let delivered = async {
                match calls.call_store.result(&id).await {
                    Ok(result) => calls.callbacks.deliver(&callback, plugin, result).await,
                    Err(error) => {
                        tracing::error!(%error, call.id = %id, "a result cannot be read");
                        Delivered::Undeliverable
                    }
                }
            };
            let delivered = tokio::select! {
                delivered = delivered => delivered,
                () = live.acknowledged.cancelled() => return,
                () = shutdown.cancelled() => return,
            };
            match delivered {
                Delivered::Accepted | Delivered::Undeliverable => {}
                // It would stay for good, in the way of calls.
                Delivered::Unwanted => {
                    if let Err(problem) = calls.acknowledge(&id).await {
                        tracing::warn!(%problem, call.id = %id, "a result that nobody wants stays");
                    }
                }
            }
        });
    }

    /// Notes that files come for a call, unless it was taken.
    pub(crate) fn expect_uploads(&self, id: &CallId) -> Result<(), Problem> {
        self.refuse_new()?;
        let mut table = self.table.lock();
        match table.calls.get(id) {
            Some(Entry::Accepted(_)) => Err(Problem::new(
                Kind::Invalid,
                format!("call `{id}` has begun"),
                "send its files before the call",
            )),
            Some(Entry::Uploading(_)) | None => {
                table.calls.insert(id.clone(), Entry::Uploading(Instant::now()));
                Ok(())
            }
        }
    }

    /// The call, or `None` while only files came.
    pub(crate) fn find(&self, id: &CallId) -> Result<Option<Arc<Live>>, Problem> {
        match self.table.lock().calls.get(id) {
            Some(Entry::Accepted(live)) => Ok(Some(Arc::clone(live))),
            Some(Entry::Uploading(_)) => Ok(None),
            None => Err(no_call(id)),
        }
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
        if self.table.lock().acknowledged.contains(id) {
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
        let mut table = self.table.lock();
        table.calls.remove(id);
        if table.acknowledged.len() >= REMEMBERED {
            table.acknowledged.pop_front();
        }
        table.acknowledged.push_back(id.clone());
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
        let stale: Vec<CallId> = {
            let mut table = self.table.lock();
            let age = self.limits.upload_age;
            let is_stale = |entry: &Entry| match entry {
                Entry::Uploading(since) => since.elapsed() >= age,
                Entry::Accepted(_) => false,
            };
            let stale: Vec<CallId> = table
                .calls
                .iter()
                .filter(|(_, entry)| is_stale(entry))
                .map(|(id, _)| id.clone())
                .collect();
            for id in &stale {
                table.calls.remove(id);
            }
            stale
        };
        for id in stale {
            if let Err(error) = self.call_store.forget(&id).await {
                tracing::warn!(%error, call.id = %id, "unused uploads could not be removed");
            }
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let (serial, concurrent) = (self.serial.counts(), self.concurrent.counts());
        let is_kept = |entry: &&Entry| match entry {
            Entry::Accepted(live) => live.phase() == Phase::Ended,
            Entry::Uploading(_) => false,
        };
        Counts {
            running: (serial.0 + concurrent.0) as u32,
            queued: (serial.1 + concurrent.1) as u32,
            kept: self.table.lock().calls.values().filter(is_kept).count() as u32,
        }
    }

    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }
}

/// Whether the call may run; not, when it was cancelled first.
async fn wait_for_turn(live: &Live, ticket: &mut Ticket) -> bool {
    while ticket.position() > 0 {
        tokio::select! {
            () = live.cancel.cancelled() => return false,
            () = ticket.changed() => {
                live.phase.send_replace(Phase::Queued(ticket.position() as u32));
            }
        }
    }
    !live.cancel.is_cancelled()
}

fn failed(reason: Reason, message: &str) -> Run {
    let outcome = Outcome::Failed(Failure { reason, message: message.to_owned() });
    Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 0 }
}

fn busy() -> Problem {
    Problem::new(Kind::Busy, "too many calls wait already", "send the call again a little later")
}

fn no_call(id: &CallId) -> Problem {
    Problem::new(
        Kind::NoCall,
        format!("the runner knows no call `{id}`"),
        "it never came here, or its result was acknowledged",
    )
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
