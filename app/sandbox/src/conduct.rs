//! How a runner behaved towards this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::circuit::Circuit;
use crate::clients::SocketClient;
use crate::home::KnownRunner;

/// Kept with a runner for as long as that is known.
#[derive(Debug, Default)]
pub struct Conduct {
    /// Held for single operations, never across an await.
    circuit: Mutex<Circuit>,
    /// It said that it is about to end.
    draining: AtomicBool,
    calls: AtomicU32,
    socket: SocketClient,
}

impl Conduct {
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drains(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Calls of this process that are there now.
    pub(crate) fn calls(&self) -> u32 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(crate) fn socket_client(&self) -> &SocketClient {
        &self.socket
    }

    pub(crate) fn admits(&self) -> bool {
        self.circuit.lock().admits(Instant::now())
    }

    pub(crate) fn answered(&self) {
        self.circuit.lock().answered();
    }

    pub(crate) fn failed(&self) {
        self.circuit.lock().failed(Instant::now());
    }
}

/// Counts a call until what is given is dropped.
pub(crate) fn begin_call<R: KnownRunner>(runner: &Arc<R>) -> InFlight<R> {
    runner.conduct().calls.fetch_add(1, Ordering::Relaxed);
    InFlight(Arc::clone(runner))
}

/// One call at a runner.
pub(crate) struct InFlight<R: KnownRunner>(Arc<R>);

impl<R: KnownRunner> Drop for InFlight<R> {
    fn drop(&mut self) {
        self.0.conduct().calls.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::home::{Ended, RunnerAddress};

    #[derive(Default)]
    struct Somebody {
        name: String,
        conduct: Conduct,
    }

    impl KnownRunner for Somebody {
        fn name(&self) -> &str {
            &self.name
        }

        fn conduct(&self) -> &Conduct {
            &self.conduct
        }

        fn created(&self) -> Timestamp {
            Timestamp::MIN
        }

        fn address(&self) -> Option<RunnerAddress<'_>> {
            Some(RunnerAddress::Tcp(([127, 0, 0, 1], 8090).into()))
        }

        fn is_ready(&self) -> bool {
            true
        }

        fn is_ending(&self) -> bool {
            false
        }

        fn memory(&self) -> Option<&str> {
            None
        }

        fn ended_before(&self) -> Option<Ended> {
            None
        }
    }

    #[test]
    fn calls_are_counted_while_they_last() {
        let runner = Arc::new(Somebody::default());
        let (one, two) = (begin_call(&runner), begin_call(&runner));
        assert_eq!(runner.conduct().calls(), 2);
        drop(one);
        assert_eq!(runner.conduct().calls(), 1);
        drop(two);
        assert_eq!(runner.conduct().calls(), 0);
    }

    #[test]
    fn one_that_drains_takes_no_calls() {
        let runner = Somebody::default();
        assert!(runner.takes_calls());
        runner.conduct().drains();
        assert!(!runner.takes_calls() && !runner.is_starting());
    }
}
