//! A server that speaks the contract and follows a script, bad days included.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use famulus_core::event::{DeltaKind, Envelope, Event, EventId, Status, VERSION};
use famulus_core::ids::{ConversationId, MessageId, TurnId};
use famulus_core::message::MessageRole;
use famulus_core::turn::TurnState;
use famulus_lifecycle::{OnExit, Tasks};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::client::Client;
use crate::connection::{Connection, TokenSource};

pub(crate) const TOKEN: &str = "fam_test";
pub(crate) const CONVERSATION: ConversationId = ConversationId(uuid(1));
pub(crate) const TURN: TurnId = TurnId(uuid(2));
pub(crate) const CONVERSATION_PATH: &str = "/conversations/01890000-0000-7000-8000-000000000001";
/// What a quiet turn is asked after by.
pub(crate) const TURN_PATH: &str = "/v1/turns/01890000-0000-7000-8000-000000000002";
pub(crate) const MESSAGE: MessageId = MessageId(uuid(3));

const fn uuid(number: u128) -> uuid::Uuid {
    uuid::Uuid::from_u128(0x0189_0000_0000_7000_8000_0000_0000_0000 + number)
}

/// One thing that a stream of events does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Send(EventId, Event),
    Raw(&'static str),
    /// Waits until a request with this method and end of path has come.
    After(&'static str, &'static str),
    /// Says nothing for ever.
    Hang,
}

/// How a stream is answered: refused, or opened.
pub(crate) type Stream = Result<Vec<Step>, u16>;

/// A request as it came.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) last_event_id: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) body: Value,
}

#[derive(Default)]
pub(crate) struct Script {
    /// One for each time the events are opened; after the last, streams hang.
    pub(crate) streams: VecDeque<Stream>,
    /// What is answered instead of the usual, once each: end of path, status, body.
    pub(crate) answers: Vec<(&'static str, u16, Value)>,
    pub(crate) turn: Value,
    pub(crate) approvals: Vec<Value>,
}

pub(crate) struct Peer {
    pub(crate) url: String,
    shared: Arc<Shared>,
    tasks: Tasks,
}

struct Shared {
    script: Mutex<Script>,
    heard: watch::Sender<Vec<Heard>>,
}

impl Peer {
    pub(crate) async fn start(script: Script) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared =
            Arc::new(Shared { script: Mutex::new(script), heard: watch::Sender::new(Vec::new()) });
        let router = Router::new().fallback(answer).with_state(shared.clone());
        let tasks = Tasks::new();
        tasks.spawn("peer", OnExit::Log, async move {
            axum::serve(listener, router).await.unwrap();
        });
        Self { url, shared, tasks }
    }

