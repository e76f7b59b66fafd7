//! Requests to one runner, in the words of the protocol.
//!
//! Over plain HTTP/1.1 with connections that are kept. What failed
//! says whether the runner may have heard of it.

use std::time::Duration;

use bytes::Bytes;
use famulus_core::blob::BlobError;
use famulus_core::runner::DELIVERY_BYTES;
use famulus_errors::chain;
use famulus_protocol::{
    ANSWER_BYTES, CallId, CallState, Health, Problem, RENDERED_HEADER, RunCall, paths,
};
use futures::stream::BoxStream;
use reqwest::{Body, Client, Method, RequestBuilder, Response, StatusCode};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::clients::{self, CONNECT};
use crate::conduct::Conduct;
use crate::home::{KnownRunner, RunnerAddress};

/// Until the head of an answer: a runner waits up to 5 s for what it was given newly.
const HEAD: Duration = Duration::from_secs(15);

/// A file of 25 MiB, at 1 MiB a second.
const TRANSFER: Duration = Duration::from_secs(30);

// What comes by callback is read above, where nobody knows the protocol.
const _: () = assert!(ANSWER_BYTES == DELIVERY_BYTES);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// Nothing was sent.
    #[error("{0}")]
    Unreached(String),
    /// The runner may have heard of it.
    #[error("{0}")]
    Broken(String),
    /// It said no.
    #[error("{0}")]
    Refused(Problem),
    /// It answered with more than is read. Only a result is ever so long.
    #[error("its runner answered with more than {ANSWER_BYTES} bytes")]
    TooLarge,
}

/// Who speaks, and with what credentials.
#[derive(Clone, Copy)]
pub(crate) struct RunnerClient<'a> {
    pub(crate) client: &'a Client,
    pub(crate) address: Option<RunnerAddress<'a>>,
    pub(crate) conduct: &'a Conduct,
    pub(crate) bearer: &'a str,
    pub(crate) rendered: i64,
}

/// What a call was answered with.
pub(crate) enum CallResponse {
    /// Lines of progress follow.
    Progress(Response),
    /// The result comes later.
    Accepted,
}

impl RunnerClient<'_> {
    pub(crate) async fn upload(
        self,
        id: &CallId,
        index: u32,
        file: BoxStream<'static, Result<Bytes, BlobError>>,
    ) -> Result<(), WireError> {
        let request = self.request(Method::PUT, &paths::upload(id, index))?;
        let sent = self.send(request.body(Body::wrap_stream(file)), TRANSFER).await?;
        accepted(sent).await.map(drop)
    }

    pub(crate) async fn run(self, id: &CallId, call: &RunCall) -> Result<CallResponse, WireError> {
        let response =
            self.send(self.request(Method::POST, &paths::call(id))?.json(call), HEAD).await?;
        let response = accepted(response).await?;
        Ok(match response.status() {
            StatusCode::ACCEPTED => CallResponse::Accepted,
            _ => CallResponse::Progress(response),
        })
    }

    pub(crate) async fn state(self, id: &CallId) -> Result<CallState, WireError> {
        self.get(&paths::call(id)).await
    }

    pub(crate) async fn progress(self, id: &CallId) -> Result<Response, WireError> {
        let request = self.request(Method::GET, &paths::progress(id))?;
        accepted(self.send(request, HEAD).await?).await
    }

    pub(crate) async fn file(self, id: &CallId, index: u32) -> Result<Response, WireError> {
        let request = self.request(Method::GET, &paths::file(id, index))?;
        accepted(self.send(request, HEAD).await?).await
    }

    pub(crate) async fn cancel(self, id: &CallId) -> Result<(), WireError> {
        let request = self.request(Method::POST, &paths::cancel(id))?;
        accepted(self.send(request, HEAD).await?).await.map(drop)
    }

    pub(crate) async fn acknowledge(self, id: &CallId) -> Result<(), WireError> {
        let request = self.request(Method::POST, &paths::acknowledge(id))?;
        accepted(self.send(request, HEAD).await?).await.map(drop)
    }

    pub(crate) async fn health(self) -> Result<Health, WireError> {
        self.get(paths::HEALTH).await
    }

    async fn get<T: DeserializeOwned>(self, path: &str) -> Result<T, WireError> {
        let response = accepted(self.send(self.request(Method::GET, path)?, HEAD).await?).await?;
        let bytes = timeout(TRANSFER, body(response, ANSWER_BYTES));
        let bytes = bytes.await.map_err(|_elapsed| silent(TRANSFER))??;
        serde_json::from_slice(&bytes).map_err(|error| strange(&error.to_string()))
    }

    fn request(self, method: Method, path: &str) -> Result<RequestBuilder, WireError> {
        let request = clients::request(self.client, self.conduct, self.address, method, path)?;
        Ok(request.bearer_auth(self.bearer).header(RENDERED_HEADER, self.rendered))
    }

    /// Sends, and tells the circuit how it went. A refusal is an answer.
    async fn send(self, request: RequestBuilder, wait: Duration) -> Result<Response, WireError> {
        let answered = match timeout(wait, request.send()).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(error)) => Err(words(error)),
            Err(_elapsed) => Err(silent(wait)),
        };
        match &answered {
            Ok(_) => self.conduct.answered(),
            Err(_) => self.conduct.failed(),
        }
        answered
    }
}

/// Whether a runner serves already, although nobody said so yet.
pub(crate) async fn is_alive(client: &Client, runner: &impl KnownRunner) -> bool {
    let (conduct, address) = (runner.conduct(), runner.address());
    let request = clients::request(client, conduct, address, Method::GET, paths::ALIVE);
    let Ok(request) = request else { return false };
    let answer = timeout(CONNECT, request.send()).await;
    answer.is_ok_and(|answer| answer.is_ok_and(|answer| answer.status() == StatusCode::OK))
}

/// The answer, unless it is a refusal.
async fn accepted(response: Response) -> Result<Response, WireError> {
    /// The longest refusal.
    const REFUSAL_BYTES: usize = 64 * 1024;

    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let bytes = timeout(HEAD, body(response, REFUSAL_BYTES));
    let bytes = bytes.await.map_err(|_elapsed| silent(HEAD))??;
    match serde_json::from_slice::<Problem>(&bytes) {
        Ok(problem) => Err(WireError::Refused(problem)),
        Err(_) => Err(strange(&format!("status {status}"))),
    }
}

async fn body(mut response: Response, most: usize) -> Result<Vec<u8>, WireError> {
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(words)? {
        if bytes.len() + piece.len() > most {
            return Err(WireError::TooLarge);
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(bytes)
}

fn silent(wait: Duration) -> WireError {
    WireError::Broken(format!("its runner did not answer within {} s", wait.as_secs()))
}

fn strange(what: &str) -> WireError {
    WireError::Broken(format!("its runner answered what no runner says: {what}"))
}

/// Without the URL: addresses of runners mean nothing to who reads it.
pub(crate) fn words(error: reqwest::Error) -> WireError {
    let unreached = error.is_connect();
    let error = error.without_url();
    let text = chain(&error);
    if unreached { WireError::Unreached(text) } else { WireError::Broken(text) }
}
