//! Requests to `/v1`: the token in its header, answers read with a limit, refusals typed.
//!
//! Knows HTTP and nothing of what the answers mean. The token goes to the named server only: no
//! redirect is followed, and to an address of this machine no proxy is asked.

use std::io;
use std::time::Duration;

use famulus_core::event::EventId;
use famulus_errors::causes;
use famulus_netguard::is_loopback;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::{Method, RequestBuilder, Response, StatusCode, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::Serialize;
use serde::de::DeserializeOwned;
use url::Url;

use crate::connection::Connection;
use crate::error::{Error, Refusal};

/// A server that cannot be connected to within this time is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// No answer but the event stream takes longer: turns are never waited for by request.
const ANSWER: Duration = Duration::from_secs(20);
/// An open answer says something every ten seconds.
const SILENCE: Duration = Duration::from_mins(1);
/// The most that is read of an answer: a page of long messages fits.
const ANSWER_CAP: usize = 32 * 1024 * 1024;

/// A server and the right to talk to it.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    http: reqwest::Client,
    base: Url,
    token: SecretString,
    /// Where the token came from, for messages.
    origin: String,
}

impl Client {
    pub(crate) fn new(connection: &Connection) -> Result<Self, Error> {
        let base = connection.address()?;
        let token = connection.token.read()?;
        let mut http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("famulus-cli/", env!("CARGO_PKG_VERSION")));
        if is_loopback(&base) {
            http = http.no_proxy();
        }
        if base.scheme() == "http" {
            // Without TLS the certificates of the machine are not needed, and may be missing.
            http = http.tls_certs_only([]);
        }
        let http = http.build().map_err(|source| Error::Setup { source })?;
        Ok(Self { http, base, token, origin: connection.token.describe() })
    }

    /// The address, as it is shown.
    pub(crate) fn address(&self) -> &str {
        self.base.as_str().trim_end_matches('/')
    }

    pub(crate) async fn get<T: DeserializeOwned>(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
        what: &'static str,
    ) -> Result<T, Error> {
        let request = self.request(Method::GET, path).query(query);
        self.read(request, what).await
    }

    pub(crate) async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &[&str],
        body: &impl Serialize,
        what: &'static str,
    ) -> Result<T, Error> {
        self.read(self.request(method, path).json(body), what).await
    }

    /// Takes away what is at this path.
    pub(crate) async fn delete(&self, path: &[&str], what: &'static str) -> Result<(), Error> {
        self.read(self.request(Method::DELETE, path), what).await
    }

    /// Posts what takes as long as somebody takes to do their part.
    pub(crate) async fn wait_for<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &impl Serialize,
        limit: Duration,
        what: &'static str,
    ) -> Result<T, Error> {
        let request = self.request(Method::POST, path).json(body);
        self.read_within(request, limit, what).await
    }

    /// Posts under an idempotency key: sending it again has no further effect.
    pub(crate) async fn post_once<T: DeserializeOwned>(
        &self,
        path: &[&str],
        key: &str,
        body: &impl Serialize,
        what: &'static str,
    ) -> Result<T, Error> {
        let request = self.request(Method::POST, path).header("idempotency-key", key).json(body);
        self.read(request, what).await
    }

    /// Opens the events of a conversation, from behind `after` or from the start of its live turn.
    pub(crate) async fn events(
        &self,
        conversation: &str,
        after: EventId,
    ) -> Result<Response, Error> {
        let mut request = self
            .request(Method::GET, &["v1", "conversations", conversation, "events"])
            .header(ACCEPT, "text/event-stream");
        if after > EventId::START {
            request = request.header("last-event-id", after.to_string());
        }
        let answer = tokio::time::timeout(ANSWER, request.send()).await;
        let Ok(answer) = answer else { return Err(Error::StreamLost { url: self.shown() }) };
        let response = answer.map_err(|source| self.broken(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// Opens an answer that comes in pieces, for as long as it takes.
    pub(crate) async fn open(
        &self,
        path: &[&str],
        body: &impl Serialize,
    ) -> Result<Response, Error> {
        let request = self.request(Method::POST, path).json(body);
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// Asks for bytes, which come in pieces for as long as it takes.
    pub(crate) async fn download(&self, path: &[&str]) -> Result<Response, Error> {
        let request = self.request(Method::GET, path);
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    /// The next piece of an open answer; nothing at its end.
    pub(crate) async fn piece(
        &self,
        response: &mut Response,
    ) -> Result<Option<impl AsRef<[u8]> + use<>>, Error> {
        match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(piece) => piece.map_err(|source| self.broken(source)),
            Err(_) => Err(Error::StreamLost { url: self.shown() }),
        }
    }

    /// Stores a file.
    pub(crate) async fn store<T: DeserializeOwned>(&self, file: Vec<u8>) -> Result<T, Error> {
        let request = self.request(Method::POST, &["v1", "blobs"]);
        let request = request.header(CONTENT_TYPE, "application/octet-stream").body(file);
        self.read(request, "a stored file").await
    }

    /// The status with which a public path answers, without the token.
    pub(crate) async fn probe(&self, path: &str) -> Result<u16, Error> {
        let request = self.http.get(self.url(&[path])).timeout(ANSWER);
        let response = request.send().await.map_err(|source| self.broken(source))?;
        Ok(response.status().as_u16())
    }

    fn request(&self, method: Method, path: &[&str]) -> RequestBuilder {
        let mut request = self.http.request(method, self.url(path));
        // The token was checked when it was read: it always makes a header.
        if let Ok(mut bearer) =
            HeaderValue::from_str(&format!("Bearer {}", self.token.expose_secret()))
        {
            bearer.set_sensitive(true);
            request = request.header(AUTHORIZATION, bearer);
        }
        request
    }

    fn url(&self, path: &[&str]) -> Url {
        let mut url = self.base.clone();
        // Only an address that cannot have a path refuses, and http and https can.
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(path);
        }
        url
    }

    async fn read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        what: &'static str,
    ) -> Result<T, Error> {
        self.read_within(request, ANSWER, what).await
    }

    async fn read_within<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        limit: Duration,
        what: &'static str,
    ) -> Result<T, Error> {
        let request = request.timeout(limit).header(ACCEPT, "application/json");
        let response = request.send().await.map_err(|source| self.broken(source))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        let body = self.body(response, what).await?;
        // An answer without a body has nothing to add.
        let json = if body.is_empty() { b"null" } else { body.as_slice() };
        serde_json::from_slice(json).map_err(|source| self.malformed(what, Some(source)))
    }

    async fn body(&self, mut response: Response, what: &'static str) -> Result<Vec<u8>, Error> {
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.map_err(|source| self.broken(source))? {
            if body.len() + piece.len() > ANSWER_CAP {
                return Err(self.malformed(what, None));
            }
            body.extend_from_slice(&piece);
        }
        Ok(body)
    }

    async fn refusal(&self, response: Response) -> Error {
        let status = response.status();
        if status == StatusCode::UNAUTHORIZED {
            return Error::Unauthorized { url: self.shown(), origin: self.origin.clone() };
        }
        let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
        match self.body(response, "a problem document").await {
            Ok(body) => {
                let refusal = Refusal { retry_after, ..Refusal::read(status.as_u16(), &body) };
                Error::Refusal(Box::new(refusal))
            }
            Err(error) => error,
        }
    }

    pub(crate) fn malformed(&self, what: &'static str, source: Option<serde_json::Error>) -> Error {
        Error::Malformed { url: self.shown(), what, source }
    }

    fn shown(&self) -> String {
        self.address().to_owned()
    }

    fn broken(&self, source: reqwest::Error) -> Error {
        // The address is in our own message, and its path says nothing to the reader.
        let source = source.without_url();
        let url = self.shown();
        if source.is_timeout() {
            Error::Silent { url, source }
        } else if !source.is_connect() {
            Error::Broken { url, source }
        } else if is_refused(&source) {
            Error::Refused { url, source }
        } else {
            Error::Unreachable { url, source }
        }
    }
}

fn seconds(header: &HeaderValue) -> Option<u64> {
    header.to_str().ok()?.trim().parse().ok()
}

/// Whether somebody said that nobody listens, as opposed to no answer at all.
fn is_refused(error: &reqwest::Error) -> bool {
    let io = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>());
    io.is_some_and(|io| io.kind() == io::ErrorKind::ConnectionRefused)
}
