//! How much a plugin keeps: its tree and its caches, in bytes and in files.
//!
//! A full disk is everybody's; this line lies below it, at nine tenths of a small one. It is measured
//! when a call has ended, and every few seconds while one runs: a call that is found beyond it is ended,
//! and the next is refused. So is an init script that a build runs. Who writes fast enough may fill a
//! small disk between two looks.

mod disk;
mod unlinked;
mod used;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use self::disk::Disk;
use self::used::Used;
use crate::readiness::Readiness;
use crate::settings::{Budget, Sandbox};

/// Between two looks while a call runs.
const LOOK: Duration = Duration::from_secs(2);

/// Knows the calls that run, and ends them when the budget is spent.
#[derive(Debug)]
pub(crate) struct BudgetMeter {
    budget: Budget,
    places: Vec<PathBuf>,
    running: AtomicUsize,
    /// A call began or ended.
    changed: Notify,
    /// Cancelled when the budget is spent, and then made anew.
    spent: Mutex<CancellationToken>,
}

/// A call that runs.
pub(crate) struct MeteredCall {
    meter: Arc<BudgetMeter>,
}

impl BudgetMeter {
    pub(crate) fn new(sandbox: &Sandbox) -> Self {
        let places = vec![sandbox.plugin.clone(), sandbox.environment.cache.clone()];
        let (budget, running) = (sandbox.budget, AtomicUsize::new(0));
        Self { budget, places, running, changed: Notify::new(), spent: Mutex::default() }
    }

    pub(crate) fn begin(self: &Arc<Self>) -> MeteredCall {
        self.running.fetch_add(1, Ordering::Relaxed);
        self.changed.notify_one();
        MeteredCall { meter: Arc::clone(self) }
    }

    /// Cancelled when what is kept is too much.
    pub(crate) fn spent(&self) -> CancellationToken {
        self.spent.lock().clone()
    }

    fn end_calls(&self) {
        let mut spent = self.spent.lock();
        std::mem::take(&mut *spent).cancel();
    }

    fn is_limited(&self) -> bool {
        self.budget != Budget { bytes: u64::MAX, files: u64::MAX }
    }

    /// What is too much, in words.
    fn over(&self) -> Option<String> {
        let disks = self.places.iter().filter_map(|place| Disk::of(place, self.budget).ok());
        let disks: Vec<Disk> = disks.collect();
        let limit = disks.iter().map(Disk::share).fold(self.budget, least);
        let mut used = Used::default();
        for place in &self.places {
            if let Err(why) = used.add(place, limit) {
                return Some(why.to_string());
            }
        }
        unlinked::add(&mut used);
        let over = used.over(limit).or_else(|| disks.iter().find_map(Disk::over));
        let (what, most) = over?;
        Some(format!("the plugin's own files and caches are more than {most} {what}"))
    }
}

fn least(one: Budget, other: Budget) -> Budget {
    Budget { bytes: one.bytes.min(other.bytes), files: one.files.min(other.files) }
}

impl Drop for MeteredCall {
    fn drop(&mut self) {
        self.meter.running.fetch_sub(1, Ordering::Relaxed);
        self.meter.changed.notify_one();
    }
}

/// Measures for as long as the runner serves.
pub(crate) async fn keep(
    meter: &Arc<BudgetMeter>,
    readiness: &Readiness,
    shutdown: CancellationToken,
) {
    if !meter.is_limited() {
        shutdown.cancelled().await;
        return;
    }
    loop {
        let measured = Arc::clone(meter);
        // A panic in it leaves what was known.
        if let Ok(over) = spawn_blocking(move || measured.over()).await {
            if over.is_some() {
                meter.end_calls();
            }
            readiness.change(|state| state.over = over);
        }
        let pause = async {
            if meter.running.load(Ordering::Relaxed) == 0 {
                meter.changed.notified().await;
            } else {
                // Its end is looked at at once.
                let _ended = tokio::time::timeout(LOOK, meter.changed.notified()).await;
            }
        };
        tokio::select! {
            () = pause => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Runs a program of a build, and ends it by the token when it keeps too much. What that was comes
/// beside what the program gave; it is looked at once more when the program has ended by itself.
pub(crate) async fn metered<T>(
    sandbox: &Sandbox,
    run: impl AsyncFnOnce(CancellationToken) -> T,
) -> (T, Option<String>) {
    let meter = Arc::new(BudgetMeter::new(sandbox));
    let wanted = CancellationToken::new();
    let run = run(wanted.clone());
    tokio::pin!(run);
    if !meter.is_limited() {
        return (run.await, None);
    }
    let mut over = None;
    loop {
        tokio::select! {
            output = &mut run => {
                let over = if over.is_some() { over } else { measure(&meter).await };
                return (output, over);
            }
            () = tokio::time::sleep(LOOK), if over.is_none() => {
                over = measure(&meter).await;
                if over.is_some() {
                    wanted.cancel();
                }
            }
        }
    }
}

/// What is too much, found beside everything else.
async fn measure(meter: &Arc<BudgetMeter>) -> Option<String> {
    let measured = Arc::clone(meter);
    // A panic in it finds nothing; the runner looks again.
    spawn_blocking(move || measured.over()).await.ok().flatten()
}
