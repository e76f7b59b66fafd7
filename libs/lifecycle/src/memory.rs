//! Memory that a burst of work left behind goes back to the system once it is quiet.
//!
//! glibc keeps freed pages in the arenas of the threads that freed them, and gives back only what
//! lies at an arena's end. Being asked (`malloc_trim`) it gives back every page that is free.

use std::time::Duration;
use tokio::{runtime::RuntimeMetrics, time::sleep};
use tokio_util::sync::CancellationToken;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(5);
/// Work of all threads within one look at most, for it to be quiet: while an arena is searched,
/// whoever allocates from it waits.
const QUIET: Duration = Duration::from_millis(25);
/// Work since memory was last given back at least, for it to be worth asking again.
const WORTH: Duration = Duration::from_millis(50);

/// Gives memory back in every quiet time that follows work, until the shutdown.
pub async fn give_back(shutdown: CancellationToken) {
    let metrics = tokio::runtime::Handle::current().metrics();
    let mut ledger = Ledger::default();
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = sleep(LOOK) => {}
        }
        if ledger.is_due(worked(&metrics)) {
            trim();
        }
    }
}

/// What all threads of the runtime have worked so far.
fn worked(metrics: &RuntimeMetrics) -> Duration {
    (0..metrics.num_workers()).map(|worker| metrics.worker_total_busy_duration(worker)).sum()
}

/// How much had been worked at the last look, and when memory was last given back.
#[derive(Default)]
struct Ledger {
    at_last_look: Duration,
    when_given: Duration,
}

impl Ledger {
    fn is_due(&mut self, worked: Duration) -> bool {
        let quiet = worked.saturating_sub(self.at_last_look) <= QUIET;
        self.at_last_look = worked;
        let due = quiet && worked.saturating_sub(self.when_given) >= WORTH;
        if due {
            self.when_given = worked;
        }
        due
    }
}

#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "malloc_trim has no safe wrapper")]
fn trim() {
    // SAFETY: it takes no pointer, may be called at any time by any thread, and touches free memory
    // only.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
fn trim() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_after_work_and_not_amid_it() {
        let mut ledger = Ledger::default();
        let at = Duration::from_millis;
        assert!(!ledger.is_due(at(4_000)), "amid work");
        assert!(!ledger.is_due(at(7_000)), "amid work");
        assert!(ledger.is_due(at(7_010)), "quiet after work");
        assert!(!ledger.is_due(at(7_020)), "quiet, but nothing was done since");
        assert!(!ledger.is_due(at(7_045)), "looks alone are not worth it");
        assert!(ledger.is_due(at(7_065)), "little by little it was");
        assert!(!ledger.is_due(at(9_000)), "amid work again");
        assert!(ledger.is_due(at(9_000)), "and quiet again");
    }

    #[cfg(target_env = "gnu")]
    #[test]
    fn free_pages_below_one_that_is_in_use_go_back() {
        const PIECE: usize = 4_096;
        const PIECES: usize = 16_384;
        let mut pieces: Vec<Vec<u8>> = (0..PIECES).map(|_| vec![1; PIECE]).collect();
        let last = pieces.pop();
        drop(pieces);
        let before = resident();
        trim();
        let given = before - resident();
        assert!(given > 32 << 20, "{given} of {} bytes", PIECE * PIECES);
        drop(last);
    }

    #[cfg(target_env = "gnu")]
    fn resident() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        let kib: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        kib * 1_024
    }
}
