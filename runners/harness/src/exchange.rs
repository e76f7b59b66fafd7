//! One request to the app, over a connection of its own.

use std::path::Path;
use std::time::Duration;

use axum::body::Body;
use axum::http::request::Builder;
use axum::http::{Method, Request, StatusCode, header};
use famulus_protocol::{PLUGIN_HEADER, Problem, RENDERED_HEADER, paths};
use futures::StreamExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::io::ReaderStream;

use crate::address::Address;
use crate::bearer::Credentials;

/// How long one attempt may take: a bundle at the speed of a slow disk.
const ATTEMPT: Duration = Duration::from_mins(1);

/// How long an app that is away, or does not know this Pod yet, is asked again, and the pauses
/// between, which double: somebody waits for a Pod that was just started.
const PATIENCE: Duration = Duration::from_secs(45);
const AGAIN: Duration = Duration::from_millis(25);
const AGAIN_LONGEST: Duration = Duration::from_millis(500);

/// The longest refusal that is read.
const REFUSAL_BYTES: usize = 16 * 1024;

/// The app as a runner knows it: where it takes bundles and gives them.
pub struct App {
    base: Address,
    credentials: Credentials,
}

#[derive(Debug, thiserror::Error)]
pub enum AppError {
    #[error("the app cannot be reached ({0}); see whether it runs")]
    Unreachable(String),
    #[error("the app answered {status}: {detail}")]
    Refused { status: u16, detail: String },
    #[error("the app sent more than {0} bytes")]
    TooLarge(u64),
    #[error("the file {file} cannot be used: {source}")]
    File { file: String, source: std::io::Error },
}

impl App {
    /// `None` for what is no plain `http` URL, and no socket's.
    pub fn new(url: &str, credentials: Credentials) -> Option<Self> {
        Some(Self { base: Address::parse(url)?, credentials })
    }

    /// Whether it is there. Needs no bearer.
    pub async fn ping(url: &str, patience: Duration) -> Result<(), String> {
        let address = Address::parse(url).ok_or("it is no plain http URL, and no socket's")?;
        let request = Request::get(paths::PING).header(header::HOST, &address.authority);
        let request = request.body(Body::empty()).map_err(|error| error.to_string())?;
        let asked = exchange(&address, request, async |response| Ok(response.status()));
        match timeout(patience, asked).await {
            Ok(Ok(status)) if status.is_success() => Ok(()),
            Ok(Ok(status)) => Err(format!("it answered {status}")),
            Ok(Err(why)) => Err(why),
            Err(_late) => Err("it did not answer in time".to_owned()),
        }
    }

    /// The status of the answer, which is a success.
    pub async fn put_json(&self, path: &str, value: &impl Serialize) -> Result<u16, AppError> {
        // What is put is a struct of texts, numbers and lists: it always serialises.
        let body = serde_json::to_vec(value).unwrap_or_default();
        self.again(|| async {
            let request = self.request(Method::PUT, path);
            let request = request.header(header::CONTENT_TYPE, "application/json");
            let status = async |response: Response<Incoming>| Ok(response.status().as_u16());
            self.attempt(request.body(Body::from(body.clone())), status).await
        })
        .await
    }

    pub async fn put_file(&self, path: &str, file: &Path) -> Result<(), AppError> {
        self.again(|| async {
            let unusable = |source| AppError::File { file: file.display().to_string(), source };
            let content = File::open(file).await.map_err(unusable)?;
            let length = content.metadata().await.map_err(unusable)?.len();
            let request = self
                .request(Method::PUT, path)
                .header(header::CONTENT_LENGTH, length)
                .header(header::CONTENT_TYPE, "application/x-tar");
            let body = Body::from_stream(ReaderStream::new(content));
            self.attempt(request.body(body), async |_| Ok(())).await
        })
        .await
    }

    /// Fetches what is there into a file of at most so many bytes.
    pub async fn fetch(&self, path: &str, file: &Path, most: u64) -> Result<(), AppError> {
        self.again(|| async {
            let request = self.request(Method::GET, path).body(Body::empty());
            self.attempt(request, async |response| receive(response, file, most).await).await
        })
        .await
    }

