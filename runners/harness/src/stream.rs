//! Progress as lines.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use famulus_protocol::{CallId, PROGRESS_TYPE, Progress};
use futures::stream;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::calls::Calls;
use crate::live::{Live, Phase};

/// After this much silence a line says that the connection lives.
const SILENCE: Duration = Duration::from_secs(10);

/// The lines of a call, the last its result. `lines` was subscribed when the call was found.
pub(crate) fn progress(
    calls: Arc<Calls>,
    id: CallId,
    live: &Live,
    lines: broadcast::Receiver<Progress>,
) -> Response {
    let viewer = Viewer { calls, id, lines, phase: live.phase.subscribe(), stage: Stage::Greeting };
    let lines = stream::unfold(viewer, |mut viewer| async move {
        let line = viewer.next().await?;
        // A struct of texts, numbers and lists always serialises.
        let mut bytes = serde_json::to_vec(&line).unwrap_or_default();
        bytes.push(b'\n');
        Some((Ok::<_, Infallible>(Bytes::from(bytes)), viewer))
    });
    let mut response = Response::new(Body::from_stream(lines));
    let kind = HeaderValue::from_static(PROGRESS_TYPE);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

struct Viewer {
    calls: Arc<Calls>,
    id: CallId,
    lines: broadcast::Receiver<Progress>,
    phase: watch::Receiver<Phase>,
    stage: Stage,
}

enum Stage {
    /// It is told first where the call stands.
    Greeting,
    Watching,
    /// Lines that were said before the end.
    Emptying,
    Over,
}

impl Viewer {
    /// The next line. Cancel safe: every wait is.
    async fn next(&mut self) -> Option<Progress> {
        loop {
            match self.stage {
                Stage::Greeting => {
                    self.stage = Stage::Watching;
                    if let Some(line) = self.standing() {
                        return Some(line);
                    }
                }
                Stage::Watching => {
                    if let Some(line) = self.watch().await {
                        return Some(line);
                    }
                }
                Stage::Emptying => match self.lines.try_recv() {
                    Ok(line) => return Some(line),
                    Err(TryRecvError::Lagged(lines)) => return Some(Progress::Skipped { lines }),
                    Err(TryRecvError::Empty | TryRecvError::Closed) => {
                        self.stage = Stage::Over;
                        // Without a result the stream is cut, and the viewer asks again.
                        return self.calls.result(&self.id).await.ok().map(Progress::Result);
                    }
                },
                Stage::Over => return None,
            }
        }
    }

    async fn watch(&mut self) -> Option<Progress> {
        tokio::select! {
            biased;
            line = self.lines.recv() => match line {
                Ok(line) => Some(line),
                Err(RecvError::Lagged(lines)) => Some(Progress::Skipped { lines }),
                Err(RecvError::Closed) => {
                    self.stage = Stage::Emptying;
                    None
                }
            },
            changed = self.phase.changed() => {
                if changed.is_err() {
                    self.stage = Stage::Emptying;
                    return None;
                }
                self.standing()
            }
            () = sleep(SILENCE) => Some(Progress::Alive),
        }
    }

    /// What the phase is worth saying.
    fn standing(&mut self) -> Option<Progress> {
        let phase = *self.phase.borrow_and_update();
        match phase {
            Phase::Queued(0) | Phase::Running => None,
            Phase::Queued(position) => Some(Progress::Queued { position }),
            Phase::Ended => {
                self.stage = Stage::Emptying;
                None
            }
        }
    }
}