    pub(crate) fn connection(&self, token: &str) -> Connection {
        Connection {
            url: self.url.clone(),
            token: TokenSource::Environment(token.into()),
            data_dir: PathBuf::new(),
            colour: true,
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::new(&self.connection(TOKEN)).unwrap()
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        self.shared.script.lock()
    }

    /// Every request with this method and end of path, in order.
    pub(crate) fn heard(&self, method: &str, end: &str) -> Vec<Heard> {
        matching(&self.shared.heard.borrow(), method, end)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.tasks.shutdown();
    }
}

impl Shared {
    async fn wait_for(&self, method: &str, end: &str) {
        let mut heard = self.heard.subscribe();
        heard.wait_for(|heard| !matching(heard, method, end).is_empty()).await.unwrap();
    }
}

fn matching(heard: &[Heard], method: &str, end: &str) -> Vec<Heard> {
    heard.iter().filter(|h| h.method == method && h.path.ends_with(end)).cloned().collect()
}

fn plugin() -> Value {
    json!({
        "name": "dice", "ready": true, "reason": "Idle", "message": "a call starts a runner",
        "tools": ["throw_die"], "config_keys": [], "egress": "None", "runners": 0,
    })
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let header = |name: &str| {
        head.headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
    };
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let path = head.uri.path().to_owned();
    let heard = Heard {
        method: head.method.to_string(),
        path: path.clone(),
        last_event_id: header("last-event-id"),
        key: header("idempotency-key"),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
    };
    let public = matches!(path.as_str(), "/livez" | "/readyz");
    let authorised = header("authorization") == Some(format!("Bearer {TOKEN}"));
    // Recorded only once its effect is in the script.
    let response = if !public && !authorised {
        problem(401, json!({"title": "unauthorized", "remedy": "`famulus token`"}))
    } else {
        usual(&shared, &heard)
    };
    shared.heard.send_modify(|all| all.push(heard));
    response
}

fn usual(shared: &Arc<Shared>, heard: &Heard) -> Response {
    let mut script = shared.script.lock();
    let special = script.answers.iter().position(|(end, ..)| heard.path.ends_with(end));
    if let Some(index) = special {
        let (_, status, body) = script.answers.remove(index);
        return problem(status, body);
    }
    let accepted = json!({
        "conversation_id": CONVERSATION, "message_id": MESSAGE, "turn_id": TURN,
        "disposition": "started",
    });
    let conversation = json!({"id": CONVERSATION, "title": "Plants", "live_turn": null});
    let segments: Vec<&str> = heard.path.trim_start_matches('/').split('/').collect();
    let body = match (heard.method.as_str(), segments.as_slice()) {
        ("GET", ["livez" | "readyz"]) => return "ok".into_response(),
        ("GET", ["v1", "me"]) => json!({
            "person": {"id": uuid(4), "name": "Ada", "role": "owner", "time_zone": "UTC"},
            "scope": "owner", "version": env!("CARGO_PKG_VERSION"), "model": "demo",
        }),
        ("GET", ["v1", "status"]) => json!({
            "version": env!("CARGO_PKG_VERSION"),
            "checks": [{"name": "disk", "ok": true, "detail": "plenty", "remedy": null}],
        }),
        ("GET", ["v1", "conversations", _, "events"]) => {
            let stream = script.streams.pop_front().unwrap_or_else(|| Ok(vec![Step::Hang]));
            return match stream {
                Ok(steps) => events(shared.clone(), steps),
                Err(status) => problem(status, json!({"title": "no stream"})),
            };
        }
        ("POST", ["v1", "conversations", _, "messages"] | ["v1", "turns", _, "continue"]) => {
            accepted
        }
        ("POST", ["v1", "conversations", _, "stop"]) => json!({"stopped": [TURN]}),
        ("GET", ["v1", "conversations"]) => json!({"conversations": [conversation]}),
        ("GET", ["v1", "conversations", "main"]) | ("POST", ["v1", "conversations"]) => {
            conversation
        }
        ("GET" | "PATCH", ["v1", "conversations", id]) => {
            if *id != CONVERSATION.to_string() {
                return problem(404, json!({"title": "no such conversation"}));
            }
            conversation
        }
        ("GET", ["v1", "turns", _]) => script.turn.clone(),
        ("GET", ["v1", "approvals"]) => json!({"approvals": script.approvals}),
        ("POST", ["v1", "approvals", id]) => {
            let index = script.approvals.iter().position(|a| a["id"] == *id);
            let Some(index) = index else { return problem(404, json!({"title": "gone"})) };
            let mut approval = script.approvals.remove(index);
            let approved = heard.body["decision"] == "approve";
            approval["state"] = json!(if approved { "approved" } else { "denied" });
            approval
        }
        ("GET", ["v1", "conversations", _, "messages"]) => json!({
            "messages": [{
                "role": "user", "text": "hello", "turn_id": TURN,
                "created_at": "2026-11-21T10:00:00Z",
            }],
            "before": null,
        }),
        ("GET", ["v1", "schedules"]) => json!({"schedules": []}),
        ("GET", ["v1", "plugins"]) => json!({"plugins": [plugin()], "fixed_tokens": 321}),
        ("GET", ["v1", "plugins", "dice"]) => plugin(),
        ("GET", ["v1", "plugins", "dice", "logs"]) => json!({"lines": ["the runner listens"]}),
        ("GET", ["v1", "knowledge"]) => json!({"knowledge": [
            {"id": uuid(5), "kind": "memory", "title": "", "body": "likes tea\u{1b}[2J"},
        ]}),
        ("GET", ["v1", "queue"]) => json!({"depth": 0, "running": 0, "waiting": 0, "dead": 1}),
        ("GET", ["v1", "queue", "dead"]) => json!({"jobs": [
            {"id": uuid(6), "kind": "turn", "lane": null, "reason": "no model", "attempts": 5,
             "died_at": "2026-11-21T10:00:00Z"},
        ]}),
        ("POST", ["v1", "queue", "dead", _, "retry"]) => return StatusCode::OK.into_response(),
        _ => return problem(404, json!({"title": "no such path", "detail": heard.path})),
    };
    axum::Json(body).into_response()
}

fn problem(status: u16, body: Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap();
    let mut response = (status, axum::Json(body)).into_response();
    if !status.is_success() {
        let kind = header::HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
    }
    response
}

fn events(shared: Arc<Shared>, steps: Vec<Step>) -> Response {
    let steps = futures::stream::unfold(steps.into_iter(), move |mut steps| {
        let shared = shared.clone();
        async move {
            loop {
                let bytes = match steps.next()? {
                    Step::Raw(text) => Bytes::from_static(text.as_bytes()),
                    Step::Send(id, event) => Bytes::from(written(id, event)),
                    Step::After(method, end) => {
                        shared.wait_for(method, end).await;
                        continue;
                    }
                    Step::Hang => std::future::pending().await,
                };
                return Some((Ok::<_, Infallible>(bytes), steps));
            }
        }
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(steps)).into_response()
}

fn written(id: EventId, event: Event) -> String {
    let at = Timestamp::from_second(1_763_719_200).unwrap();
    let envelope = Envelope { v: VERSION, id, conversation: CONVERSATION, at, event };
    let data = serde_json::to_value(&envelope).unwrap();
    let kind = data["event"]["type"].as_str().unwrap().to_owned();
    format!("id: {id}\nevent: {kind}\ndata: {data}\n\n")
}

/// Shorthand for scripts: each event under its fence and number.
pub(crate) fn send(fence: i64, number: i64, event: Event) -> Step {
    Step::Send(EventId { fence, number }, event)
}

pub(crate) fn accepted() -> Step {
    Step::After("POST", "/messages")
}

pub(crate) fn delta(text: &str) -> Event {
    Event::Delta { turn: TURN, kind: DeltaKind::Text, text: text.to_owned() }
}

pub(crate) fn thought(text: &str) -> Event {
    Event::Delta { turn: TURN, kind: DeltaKind::Reasoning, text: text.to_owned() }
}

pub(crate) fn tool(name: &str) -> Event {
    let status = Status::ToolRunning { call: "c".to_owned(), tool: name.to_owned() };
    Event::Status { turn: TURN, status }
}

pub(crate) fn results() -> Event {
    Event::Message { turn: TURN, message: MESSAGE, role: MessageRole::Tool }
}

pub(crate) fn ended(state: TurnState, text: &str) -> Event {
    Event::Complete { turn: TURN, state, message: Some(MESSAGE), text: text.to_owned() }
}

/// A stream of which a test reads what was written.
#[derive(Clone)]
pub(crate) struct Paper(Arc<watch::Sender<String>>);

impl Default for Paper {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(String::new())))
    }
}

impl Paper {
    pub(crate) fn text(&self) -> String {
        self.0.borrow().clone()
    }

    pub(crate) async fn wait_for(&self, part: &str) {
        self.0.subscribe().wait_for(|text| text.contains(part)).await.unwrap();
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Whole strings are written at once, so that no character is cut.
        self.0.send_modify(|text| text.push_str(std::str::from_utf8(bytes).unwrap()));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
