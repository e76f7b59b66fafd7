//! A provider on loopback that speaks the OpenAI wire, on good days and on bad ones.
//!
//! For tests, and for a person who wants to see how an installation takes a failing provider. It refuses
//! what strict providers refuse (see [`wire`]), so that a history that passes here passes there.
//!
//! Each request takes the next [`Scenario`] of the queue, or the standing one. What was received is
//! kept for looking at.

mod audio;
mod scenario;
mod script;
mod wire;

pub use scenario::{Scenario, ScenarioError};
pub use script::{Script, Step};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::serve::ListenerExt as _;
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use script::HangUp;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::sync::watch;
use url::Url;

/// Bytes of a request that are taken: more than any the adapter sends.
const LARGEST: usize = 64 << 20;

/// The running server; it ends when this is dropped.
pub struct Scripted {
    address: SocketAddr,
    shared: Arc<Shared>,
    tasks: Tasks,
}

/// A request as it came.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body, or null if it is no JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

struct Shared {
    script: Mutex<Plan>,
    key: Option<String>,
    received: watch::Sender<usize>,
    connections: AtomicUsize,
    hung_up: watch::Sender<usize>,
    tasks: Tasks,
}

struct Plan {
    next: VecDeque<Scenario>,
    otherwise: Scenario,
    received: Vec<Received>,
}

impl Scripted {
    /// Listens on a free port of loopback, demo days until told otherwise.
    pub async fn start() -> io::Result<Self> {
        Self::listen(0, None).await
    }

    /// Listens on this port; 0 takes a free one. With a key, requests without it are refused.
    pub async fn listen(port: u16, key: Option<&str>) -> io::Result<Self> {
        Self::at(SocketAddr::from(([127, 0, 0, 1], port)), key).await
    }

    /// The same at another address.
    pub async fn at(address: SocketAddr, key: Option<&str>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let tasks = Tasks::new();
        let shared = Arc::new(Shared {
            script: Mutex::new(Plan {
                next: VecDeque::new(),
                otherwise: Scenario::Demo,
                received: Vec::new(),
            }),
            key: key.map(ToOwned::to_owned),
            received: watch::Sender::new(0),
            connections: AtomicUsize::new(0),
            hung_up: watch::Sender::new(0),
            tasks: tasks.clone(),
        });
        let router = Router::new()
            .route("/v1/models", get(models))
            .fallback(serve)
            .with_state(Arc::clone(&shared));
        let counting = Arc::clone(&shared);
        let listener = listener.tap_io(move |_| {
            counting.connections.fetch_add(1, Ordering::Relaxed);
        });
        let ended = tasks.token().cancelled_owned();
        tasks.spawn("scripted-model", OnExit::Log, async move {
            let server = axum::serve(listener, router).with_graceful_shutdown(ended);
            if let Err(error) = server.await {
                tracing::error!(%error, "the scripted model server failed");
            }
        });
        Ok(Self { address, shared, tasks })
    }

    /// What to set `model.base_url` to.
    #[expect(clippy::expect_used, reason = "an IPv4 address and a port always make an address")]
    pub fn base_url(&self) -> Url {
        format!("http://{}/v1", self.address).parse().expect("an address is a URL")
    }

    /// Adds a scenario for a request to come.
    pub fn push(&self, scenario: Scenario) {
        self.shared.script.lock().next.push_back(scenario);
    }

    /// What requests get when no scenario was added for them.
    pub fn otherwise(&self, scenario: Scenario) {
        self.shared.script.lock().otherwise = scenario;
    }

    /// Everything received so far.
    pub fn received(&self) -> Vec<Received> {
        self.shared.script.lock().received.clone()
    }

    /// How many connections were made so far.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }

    /// Waits until so many requests have come.
    pub async fn wait_for(&self, count: usize) {
        reach(&self.shared.received, count).await;
    }

    /// Waits until so many clients have hung up before the end of their answer.
    pub async fn wait_for_hang_up(&self, count: usize) {
        reach(&self.shared.hung_up, count).await;
    }
}

async fn reach(counter: &watch::Sender<usize>, count: usize) {
    let mut counter = counter.subscribe();
    // The sender is borrowed for as long as this waits, so the wait cannot fail.
    let _reached = counter.wait_for(|now| *now >= count).await;
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.tasks.shutdown();
    }
}

impl Shared {
    fn receive(&self, received: Received) -> Scenario {
        let mut plan = self.script.lock();
        plan.received.push(received);
        let count = plan.received.len();
        let scenario = plan.next.pop_front().unwrap_or_else(|| plan.otherwise.clone());
        drop(plan);
        self.received.send_replace(count);
        scenario
    }
}

async fn models() -> Response {
    let body = r#"{"object":"list","data":[{"id":"demo","object":"model","owned_by":"famulus"}]}"#;
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let Ok(body) = axum::body::to_bytes(body, LARGEST).await else {
        return refuse(StatusCode::PAYLOAD_TOO_LARGE, "the request is too large");
    };
    let text =
        |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let received = Received {
        path: uri.path().to_owned(),
        headers: headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: body.to_vec(),
    };
    let asked = ["/chat/completions", "/audio/transcriptions", "/audio/speech"]
        .into_iter()
        .find(|asked| received.path.ends_with(asked));
    let Some(asked) = asked else {
        return refuse(StatusCode::NOT_FOUND, "there is nothing at this path");
    };
    let bearer = shared.key.as_ref().map(|key| format!("Bearer {key}"));
    let authorized = bearer.is_none() || bearer.as_deref() == received.header("authorization");
    let scenario = shared.receive(received);
    if !authorized {
        return refuse(StatusCode::UNAUTHORIZED, "the key is missing or wrong");
    }
    let ended = shared.tasks.token();
    let watch = HangUp::new(move || shared.hung_up.send_modify(|count| *count += 1));
    if matches!(scenario, Scenario::Deaf) {
        ended.cancelled().await;
        watch.came_to_its_end();
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the server ends");
    }
    let script = match asked {
        "/chat/completions" => wire::read(&body).map(|request| scenario.script(&request)),
        _ if scenario.is_blind() => Ok(scenario.script(&wire::Request::default())),
        "/audio/transcriptions" => audio::transcription(&headers, body.to_vec()).await,
        _ => audio::speech(&body),
    };
    let script = match script {
        Ok(script) => script,
        Err(reason) => return refuse(StatusCode::BAD_REQUEST, &reason),
    };
    script.into_response(ended, watch)
}

fn refuse(status: StatusCode, reason: &str) -> Response {
    let body = serde_json::json!({"error": {"message": reason, "type": "invalid_request_error"}});
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
