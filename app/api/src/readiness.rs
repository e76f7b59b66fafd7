//! Whether this process takes work: set by the server, read by `/readyz`.

use famulus_core::Clock;
use jiff::{Timestamp, ToSpan};
use parking_lot::Mutex;
use std::sync::Arc;

/// An answer of the database counts for this long.
const FRESH_SECONDS: i64 = 10;

/// A handle on one state. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Readiness {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    started: bool,
    draining: bool,
    answered_at: Option<Timestamp>,
}

impl Readiness {
    pub fn new() -> Self {
        Self::default()
    }

    /// The start is finished.
    pub fn started(&self) {
        self.change(|state| state.started = true);
    }

    /// The process is about to end and takes nothing new.
    pub fn draining(&self) {
        self.change(|state| state.draining = true);
    }

    /// The database answered at this instant.
    pub fn answered(&self, at: Timestamp) {
        self.change(|state| state.answered_at = Some(at));
    }

    /// Whether the database's last answer is too old to count.
    pub(crate) fn is_stale(&self, clock: &dyn Clock) -> bool {
        self.state.lock().answered_at.is_none_or(|at| clock.now() > at + FRESH_SECONDS.seconds())
    }

    /// Why the process takes no work; empty when it does.
    pub(crate) fn reasons(&self, clock: &dyn Clock) -> Vec<&'static str> {
        let mut reasons = Vec::new();
        {
            let state = self.state.lock();
            if !state.started {
                reasons.push("the start is not finished");
            }
            if state.draining {
                reasons.push("the process is ending");
            }
        }
        if self.is_stale(clock) {
            reasons.push("the database has not answered for a while");
        }
        reasons
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.lock());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixed(Timestamp);

    impl Clock for Fixed {
        fn now(&self) -> Timestamp {
            self.0
        }
    }

    #[test]
    fn ready_means_started_answered_lately_and_not_ending() {
        let at = Timestamp::UNIX_EPOCH;
        let clock = Fixed(at);
        let ready = Readiness::new();
        assert_eq!(ready.reasons(&clock).len(), 2);
        ready.started();
        ready.answered(at);
        assert_eq!(ready.reasons(&clock), Vec::<&str>::new());
        assert_eq!(ready.reasons(&Fixed(at + 11.seconds())).len(), 1);
        ready.draining();
        assert_eq!(ready.reasons(&clock), ["the process is ending"]);
    }
}
