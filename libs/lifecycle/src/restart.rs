//! How long a task that keeps dying waits before it lives again.

use std::time::Duration;

/// Long enough that a loop which dies at once does not burn a core.
const FIRST: Duration = Duration::from_millis(100);

/// Short enough that a database which comes back is noticed within half a minute.
const LONGEST: Duration = Duration::from_secs(30);

/// A run of this length counts as healthy and forgives what came before.
const HEALTHY_RUN: Duration = Duration::from_mins(1);

#[derive(Debug)]
pub(crate) struct Backoff {
    next: Duration,
}

impl Backoff {
    pub(crate) fn new() -> Self {
        Self { next: FIRST }
    }

    /// The pause after a run of `ran`: doubles from 100 ms to 30 s, and starts anew after a
    /// healthy run.
    pub(crate) fn after(&mut self, ran: Duration) -> Duration {
        if ran >= HEALTHY_RUN {
            self.next = FIRST;
        }
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_longest_and_forgives_after_a_healthy_run() {
        let mut backoff = Backoff::new();
        let pauses: Vec<u64> =
            (0..10).map(|_| backoff.after(Duration::ZERO).as_millis() as u64).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 25_600, 30_000]);
        assert_eq!(backoff.after(HEALTHY_RUN), FIRST);
    }
}
