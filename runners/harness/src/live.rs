//! A call as those who watch it see it.

use famulus_protocol::{Callback, Progress};
use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;

/// Lines kept for a slow viewer; beyond, it is told how many it missed.
const LINES: usize = 128;

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Queued(u32),
    Running,
    /// Its result is stored.
    Ended,
}

/// One call that was taken, from then until its result is acknowledged.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) phase: watch::Sender<Phase>,
    pub(crate) lines: broadcast::Sender<Progress>,
    /// Cancelled when a runner after this one would know of the call, or nothing of it will run.
    pub(crate) noted: CancellationToken,
    /// Cancelled by the app.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when the result was acknowledged: no callback is needed any more.
    pub(crate) acknowledged: CancellationToken,
    pub(crate) callback: Option<Callback>,
}

impl Live {
    pub(crate) fn new(phase: Phase, callback: Option<Callback>) -> Self {
        Self {
            phase: watch::Sender::new(phase),
            lines: broadcast::Sender::new(LINES),
            noted: CancellationToken::new(),
            cancel: CancellationToken::new(),
            acknowledged: CancellationToken::new(),
            callback,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }
}

/// Tells viewers what happens during a call. Nobody may be listening.
#[derive(Clone, Debug)]
pub struct ProgressSender {
    lines: broadcast::Sender<Progress>,
}

impl ProgressSender {
    pub(crate) fn of(live: &Live) -> Self {
        Self { lines: live.lines.clone() }
    }

    /// Run `run` of `runs` begins.
    pub fn started(&self, run: u32, runs: u32) {
        self.tell(Progress::Started { run, runs });
    }

    /// The tool of this run wrote to standard error.
    pub fn said(&self, run: u32, text: String) {
        self.tell(Progress::Said { run, text });
    }

    fn tell(&self, line: Progress) {
        // Without a listener the line is not needed.
        let _unheard = self.lines.send(line);
    }
}
