//! The peer: a listener on loopback, and what a test does with it.

use crate::fault::Fault;
use crate::methods::{self, Reply};
use crate::parameters::Parameters;
use crate::people::{Chat, User};
use crate::world::{Message, World};
use crate::{files, updates};
use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use bytes::Bytes;
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

/// Long for anything that a test waits for.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(10);

/// A scripted Telegram with one bot.
#[derive(Clone)]
pub struct Telegram {
    shared: Arc<Shared>,
    tasks: Tasks,
}

pub(crate) struct Shared {
    world: Mutex<World>,
    /// Something is to be told, or a newer poll waits.
    pub(crate) news: Notify,
    address: SocketAddr,
}

impl Shared {
    pub(crate) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }
}

impl Telegram {
    /// Serves on a free port of loopback.
    pub async fn start(token: &str) -> std::io::Result<Self> {
        Self::at(token, SocketAddr::from(([127, 0, 0, 1], 0))).await
    }

    /// Serves at an address.
    pub async fn at(token: &str, address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let bot = token.split(':').next().and_then(|id| id.parse().ok()).unwrap_or(42);
        let shared = Arc::new(Shared {
            world: Mutex::new(World::new(bot, token)),
            news: Notify::new(),
            address: listener.local_addr()?,
        });
        let router = Router::new()
            .route("/file/{bot}/{*path}", any(file))
            .route("/{bot}/{method}", any(call))
            .with_state(Arc::clone(&shared));
        let tasks = Tasks::new();
        let shutdown = tasks.token();
        tasks.spawn("telegram", OnExit::Log, async move {
            let served = axum::serve(listener, router);
            tokio::select! {
                _ended = served => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self { shared, tasks })
    }

    /// What a bot is told to ask.
    pub fn base_url(&self) -> String {
        format!("http://{}", self.shared.address)
    }

    /// Goes away, as after a power cut.
    pub async fn stop(&self) {
        let _stragglers = self.tasks.drain(Duration::from_secs(1)).await;
    }

    /// The bot's id.
    pub fn bot(&self) -> i64 {
        self.world().bot
    }

    /// The next call of this method (`*`: of any) meets this; several wait in order.
    pub fn fault(&self, method: &str, fault: Fault) {
        self.world().faults.entry(method.to_owned()).or_default().push_back(fault);
    }

    /// Somebody writes a text; the number of their message.
    pub fn write(&self, user: &User, chat: &Chat, text: &str) -> i64 {
        self.send_update("message", user, chat, json!({"text": text}))
    }

    /// Somebody sends something else: fields of a message.
    pub fn send(&self, user: &User, chat: &Chat, fields: Value) -> i64 {
        self.send_update("message", user, chat, fields)
    }

    /// Somebody changes what they wrote.
    pub fn edit(&self, user: &User, chat: &Chat, message: i64, fields: Value) {
        let mut world = self.world();
        let mut edited = updates::message(user, chat, message, fields);
        edited["edit_date"] = json!(updates::now());
        world.tell("edited_message", edited);
        drop(world);
        self.shared.news.notify_waiters();
    }

    fn send_update(&self, kind: &str, user: &User, chat: &Chat, fields: Value) -> i64 {
        let mut world = self.world();
        let id = world.message_id(chat.id);
        world.blocked.remove(&chat.id);
        world.written.insert((chat.id, id));
        let message = updates::message(user, chat, id, fields);
        world.tell(kind, message);
        drop(world);
        self.shared.news.notify_waiters();
        id
    }

    /// Somebody presses a button of a message, or sends such a press without there being one.
    pub fn press(&self, user: &User, message: &Message, data: &str) {
        let mut world = self.world();
        let number = world.next_update;
        let press = json!({
            "id": format!("press-{number}"), "from": user.json(), "chat_instance": "1", "data": data,
            "message": {"message_id": message.id, "date": updates::now(),
                "chat": {"id": message.chat, "type": "private"}},
        });
        world.tell("callback_query", press);
        drop(world);
        self.shared.news.notify_waiters();
    }

    /// Somebody blocks the bot, or lets it write again.
    pub fn block(&self, user: &User, blocks: bool) {
        let mut world = self.world();
        if blocks {
            world.blocked.insert(user.id);
        } else {
            world.blocked.remove(&user.id);
        }
        let status = if blocks { "kicked" } else { "member" };
        let bot = world.bot_json();
        let change = json!({"chat": user.chat().json(), "from": user.json(), "date": updates::now(),
            "old_chat_member": {"status": "member", "user": bot},
            "new_chat_member": {"status": status, "user": bot}});
        world.tell("my_chat_member", change);
        drop(world);
        self.shared.news.notify_waiters();
    }

    /// Somebody brings the bot into a group.
    pub fn invite(&self, user: &User, chat: &Chat) {
        let mut world = self.world();
        let bot = world.bot_json();
        let change = json!({"chat": chat.json(), "from": user.json(), "date": updates::now(),
            "old_chat_member": {"status": "left", "user": bot},
            "new_chat_member": {"status": "member", "user": bot}});
        world.tell("my_chat_member", change);
        drop(world);
        self.shared.news.notify_waiters();
    }

    /// A group becomes another: what is sent to the old one is refused, with the new one's id.
    pub fn migrate(&self, user: &User, from: &Chat, to: &Chat) {
        let mut world = self.world();
        world.moved.insert(from.id, to.id);
        world.message_id(to.id);
        let id = world.message_id(from.id);
        let moved = updates::message(user, from, id, json!({"migrate_to_chat_id": to.id}));
        world.tell("message", moved);
        drop(world);
        self.shared.news.notify_waiters();
    }

    /// Tells an update as it stands: nothing of it is checked.
    pub fn tell(&self, kind: &str, what: Value) -> i64 {
        let number = self.world().tell(kind, what);
        self.shared.news.notify_waiters();
        number
    }

    /// Keeps a file, so that a message can name it; its handle.
    pub fn keep(&self, bytes: impl Into<Bytes>) -> String {
        let mut world = self.world();
        let handle = format!("file-{}", world.files.len() + 1);
        world.files.insert(handle.clone(), bytes.into());
        handle
    }

    /// From now on updates go to a webhook, and polls are refused.
    pub fn set_webhook(&self, url: Option<&str>) {
        self.world().webhook = url.map(str::to_owned);
        self.shared.news.notify_waiters();
    }

    /// From now on the bot has another token.
    pub fn revoke(&self, token: &str) {
        token.clone_into(&mut self.world().token);
        self.shared.news.notify_waiters();
    }

    /// What the bot sent to a chat, in order, as it stands now.
    pub fn sent_to(&self, chat: i64) -> Vec<Message> {
        self.world().messages.iter().filter(|message| message.chat == chat).cloned().collect()
    }

    /// All that the bot sent.
    pub fn sent(&self) -> Vec<Message> {
        self.world().messages.clone()
    }

    /// Waits for a message to a chat that fits; it fails the test when none comes.
    pub async fn wait_for(&self, chat: i64, fits: impl Fn(&Message) -> bool) -> Message {
        let begun = Instant::now();
        loop {
            let found = self.sent_to(chat).into_iter().find(|message| fits(message));
            if let Some(found) = found {
                return found;
            }
            assert!(begun.elapsed() < PATIENCE, "nothing fits of {:#?}", self.sent_to(chat));
            sleep(LOOK).await;
        }
    }

    /// Updates that the bot has not confirmed.
    pub fn unconfirmed(&self) -> usize {
        self.world().updates.len()
    }

    /// Presses that were answered, and with what.
    pub fn answered(&self) -> Vec<(String, String)> {
        self.world().answered.clone()
    }

    /// Chats that the bot left.
    pub fn left(&self) -> Vec<i64> {
        self.world().left.clone()
    }

    /// What people wrote and the bot deleted: chat and number.
    pub fn deleted(&self) -> Vec<(i64, i64)> {
        self.world().deleted.clone()
    }

    /// Counts messages and updates from here on: a bot takes a number that it knows for a repetition.
    pub fn count_from(&self, first: i64) {
        let mut world = self.world();
        world.before = first;
        world.next_update = first;
    }

    /// Drafts that were shown: chat and text.
    pub fn drafts(&self) -> Vec<(i64, String)> {
        self.world().drafts.clone()
    }

    /// What the bot was said to be doing: chat and action.
    pub fn actions(&self) -> Vec<(i64, String)> {
        self.world().actions.clone()
    }

    /// Every call: method and parameters.
    pub fn calls(&self) -> Vec<(String, Value)> {
        self.world().calls.clone()
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }
}

async fn call(
    State(shared): State<Arc<Shared>>,
    Path((bot, method)): Path<(String, String)>,
    request: Request,
) -> Response {
    let method = method.to_ascii_lowercase();
    if bot != format!("bot{}", shared.world().token) {
        return error(401, "Unauthorized", json!({}));
    }
    let parameters = Parameters::read(request).await;
    let fault = {
        let mut world = shared.world();
        world.calls.push((method.clone(), Value::Object(parameters.values.clone())));
        world.fault(&method)
    };
    match fault {
        None => answer(methods::call(&shared, &method, parameters).await),
        Some(Fault::Busy(seconds)) => {
            let text = format!("Too Many Requests: retry after {seconds}");
            let mut response = error(429, &text, json!({"retry_after": seconds}));
            if let Ok(value) = seconds.to_string().parse() {
                response.headers_mut().insert(header::RETRY_AFTER, value);
            }
            response
        }
        Some(Fault::Status(status)) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY);
            (status, "<html><body>nginx</body></html>").into_response()
        }
        Some(Fault::Refused(code, description)) => error(code, &description, json!({})),
        Some(Fault::CutBefore) => cut(),
        Some(Fault::CutAfter) => {
            let _done = methods::call(&shared, &method, parameters).await;
            cut()
        }
        Some(Fault::Slow(by)) => {
            let reply = methods::call(&shared, &method, parameters).await;
            sleep(by).await;
            answer(reply)
        }
        Some(Fault::Malformed) => {
            let reply = methods::call(&shared, &method, parameters).await;
            let whole = match reply {
                Reply::Done(result) => json!({"ok": true, "result": result}).to_string(),
                Reply::Refused { description, .. } => description,
            };
            ([(header::CONTENT_TYPE, "application/json")], whole[..whole.len() / 2].to_owned())
                .into_response()
        }
    }
}

