//! An open loop: what is due is begun when it is due, whether or not what came before has ended.
//!
//! Latencies are counted from the moment that something was due, so that a pause of the system
//! counts for everything that fell into it, and not only for what was under way.

use anyhow::Result;
use std::time::{Duration, Instant};
use tokio::{sync::mpsc, task::JoinSet};

/// The runtime's own timer has steps of a millisecond; the last part of a wait is spun.
const SPIN: Duration = Duration::from_micros(80);

/// Begins `rate` times a second, for `seconds`; returns what came of each, in no order.
pub(crate) async fn open_loop<F, R>(
    rate: u64,
    seconds: u64,
    begin: impl Fn(u64, Instant) -> F,
) -> Result<Vec<R>>
where
    F: Future<Output = R> + Send + 'static,
    R: Send + 'static,
{
    let (due_now, mut due) = mpsc::channel(1024);
    let clock = std::thread::Builder::new().name("open loop".to_owned()).spawn(move || {
        let start = Instant::now() + Duration::from_millis(5);
        for number in 0..rate * seconds {
            let at = start + Duration::from_secs(1).mul_f64(number as f64 / rate as f64);
            wait_until(at);
            if due_now.blocking_send((number, at)).is_err() {
                return;
            }
        }
    })?;
    let mut running = JoinSet::new();
    while let Some((number, at)) = due.recv().await {
        running.spawn(begin(number, at));
    }
    let ended = running.join_all().await;
    // It sent its last and ended, or the loop above would go on.
    let _joined = clock.join();
    Ok(ended)
}

fn wait_until(at: Instant) {
    if let Some(long) = at.checked_duration_since(Instant::now() + SPIN) {
        std::thread::sleep(long);
    }
    while Instant::now() < at {
        std::hint::spin_loop();
    }
}