    fn request(&self, method: Method, path: &str) -> Builder {
        let path = format!("{}{path}", self.base.path.trim_end_matches('/'));
        let request = Request::builder().method(method).uri(path);
        sign(request.header(header::HOST, &self.base.authority), &self.credentials)
    }

    async fn attempt<T>(
        &self,
        request: Result<Request<Body>, axum::http::Error>,
        read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, AppError>,
    ) -> Result<T, AppError> {
        let request = request.map_err(|error| AppError::Unreachable(error.to_string()))?;
        let asked = exchange(&self.base, request, async |response| {
            Ok(if response.status().is_success() {
                read(response).await
            } else {
                Err(refused(response).await)
            })
        });
        match timeout(ATTEMPT, asked).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(why)) => Err(AppError::Unreachable(why)),
            Err(_late) => Err(AppError::Unreachable("no answer in time".to_owned())),
        }
    }

    /// Repeats what may succeed a little later.
    async fn again<T, F>(&self, act: impl Fn() -> F) -> Result<T, AppError>
    where
        F: Future<Output = Result<T, AppError>>,
    {
        let until = Instant::now() + PATIENCE;
        let mut pause = AGAIN;
        loop {
            match act().await {
                Err(error) if error.is_passing() && Instant::now() < until => {
                    tracing::warn!(%error, "the app is asked again");
                    sleep(pause).await;
                    pause = (pause * 2).min(AGAIN_LONGEST);
                }
                done => return done,
            }
        }
    }
}

impl AppError {
    fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) => true,
            // An app that has not seen this Pod yet believes nobody in it.
            Self::Refused { status, .. } => {
                *status >= 500 || [401, 408, 409, 425, 429].contains(status)
            }
            Self::TooLarge(_) | Self::File { .. } => false,
        }
    }
}

/// Adds who this runner is.
pub(crate) fn sign(request: Builder, credentials: &Credentials) -> Builder {
    let request = request.header(header::AUTHORIZATION, format!("Bearer {}", credentials.bearer));
    match &credentials.identity {
        Some((uid, rendered)) => {
            request.header(PLUGIN_HEADER, uid).header(RENDERED_HEADER, *rendered)
        }
        None => request,
    }
}

/// Sends a request and reads its answer.
pub(crate) async fn exchange<T>(
    address: &Address,
    request: Request<Body>,
    read: impl AsyncFnOnce(Response<Incoming>) -> Result<T, String>,
) -> Result<T, String> {
    let socket = address.connect().await.map_err(|error| format!("no connection: {error}"))?;
    let handshake = http1::handshake(TokioIo::new(socket)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let answer = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        read(response).await
    };
    tokio::pin!(connection, answer);
    tokio::select! {
        done = &mut answer => done,
        ended = &mut connection => match ended {
            // The answer may have come with the end of the connection.
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

async fn receive(response: Response<Incoming>, path: &Path, most: u64) -> Result<(), AppError> {
    let unusable = |source| AppError::File { file: path.display().to_string(), source };
    let mut file = File::create(path).await.map_err(unusable)?;
    let mut pieces = Body::new(response.into_body()).into_data_stream();
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| AppError::Unreachable(error.to_string()))?;
        bytes += piece.len() as u64;
        if bytes > most {
            return Err(AppError::TooLarge(most));
        }
        file.write_all(&piece).await.map_err(unusable)?;
    }
    file.flush().await.map_err(unusable)
}

async fn refused(response: Response<Incoming>) -> AppError {
    let status = response.status();
    let body = axum::body::to_bytes(Body::new(response.into_body()), REFUSAL_BYTES).await;
    let body = body.unwrap_or_default();
    let detail = match serde_json::from_slice::<Problem>(&body) {
        Ok(problem) => problem.to_string(),
        Err(_other) => reason(status).to_owned(),
    };
    AppError::Refused { status: status.as_u16(), detail }
}

fn reason(status: StatusCode) -> &'static str {
    status.canonical_reason().unwrap_or("no reason given")
}
