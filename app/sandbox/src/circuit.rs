//! Leaves a runner alone that does not answer.
//!
//! ```text
//! closed ── failures in a row ──► open ── a pause that doubles ──► half open: one tries
//!    ▲                              ▲                                  │
//!    └───────── it answered ────────┼──────────────────────────────────┤
//!                                   └───────── it did not ─────────────┘
//! ```

use std::time::Duration;

use tokio::time::Instant;

/// Failures in a row that open it. One may be a restart, and a second the same restart.
const FAILURES: u32 = 3;

/// The first pause, and the longest: a runner that comes back is noticed soon.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(crate) struct Circuit {
    failures: u32,
    /// When it is tried again; nothing while it is closed.
    retry: Option<Instant>,
}

impl Circuit {
    /// Whether a call may pass now. One that passes an open circuit is the one that tries.
    pub(crate) fn admits(&mut self, now: Instant) -> bool {
        match self.retry {
            None => true,
            Some(retry) if now >= retry => {
                // Until it says how it went, nobody else tries.
                self.retry = Some(now + self.pause());
                true
            }
            Some(_) => false,
        }
    }

    pub(crate) fn answered(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn failed(&mut self, now: Instant) {
        self.failures = self.failures.saturating_add(1);
        if self.failures >= FAILURES {
            self.retry = Some(now + self.pause());
        }
    }

    fn pause(&self) -> Duration {
        let doublings = self.failures.saturating_sub(FAILURES).min(8);
        (FIRST * 2_u32.pow(doublings)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_opens_after_failures_in_a_row_and_lets_one_try_at_a_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut circuit = Circuit::default();
        circuit.failed(at(0));
        circuit.failed(at(1));
        circuit.answered();
        for _ in 0..FAILURES {
            assert!(circuit.admits(at(2)));
            circuit.failed(at(2));
        }
        assert!(!circuit.admits(at(3)));
        assert!(circuit.admits(at(502)), "one tries");
        assert!(!circuit.admits(at(503)), "and only one");
        circuit.failed(at(510));
        assert!(!circuit.admits(at(1509)), "the pause doubled");
        assert!(circuit.admits(at(1510)));
        circuit.answered();
        assert!(circuit.admits(at(1511)) && circuit.admits(at(1511)));
    }

    #[test]
    fn the_pause_has_an_end() {
        let start = Instant::now();
        let mut circuit = Circuit::default();
        for _ in 0..100 {
            circuit.failed(start);
        }
        assert!(!circuit.admits(start + LONGEST - Duration::from_millis(1)));
        assert!(circuit.admits(start + LONGEST));
    }
}
