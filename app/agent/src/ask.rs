//! Asking the model: streaming, silence, and trying again.

use crate::stream::{BATCH, Stream};
use famulus_core::{
    event::{DeltaKind, Event, Status},
    message::{Part, PartBody, Provenance, Sentinel, visible_text},
    model::{Disposition, Model, ModelError, ModelEvent, ModelReply, ModelRequest},
};
use futures::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

/// How long a model may say nothing.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Before its first sign of life: a local model may have to be loaded.
    pub first: Duration,
    /// Between two signs of life, pings included.
    pub between: Duration,
    /// Tries after the first, with growing pauses.
    pub retries: u32,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first: Duration::from_mins(10), between: Duration::from_mins(1), retries: 3 }
    }
}

/// The longest pause between two tries, whatever the provider asks for.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// What came of one try.
pub(crate) enum AskOutcome {
    Replied(Box<ModelReply>),
    /// It broke off; what was shown until then is to be kept as interrupted.
    Broke {
        error: ModelError,
        shown: Shown,
    },
    /// Somebody ended the turn.
    Stopped {
        shown: Shown,
    },
    /// The lease is gone, or this process must give its work up.
    Abandoned,
}

/// What viewers saw of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) reasoning: String,
}

impl Shown {
    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.reasoning.is_empty()
    }

    /// As parts that end with a mark.
    pub(crate) fn parts(self, mark: Sentinel) -> Vec<Part> {
        let mut parts = Vec::new();
        if !self.reasoning.is_empty() {
            let body = PartBody::Reasoning { text: self.reasoning };
            parts.push(Part::new(body, Provenance::Assistant));
        }
        if !self.text.is_empty() {
            parts.push(Part::assistant_text(self.text));
        }
        parts.push(Part::sentinel(mark));
        parts
    }
}

/// Asks once, and shows what arrives.
pub(crate) async fn ask(
    model: &dyn Model,
    request: ModelRequest,
    stream: &mut Stream,
    timeouts: Timeouts,
    stop: &CancellationToken,
    abandon: &CancellationToken,
) -> AskOutcome {
    famulus_core::crash::before("model.ask");
    let mut events = model.ask(request);
    let mut shown = Shown::default();
    let mut alive = false;
    let mut store_at: Option<Instant> = None;
    loop {
        let limit = if alive { timeouts.between } else { timeouts.first };
        let due = store_at;
        let event = tokio::select! {
            biased;
            () = abandon.cancelled() => return AskOutcome::Abandoned,
            () = stop.cancelled() => return AskOutcome::Stopped { shown },
            () = async { if let Some(at) = due { sleep_until(at).await } }, if due.is_some() => {
                store_at = None;
                if let Err(error) = stream.store().await {
                    tracing::warn!(error = %error, "storing deltas failed; they are kept");
                    store_at = Some(Instant::now() + BATCH * 4);
                }
                continue;
            }
            event = timeout(limit, events.next()) => event,
        };
        let event = match event {
            Ok(Some(Ok(event))) => event,
            Ok(Some(Err(error))) => return AskOutcome::Broke { error, shown },
            Ok(None) => return AskOutcome::Broke { error: ModelError::Cut, shown },
            Err(_silent) => {
                let error = ModelError::Silent { seconds: limit.as_secs() };
                return AskOutcome::Broke { error, shown };
            }
        };
        alive = true;
        match event {
            ModelEvent::Ping => {}
            ModelEvent::Text(text) => {
                shown.text.push_str(&text);
                stream.delta(DeltaKind::Text, text);
            }
            ModelEvent::Reasoning(text) => {
                shown.reasoning.push_str(&text);
                stream.delta(DeltaKind::Reasoning, text);
            }
            ModelEvent::Calling { name } => {
                tracing::debug!(tool = %name, "the model writes a call");
            }
            ModelEvent::Done(reply) => {
                famulus_core::crash::after("model.ask");
                show_rest(&reply, &shown, stream);
                return AskOutcome::Replied(reply);
            }
        }
        if stream.is_dirty() && store_at.is_none() {
            store_at = Some(Instant::now() + BATCH);
        }
    }
}

/// Whatever of the reply was not streamed is shown now, so that viewers hold what is recorded.
fn show_rest(reply: &ModelReply, shown: &Shown, stream: &mut Stream) {
    let whole = visible_text(&reply.parts);
    if let Some(rest) = whole.strip_prefix(shown.text.as_str()) {
        stream.delta(DeltaKind::Text, rest.to_owned());
    } else {
        tracing::error!(
            model = %reply.model,
            "a reply differs from what was streamed of it; viewers see the streamed text"
        );
    }
}

/// How long to wait before the next try, or `None` when there is none.
pub(crate) fn pause(error: &ModelError, tried: u32, retries: u32) -> Option<Duration> {
    if tried >= retries {
        return None;
    }
    match error.disposition() {
        Disposition::TellUser => None,
        Disposition::Retry { after: Some(after) } => Some(after.min(LONGEST_PAUSE)),
        Disposition::Retry { after: None } => Some(Duration::from_secs(1 << tried.min(3))),
    }
}

/// Says that a try failed and another follows.
pub(crate) fn show_error(stream: &mut Stream, turn: famulus_core::ids::TurnId, error: &ModelError) {
    stream.emit(Event::Status {
        turn,
        status: Status::Error { message: error.to_string(), retrying: true },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_end() {
        let cut = ModelError::Cut;
        let pauses: Vec<_> = (0..5).map(|tried| pause(&cut, tried, 4)).collect();
        let seconds = |s| Some(Duration::from_secs(s));
        assert_eq!(pauses, [seconds(1), seconds(2), seconds(4), seconds(8), None]);
        let busy = |s| ModelError::Busy { status: 429, after: Some(Duration::from_secs(s)) };
        assert_eq!(pause(&busy(5), 0, 3), seconds(5));
        assert_eq!(pause(&busy(5000), 0, 3), seconds(60));
        assert_eq!(pause(&ModelError::Unauthorized { status: 401 }, 0, 3), None);
    }
}
