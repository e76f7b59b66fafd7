//! How long the parts of a call take.

use std::time::Duration;

use tokio::time::Instant;

/// A part of a call, named by what ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallStage {
    /// There is a runner.
    Found,
    /// It has the files and took the call.
    Dialled,
    /// The call's turn has come: its first run began.
    Started,
    /// The result is there, with its files.
    Ended,
}

impl CallStage {
    fn name(self) -> &'static str {
        match self {
            Self::Found => "found",
            Self::Dialled => "dialled",
            Self::Started => "started",
            Self::Ended => "ended",
        }
    }
}

/// A watch that is read at the end of each part.
#[derive(Debug)]
pub(crate) struct StageTimer {
    last: Instant,
    started: bool,
}

impl StageTimer {
    pub(crate) fn begin() -> Self {
        Self { last: Instant::now(), started: false }
    }

    /// The part has ended. A call that is begun again after a failure goes through parts again, and
    /// starts once.
    pub(crate) fn end(&mut self, part: CallStage) {
        if part == CallStage::Started && std::mem::replace(&mut self.started, true) {
            return;
        }
        let now = Instant::now();
        record(part, now - self.last);
        self.last = now;
    }
}

fn record(part: CallStage, took: Duration) {
    let stage = part.name();
    let duration_ms = took.as_secs_f64() * 1000.0;
    tracing::debug!(stage, duration_ms, "a part of a sandbox call has ended");
    metrics::histogram!("famulus_sandbox_seconds", "stage" => stage).record(took.as_secs_f64());
}
