//! The peer: a listener, and what a test does with it.

use crate::fault::Fault;
use crate::link;
use crate::people::User;
use crate::rpc;
use crate::stream;
use crate::world::{Handed, Message, Mode, World};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Long for anything that a test waits for.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);
/// Letters of one text in a call: that is how its reader of JSON is made.
const LONGEST: usize = 20_000_000;

/// A scripted daemon.
#[derive(Clone)]
pub struct Signal {
    shared: Arc<Shared>,
    tasks: Tasks,
}

pub(crate) struct Shared {
    world: Mutex<World>,
    /// All streams end.
    pub(crate) dropped: Notify,
    address: SocketAddr,
}

impl Shared {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }
}

impl Signal {
    /// Serves on a free port of loopback.
    pub async fn start() -> std::io::Result<Self> {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Serves at an address.
    pub async fn at(address: SocketAddr) -> std::io::Result<Self> {
        Self::with(address, World::open(None)?).await
    }

    /// The same with accounts and files that outlive it in a folder, which has none at first.
    pub async fn keeping(address: SocketAddr, folder: PathBuf) -> std::io::Result<Self> {
        Self::with(address, World::open(Some(folder))?).await
    }

    async fn with(address: SocketAddr, world: World) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let shared = Arc::new(Shared {
            world: Mutex::new(world),
            dropped: Notify::new(),
            address: listener.local_addr()?,
        });
        let router = Router::new()
            .route("/api/v1/rpc", post(call))
            .route("/api/v1/events", get(events))
            .route("/api/v1/check", get(async || StatusCode::OK))
            .with_state(Arc::clone(&shared));
        let signal = Self { shared, tasks: Tasks::new() };
        signal.serve("signal", listener, router);
        Ok(signal)
    }

    /// Serves until it goes away.
    pub(crate) fn serve(&self, name: &'static str, listener: TcpListener, router: Router) {
        let shutdown = self.tasks.token();
        self.tasks.spawn(name, OnExit::Log, async move {
            let served = axum::serve(listener, router);
            tokio::select! {
                _ended = served => {}
                () = shutdown.cancelled() => {}
            }
        });
    }

    /// Where it is.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// Goes away, as after a power cut.
    pub async fn stop(&self) {
        self.drop_streams();
        let _stragglers = self.tasks.drain(Duration::from_secs(1)).await;
    }

    /// The id of our account.
    pub fn account(&self) -> String {
        self.world().accounts.first().map(|(_, id)| id.clone()).unwrap_or_default()
    }

    /// The accounts that are linked from now on, by number and id. Streams that are open hear of none of
    /// them.
    pub fn set_accounts(&self, accounts: &[User]) {
        let accounts = accounts
            .iter()
            .map(|user| (user.number.clone().unwrap_or_default(), user.id.clone()))
            .collect();
        let mut world = self.world();
        world.accounts = accounts;
        let kept = world.keep_accounts();
        assert!(kept.is_ok(), "the accounts cannot be kept: {kept:?}");
        world.streams.clear();
    }

    pub fn set_mode(&self, mode: Mode) {
        self.world().mode = mode;
    }

    /// Between two signs of life of a stream.
    pub fn set_keep_alive(&self, pause: Duration) {
        self.world().keep_alive = pause;
    }

    /// Streams stay open, and nothing comes any more.
    pub fn stall(&self, stalls: bool) {
        let mut world = self.world();
        world.is_stalled = stalls;
        if stalls {
            world.streams.clear();
        }
    }

    /// Whether a reader that hung up is noticed only by what is written to it next, which nobody hears.
    pub fn notice_late(&self, late: bool) {
        self.world().notices_late = late;
    }

    /// Ends all streams.
    pub fn drop_streams(&self) {
        let mut world = self.world();
        world.streams.clear();
        world.drops += 1;
        drop(world);
        self.shared.dropped.notify_waiters();
    }