async fn file(
    State(shared): State<Arc<Shared>>,
    Path((bot, path)): Path<(String, String)>,
) -> Response {
    if bot != format!("bot{}", shared.world().token) {
        return error(401, "Unauthorized", json!({}));
    }
    match shared.world().fault("file") {
        Some(Fault::CutBefore | Fault::CutAfter) => return cut(),
        Some(Fault::Status(status)) => {
            return error(status, "Not Found", json!({}));
        }
        Some(_) | None => {}
    }
    match files::bytes(&shared, &path) {
        Some(bytes) => Body::from(bytes).into_response(),
        None => error(404, "Not Found", json!({})),
    }
}

fn answer(reply: Reply) -> Response {
    match reply {
        Reply::Done(result) => {
            let body = json!({"ok": true, "result": result}).to_string();
            ([(header::CONTENT_TYPE, "application/json")], body).into_response()
        }
        Reply::Refused { code, description, parameters } => error(code, &description, parameters),
    }
}

fn error(code: u16, description: &str, parameters: Value) -> Response {
    let mut body = json!({"ok": false, "error_code": code, "description": description});
    if parameters.as_object().is_some_and(|fields| !fields.is_empty()) {
        body["parameters"] = parameters;
    }
    let status = StatusCode::from_u16(code).unwrap_or(StatusCode::BAD_REQUEST);
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// A body that breaks off: the head says that more would come.
fn cut() -> Response {
    let broken = futures::stream::iter([
        Ok(Bytes::from_static(b"{")),
        Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset)),
    ]);
    ([(header::CONTENT_TYPE, "application/json")], Body::from_stream(broken)).into_response()
}
