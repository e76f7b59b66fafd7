//! Starting, supervising and ending tasks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::end::End;
use crate::restart::Backoff;

/// How long an aborted task gets to drop what it holds. Abort takes effect at the next await, so
/// this is only ever reached by a task that blocks its thread.
const ABORT_GRACE: Duration = Duration::from_secs(1);

/// What it means when a task ends before the shutdown has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnExit {
    /// Start it again after a pause that grows from 100 ms to 30 s. For [`Tasks::spawn_loop`]; a
    /// future given to [`Tasks::spawn`] cannot be made anew, so there it means `ShutDown`.
    Restart,
    /// The program cannot do its work without it: log an error and begin the shutdown, whether it
    /// returned or panicked.
    ShutDown,
    /// It may end: returning is normal, a panic is logged.
    Log,
}

/// What was left when the deadline of [`Tasks::drain`] passed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// Names of the tasks that had to be aborted, in the order in which they were started.
    pub stragglers: Vec<String>,
}

/// Starts tasks and ends them. Clones share one set.
///
/// When the set is dropped its tasks go on: only [`Tasks::drain`] ends them.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    token: CancellationToken,
    tracker: TaskTracker,
    next_id: AtomicU64,
    /// Held for single map operations only, never across an await.
    running: Mutex<BTreeMap<u64, Running>>,
}

#[derive(Debug)]
struct Running {
    name: Cow<'static, str>,
    /// Absent for the instant between registration and spawn.
    abort: Option<AbortHandle>,
}

/// What a task does. Without its type, what starts and supervises tasks is compiled once, and not
/// for each.
pub(crate) type Boxed = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Tasks {
    /// An empty set whose shutdown has not begun.
    pub fn new() -> Self {
        Self::default()
    }

    /// Runs `future` as the task `name`.
    ///
    /// The task should end soon after [`Tasks::token`] is cancelled; that end is always normal.
    /// The handle aborts this one task, which counts as its normal end too; it may be dropped.
    pub fn spawn<F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        on_exit: OnExit,
        future: F,
    ) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.start_once(name.into(), on_exit, Box::pin(future))
    }

    /// Runs what `factory` makes as the task `name`, and with [`OnExit::Restart`] makes it anew
    /// whenever it ends or panics before the shutdown.
    ///
    /// With the other values of `on_exit` the first run is the only one, as in [`Tasks::spawn`].
    pub fn spawn_loop<M, F>(
        &self,
        name: impl Into<Cow<'static, str>>,
        on_exit: OnExit,
        mut factory: M,
    ) -> AbortHandle
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        self.start_loop(name.into(), on_exit, Box::new(move || Box::pin(factory())))
    }

    /// Begins the shutdown: cancels the token that every task watches. Idempotent.
    pub fn shutdown(&self) {
        self.shared.token.cancel();
    }

    /// Whether the shutdown has begun.
    pub fn is_shutting_down(&self) -> bool {
        self.shared.token.is_cancelled()
    }

    /// The token that is cancelled when the shutdown begins. Use a child token for anything that
    /// should end earlier.
    pub fn token(&self) -> CancellationToken {
        self.shared.token.clone()
    }

    /// The names of the tasks that run now, in the order in which they were started.
    pub fn names(&self) -> Vec<String> {
        self.shared.running.lock().values().map(|task| task.name.to_string()).collect()
    }

    /// Begins the shutdown if nobody has, waits until every task has ended, aborts those that have
    /// not by the deadline and names them.
    ///
    /// Called from inside a task of the same set it waits for its caller, who becomes a straggler.
    pub async fn drain(&self, deadline: Duration) -> Drained {
        self.drain_or(deadline, std::future::pending::<()>()).await
    }

    /// Like [`Tasks::drain`], and `now` cuts the deadline short: pass the wait for a second signal.
    pub async fn drain_or(&self, deadline: Duration, now: impl Future) -> Drained {
        self.shutdown();
        self.shared.tracker.close();
        tokio::select! {
            biased;
            () = self.shared.tracker.wait() => {}
            () = tokio::time::sleep(deadline) => {}
            _ = now => {}
        }
        let stragglers = self.abort_all();
        if !stragglers.is_empty() {
            tracing::warn!(tasks = ?stragglers, "aborted tasks that did not end by the deadline");
            let ended = tokio::time::timeout(ABORT_GRACE, self.shared.tracker.wait()).await;
            if ended.is_err() {
                tracing::error!(tasks = ?self.names(), "tasks block their thread and cannot be aborted");
            }
        }
        Drained { stragglers }
    }

    fn start_once(&self, name: Cow<'static, str>, on_exit: OnExit, future: Boxed) -> AbortHandle {
        let tasks = self.clone();
        let named = name.clone();
        let supervised = async move {
            let end = End::of(future).await;
            tasks.report(&named, on_exit, &end);
        };
        self.start(name, supervised)
    }

    fn start_loop(
        &self,
        name: Cow<'static, str>,
        on_exit: OnExit,
        mut factory: Box<dyn FnMut() -> Boxed + Send>,
    ) -> AbortHandle {
        let tasks = self.clone();
        let named = name.clone();
        let supervised = async move {
            let mut backoff = Backoff::new();
            loop {
                let started = Instant::now();
                let end = End::of(factory()).await;
                if on_exit != OnExit::Restart {
                    tasks.report(&named, on_exit, &end);
                    return;
                }
                if tasks.is_shutting_down() {
                    end.log_panic(&named);
                    return;
                }
                let pause = backoff.after(started.elapsed());
                end.log_restart(&named, pause);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = tasks.shared.token.cancelled() => return,
                }
            }
        };
        self.start(name, supervised)
    }

    fn start<F>(&self, name: Cow<'static, str>, future: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let id = self.shared.next_id.fetch_add(1, Ordering::Relaxed);
        self.shared.running.lock().insert(id, Running { name, abort: None });
        let entry = Entry { tasks: self.clone(), id };
        let tracked = self.shared.tracker.track_future(async move {
            let _entry = entry;
            future.await;
        });
        #[expect(
            clippy::disallowed_methods,
            reason = "the one place that spawns: the task is named, registered and supervised here"
        )]
        let abort = tokio::spawn(tracked).abort_handle();
        if let Some(task) = self.shared.running.lock().get_mut(&id) {
            task.abort = Some(abort.clone());
        }
        abort
    }

    fn report(&self, name: &str, on_exit: OnExit, end: &End) {
        end.log_panic(name);
        if on_exit == OnExit::Log || self.is_shutting_down() {
            return;
        }
        tracing::error!(
            task.name = name,
            "a task that must not end has ended: beginning the shutdown"
        );
        self.shutdown();
    }

    fn abort_all(&self) -> Vec<String> {
        let running = self.shared.running.lock();
        for task in running.values() {
            if let Some(abort) = &task.abort {
                abort.abort();
            }
        }
        running.values().map(|task| task.name.to_string()).collect()
    }
}

