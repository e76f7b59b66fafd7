//! Asking the model: streaming, silence, and trying again.

use crate::{
    patience::RETRIES,
    stream::{BATCH, Stream},
};
use famulus_core::{
    event::{DeltaKind, Event, Status},
    message::{Part, PartBody, Provenance, Sentinel, visible_text},
    model::{Model, ModelError, ModelEvent, ModelReply, ModelRequest},
};
use futures::StreamExt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tokio_util::sync::CancellationToken;

/// How long a model may say nothing, and how it is asked again.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Before its first sign of life: a local model may have to be loaded.
    pub first: Duration,
    /// Between two signs of life, pings included.
    pub between: Duration,
    /// Tries after the first, with growing pauses.
    pub retries: u32,
    /// What one turn may lose to a provider that fails: tries without a word, and pauses.
    pub outage: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first: Duration::from_mins(10),
            between: Duration::from_mins(1),
            retries: RETRIES,
            outage: Duration::from_mins(15),
        }
    }
}

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
    let mut limit = timeouts.first;
    let mut silent_at = Instant::now() + limit;
    let mut store_at: Option<Instant> = None;
    loop {
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
            event = timeout_at(silent_at, events.next()) => event,
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
        limit = timeouts.between;
        silent_at = Instant::now() + limit;
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

/// Says that a try failed and another follows.
pub(crate) fn show_error(stream: &mut Stream, turn: famulus_core::ids::TurnId, error: &ModelError) {
    stream.emit(Event::Status {
        turn,
        status: Status::Error { message: error.to_string(), retrying: true },
    });
}
