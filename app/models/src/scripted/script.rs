//! What the server sends, step by step.

use axum::body::{Body, Bytes};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::Response;
use futures::stream;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long what was sent has to leave before the connection is broken: the transport may drop
/// what it still holds.
const BEFORE_RESET: Duration = Duration::from_millis(20);

/// A whole answer.
#[derive(Clone, Debug)]
pub struct Script {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub enum Step {
    Send(Bytes),
    Pause(Duration),
    /// Goes on once the token is cancelled.
    WaitFor(CancellationToken),
    /// Sends this until the client hangs up.
    SendForEver(Bytes),
    /// Sends this at every interval, for ever.
    SendEvery(Duration, Bytes),
    /// Sends nothing more and holds the line.
    Hang,
    /// Breaks the connection in the middle of the body.
    Reset,
}

impl Script {
    /// A stream of these events.
    pub fn events(steps: Vec<Step>) -> Self {
        let headers = vec![("content-type", "text/event-stream".to_owned())];
        Self { status: 200, headers, steps }
    }

    /// A JSON body under a status.
    pub fn json(status: u16, body: &serde_json::Value) -> Self {
        let headers = vec![("content-type", "application/json".to_owned())];
        Self { status, headers, steps: vec![Step::Send(body.to_string().into())] }
    }

    #[must_use]
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(other, _)| *other != name);
        self.headers.push((name, value.into()));
        self
    }

    pub(super) fn into_response(self, ended: CancellationToken, watch: HangUp) -> Response {
        let play = Play { steps: self.steps.into(), ended, watch: Some(watch) };
        let body = stream::unfold(play, |mut play| async move {
            let item = play.next().await?;
            Some((item, play))
        });
        let mut response = Response::new(Body::from_stream(body));
        *response.status_mut() =
            StatusCode::from_u16(self.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        for (name, value) in self.headers {
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(HeaderName::from_static(name), value);
            }
        }
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

struct Play {
    steps: VecDeque<Step>,
    ended: CancellationToken,
    watch: Option<HangUp>,
}

/// Tells that an answer was dropped before its end: the client has left.
pub(super) struct HangUp(Option<Box<dyn FnOnce() + Send>>);

impl HangUp {
    pub(super) fn new(hung_up: impl FnOnce() + Send + 'static) -> Self {
        Self(Some(Box::new(hung_up)))
    }

    pub(super) fn came_to_its_end(mut self) {
        self.0 = None;
    }
}

impl Drop for HangUp {
    fn drop(&mut self) {
        if let Some(hung_up) = self.0.take() {
            hung_up();
        }
    }
}

impl Play {
    async fn next(&mut self) -> Option<Result<Bytes, io::Error>> {
        loop {
            match self.steps.pop_front() {
                None => {
                    self.close();
                    return None;
                }
                Some(Step::Send(bytes)) => return Some(Ok(bytes)),
                Some(Step::Pause(time)) => self.until(tokio::time::sleep(time)).await?,
                Some(Step::WaitFor(token)) => self.until(token.cancelled()).await?,
                Some(Step::SendForEver(bytes)) => {
                    self.steps.push_front(Step::SendForEver(bytes.clone()));
                    self.until(tokio::task::yield_now()).await?;
                    return Some(Ok(bytes));
                }
                Some(Step::SendEvery(time, bytes)) => {
                    self.until(tokio::time::sleep(time)).await?;
                    self.steps.push_front(Step::SendEvery(time, bytes.clone()));
                    return Some(Ok(bytes));
                }
                Some(Step::Hang) => self.until(std::future::pending::<()>()).await?,
                Some(Step::Reset) => {
                    self.until(tokio::time::sleep(BEFORE_RESET)).await?;
                    self.close();
                    return Some(Err(io::Error::other("the script breaks the connection")));
                }
            }
        }
    }

    fn close(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.came_to_its_end();
        }
    }

    /// Waits; the end of the server ends every wait.
    async fn until(&mut self, wait: impl Future) -> Option<()> {
        let ended = self.ended.clone();
        tokio::select! {
            _ = wait => Some(()),
            () = ended.cancelled() => {
                self.close();
                None
            }
        }
    }
}