/// Takes the task off the list however it ends, abort included.
struct Entry {
    tasks: Tasks,
    id: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.tasks.shared.running.lock().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn none() -> Drained {
        Drained { stragglers: Vec::new() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_must_not_end_begins_the_shutdown() {
        for panics in [false, true] {
            let tasks = Tasks::new();
            tasks.spawn("worker", OnExit::ShutDown, async move {
                assert!(!panics, "the worker breaks on purpose");
            });
            tasks.token().cancelled().await;
            assert_eq!(tasks.drain(Duration::from_secs(1)).await, none());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_may_end_leaves_the_rest_running() {
        let tasks = Tasks::new();
        tasks.spawn("returns", OnExit::Log, async {});
        tasks.spawn("panics", OnExit::Log, async { panic!("on purpose") });
        while !tasks.names().is_empty() {
            tokio::task::yield_now().await;
        }
        assert!(!tasks.is_shutting_down());
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_is_made_anew_until_the_shutdown() {
        let tasks = Tasks::new();
        let runs = Arc::new(AtomicUsize::new(0));
        let (seen, token) = (runs.clone(), tasks.token());
        tasks.spawn_loop("loop", OnExit::Restart, move || {
            let (run, token) = (seen.fetch_add(1, Ordering::SeqCst), token.clone());
            async move {
                match run {
                    0 => {}
                    1 => panic!("on purpose"),
                    _ => token.cancelled().await,
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(301)).await;
        assert_eq!(runs.load(Ordering::SeqCst), 3);
        assert_eq!(tasks.drain(Duration::from_secs(1)).await, none());
        assert_eq!(runs.load(Ordering::SeqCst), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_loop_in_its_pause_ends_with_the_shutdown() {
        let tasks = Tasks::new();
        tasks.spawn_loop("loop", OnExit::Restart, || async {});
        tokio::time::sleep(Duration::from_secs(50)).await;
        let before = Instant::now();
        assert_eq!(tasks.drain(Duration::from_mins(1)).await, none());
        assert_eq!(before.elapsed(), Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn drain_names_and_aborts_those_who_stay() {
        let tasks = Tasks::new();
        let token = tasks.token();
        let held = Arc::new(());
        let inside = held.clone();
        tasks.spawn("polite", OnExit::ShutDown, async move { token.cancelled().await });
        tasks.spawn(String::from("deaf"), OnExit::ShutDown, async move {
            pending::<()>().await;
            drop(inside);
        });
        let drained = tasks.drain(Duration::from_secs(5)).await;
        assert_eq!(drained.stragglers, ["deaf"]);
        assert_eq!(Arc::strong_count(&held), 1, "the aborted task dropped what it held");
        assert_eq!(tasks.names(), Vec::<String>::new());
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_signal_cuts_the_deadline_short() {
        let tasks = Tasks::new();
        tasks.spawn("deaf", OnExit::Log, pending());
        let before = Instant::now();
        let drained = tasks
            .drain_or(Duration::from_mins(1), tokio::time::sleep(Duration::from_secs(1)))
            .await;
        assert_eq!(drained.stragglers, ["deaf"]);
        assert_eq!(before.elapsed(), Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn an_aborted_task_leaves_the_list_without_a_shutdown() {
        let tasks = Tasks::new();
        let abort = tasks.spawn("one", OnExit::ShutDown, pending());
        tokio::task::yield_now().await;
        abort.abort();
        assert_eq!(tasks.drain(Duration::from_secs(1)).await, none());
    }
}