    /// The next call of this method (`*`: of any) meets this; several wait in order.
    pub fn fault(&self, method: &str, fault: Fault) {
        self.world().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// What was sent to an account id or a group, in order, as it stands now.
    pub fn sent_to(&self, to: &str) -> Vec<Message> {
        self.world().messages.iter().filter(|message| message.to == to).cloned().collect()
    }

    /// All that was sent.
    pub fn sent(&self) -> Vec<Message> {
        self.world().messages.clone()
    }

    /// Waits for a message to somebody that fits; it fails the test when none comes.
    pub async fn wait_for(&self, to: &str, fits: impl Fn(&Message) -> bool) -> Message {
        let begun = Instant::now();
        loop {
            let found = self.sent_to(to).into_iter().find(|message| fits(message));
            if let Some(found) = found {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing fits of {:#?}", self.sent_to(to));
            sleep(LOOK).await;
        }
    }

    /// Messages that wait with Signal until somebody listens.
    pub fn waiting(&self) -> usize {
        self.world().waiting.len()
    }

    /// Messages that nobody will ever hear.
    pub fn lost(&self) -> usize {
        self.world().lost
    }

    /// Streams that are open.
    pub fn streams(&self) -> usize {
        self.world().streams.iter().filter(|stream| !stream.sender.is_closed()).count()
    }

    /// Which streams were told each message, in order.
    pub fn handed(&self) -> Vec<Handed> {
        let world = self.world();
        let open = world.streams.iter().filter(|stream| !stream.sender.is_closed());
        let open: BTreeSet<u64> = open.map(|stream| stream.number).collect();
        let handed = world.handed.iter().map(|(timestamp, streams)| Handed {
            timestamp: *timestamp,
            streams: streams.clone(),
            is_in_open_stream: streams.iter().any(|stream| open.contains(stream)),
        });
        handed.collect()
    }

    /// Messages that somebody was told who reads on.
    pub fn in_open_streams(&self) -> BTreeSet<i64> {
        let handed = self.handed().into_iter().filter(|one| one.is_in_open_stream);
        handed.map(|one| one.timestamp).collect()
    }

    pub fn typing(&self) -> Vec<String> {
        self.world().typing.clone()
    }

    /// To whom it was said of which message that it was read.
    pub fn receipts(&self) -> Vec<(String, i64)> {
        self.world().receipts.clone()
    }

    /// Groups that were left.
    pub fn left(&self) -> Vec<String> {
        self.world().left.clone()
    }

    /// Every call: method and parameters.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.world().calls.clone()
    }

    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }
}

/// Only by a name of the machine itself, so that no page of a browser gets here.
fn is_host(headers: &HeaderMap, address: SocketAddr) -> bool {
    if address.ip().is_unspecified() {
        return true;
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let (name, port) = host.rsplit_once(':').unwrap_or((host, ""));
    let is_name =
        ["localhost", "127.0.0.1", "[::1]"].contains(&name) || name == address.ip().to_string();
    is_name && (port.is_empty() || port == address.port().to_string())
}

async fn events(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    if !is_host(&headers, shared.address) {
        return StatusCode::MISDIRECTED_REQUEST.into_response();
    }
    match shared.world().fault("events") {
        Some(Fault::Status(status)) => {
            return StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY).into_response();
        }
        Some(_) => return cut(),
        None => {}
    }
    stream::open(&shared, query.get("account").map(String::as_str))
}

async fn call(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    if !is_host(&head.headers, shared.address) {
        return StatusCode::MISDIRECTED_REQUEST.into_response();
    }
    let kind = head.headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if !kind.is_some_and(|kind| kind.starts_with("application/json")) {
        return StatusCode::UNSUPPORTED_MEDIA_TYPE.into_response();
    }
    let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
    let Ok(asked) = serde_json::from_slice::<Value>(&bytes) else {
        return answer(json!({"jsonrpc": "2.0", "id": null,
            "error": {"code": -32700, "message": "Parse error", "data": null}}));
    };
    if is_too_long(&asked) {
        let message = "An internal server error has occurred.";
        return answer(json!({"jsonrpc": "2.0", "id": null,
            "error": {"code": -32603, "message": message, "data": null}}));
    }
    let method = asked["method"].as_str().unwrap_or_default().to_owned();
    let fault = {
        let mut world = shared.world();
        world.calls.push((method.clone(), asked["params"].clone()));
        world.fault(&method)
    };
    let done = || rpc::call(&mut shared.world(), &method, &asked["params"]);
    let id = asked["id"].clone();
    let whole = |done: Result<Value, rpc::Refusal>| match done {
        Ok(result) => json!({"jsonrpc": "2.0", "result": result, "id": id}),
        Err(rpc::Refusal { code, message, data }) => json!({"jsonrpc": "2.0",
            "error": {"code": code, "message": message, "data": data}, "id": id}),
    };
    match fault {
        // It takes as long as somebody takes to find their phone.
        None if method == "finishLink" => {
            answer(whole(link::finish(&shared, &asked["params"]).await))
        }
        None if id.is_null() => {
            let _unasked = done();
            StatusCode::CREATED.into_response()
        }
        None => answer(whole(done())),
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, "<html><body>nginx</body></html>").into_response()
        }
        Some(Fault::Refused(code, message, data)) => {
            answer(whole(Err(rpc::Refusal { code, message, data })))
        }
        Some(Fault::CutBefore) => cut(),
        Some(Fault::CutAfter) => {
            let _done = done();
            cut()
        }
        Some(Fault::Slow(by)) => {
            let done = done();
            sleep(by).await;
            answer(whole(done))
        }
        Some(Fault::Malformed) => {
            let whole = whole(done()).to_string();
            ([(header::CONTENT_TYPE, "application/json")], whole[..whole.len() / 2].to_owned())
                .into_response()
        }
    }
}

fn is_too_long(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().count() > LONGEST,
        Value::Array(all) => all.iter().any(is_too_long),
        Value::Object(fields) => fields.values().any(is_too_long),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

fn answer(body: Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A body that breaks off: the head says that more would come.
fn cut() -> Response {
    let broken = futures::stream::iter([
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ]);
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(broken)).into_response()
}
