//! A caller with a token.

use super::{documented, soon, watch::Watcher};
use reqwest::{Method, RequestBuilder, header::HeaderMap};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};

/// How often something is asked for again.
const AGAIN: Duration = Duration::from_millis(15);

#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Answer {
    /// The body of an answer that must be a success.
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{}: {}", self.status, self.body);
        self.body
    }

    /// The detail of a refusal that must have this status, be a problem document and have a remedy.
    pub(crate) fn refused(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.body);
        let media = self.headers.get("content-type").map(|v| v.to_str().unwrap());
        assert_eq!(media, Some("application/problem+json"), "{}", self.body);
        assert_eq!(self.body["status"], status);
        let word = |name: &str| self.body[name].as_str().unwrap_or_default();
        assert!(!word("remedy").is_empty() && !word("title").is_empty(), "{}", self.body);
        assert!(word("type").starts_with("/problems/"), "{}", self.body);
        word("detail").to_owned()
    }
}

impl Client {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Self {
        // A machine that stands still for half a minute is no reason to give a connection up.
        let http = reqwest::Client::builder().no_proxy().tcp_user_timeout(None).build().unwrap();
        Self { http, address, token: token.to_owned() }
    }

    /// The same server with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http.request(method, format!("http://{}{path}", self.address)).bearer_auth(&self.token)
    }

    /// A request without the token, to wherever.
    pub(crate) fn anybody(&self, method: Method, url: String) -> RequestBuilder {
        self.http.request(method, url)
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        answer(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Answer {
        answer(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        answer(self.request(Method::DELETE, path)).await
    }

    /// Posts with an `Idempotency-Key`.
    pub(crate) async fn post_keyed(&self, path: &str, key: &str, body: Value) -> Answer {
        answer(self.request(Method::POST, path).header("idempotency-key", key).json(&body)).await
    }

    pub(crate) async fn upload(&self, text: &str) -> String {
        let request = self.request(Method::POST, "/v1/blobs").header("content-type", "text/plain");
        let stored = answer(request.body(text.to_owned())).await.ok();
        stored["id"].as_str().unwrap().to_owned()
    }

    /// Talks in the main conversation, and waits for the whole turn.
    pub(crate) async fn chat(&self, message: &str) -> Value {
        self.post("/chat", json!({ "message": message })).await.ok()
    }

    /// Talks, and returns what is said in reply.
    pub(crate) async fn say(&self, message: &str) -> String {
        let reply = self.chat(message).await;
        assert_eq!(reply["state"], "complete", "{reply}");
        reply["response"].as_str().unwrap().to_owned()
    }

    /// Waits until the main conversation has its title: the model is not asked for one any more.
    pub(crate) async fn titled(&self) {
        let titled = async {
            while self.get("/v1/conversations/main").await.ok()["title"].is_null() {
                tokio::time::sleep(AGAIN).await;
            }
        };
        soon("the conversation gets a title", titled).await;
    }

    /// Opens a conversation with this agent. It has a title, so that no model is asked for one.
    pub(crate) async fn open(&self, agent: &str) -> String {
        let named = json!({ "agent": agent, "title": "Test" });
        let made = self.post("/v1/conversations", named).await.ok();
        made["id"].as_str().unwrap().to_owned()
    }

    /// Sends a message without waiting for the reply.
    pub(crate) async fn send(&self, conversation: &str, text: &str) -> Value {
        self.post(&format!("/v1/conversations/{conversation}/messages"), json!({ "text": text }))
            .await
            .ok()
    }

    /// Sends a message that begins a turn; the turn's id.
    pub(crate) async fn begin(&self, conversation: &str, text: &str) -> String {
        let accepted = self.send(conversation, text).await;
        assert_eq!(accepted["disposition"], "started", "{accepted}");
        id_of(&accepted, "turn_id")
    }

    pub(crate) async fn turn(&self, turn: &str) -> Value {
        self.get(&format!("/v1/turns/{turn}")).await.ok()
    }

    /// Waits until the turn is in this state.
    pub(crate) async fn reaches(&self, turn: &str, state: &str) -> Value {
        let reached = async {
            loop {
                let now = self.turn(turn).await;
                if now["state"] == state {
                    return now;
                }
                let over = ["complete", "failed", "cancelled"].iter().any(|s| now["state"] == **s);
                assert!(!over, "the turn should have become {state}: {now}");
                tokio::time::sleep(AGAIN).await;
            }
        };
        soon(&format!("turn {turn} becomes {state}"), reached).await
    }

    /// Waits for the question that the turn asks.
    pub(crate) async fn asked(&self, turn: &str) -> Value {
        self.asked_besides(turn, &Value::Null).await
    }

    /// Waits for a question that is not this one.
    pub(crate) async fn asked_besides(&self, turn: &str, known: &Value) -> Value {
        let asked = async {
            loop {
                let waiting = self.reaches(turn, "waiting").await;
                let questions = waiting["approvals"].as_array().unwrap().iter();
                if let Some(question) = questions.rev().find(|q| q["id"] != known["id"]) {
                    return question.clone();
                }
                tokio::time::sleep(AGAIN).await;
            }
        };
        soon(&format!("turn {turn} asks"), asked).await
    }

    /// All messages of the conversation.
    pub(crate) async fn messages(&self, conversation: &str) -> Vec<Value> {
        let path = format!("/v1/conversations/{conversation}/messages?limit=200");
        let mut listed = self.get(&path).await.ok();
        let Value::Array(messages) = listed["messages"].take() else { panic!("{listed}") };
        messages
    }

    /// Watches a conversation from its live turn on.
    pub(crate) async fn watch(&self, conversation: &str) -> Watcher {
        self.watch_after(conversation, "").await
    }

    /// Watches a conversation from behind an event on.
    pub(crate) async fn watch_after(&self, conversation: &str, last: &str) -> Watcher {
        let path = format!("/v1/conversations/{conversation}/events");
        let request = self.request(Method::GET, &path).header("last-event-id", last);
        let response = request.send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        Watcher::new(response)
    }

    /// Watches what happens to the person's lists and conversations.
    pub(crate) async fn watch_lists(&self) -> Watcher {
        let response = self.request(Method::GET, "/v1/events").send().await.unwrap();
        assert_eq!(response.status().as_u16(), 200);
        Watcher::new(response)
    }

    /// Adds a member with a token of theirs.
    pub(crate) async fn member(&self, name: &str) -> Self {
        let person = json!({ "name": name, "role": "member", "time_zone": "Asia/Tokyo" });
        let person = self.post("/v1/people", person).await.ok();
        self.made_token(json!({ "name": "test", "scope": "chat", "person": person["id"] })).await
    }

    /// The caller's own rights, reduced to talking.
    pub(crate) async fn chat_only(&self) -> Self {
        self.made_token(json!({ "name": "bridge", "scope": "chat" })).await
    }

    async fn made_token(&self, wanted: Value) -> Self {
        let made = self.post("/v1/tokens", wanted).await.ok();
        self.with_token(made["token"].as_str().unwrap())
    }
}

/// What comes back, which the document must have led one to expect.
pub(crate) async fn answer(request: RequestBuilder) -> Answer {
    let (http, request) = request.build_split();
    let request = request.unwrap();
    let (method, path) = (request.method().clone(), request.url().path().to_owned());
    let response = soon("an answer comes", http.execute(request)).await.unwrap();
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    documented::check(&method, &path, status);
    let body = response.bytes().await.unwrap();
    Answer { status, headers, body: serde_json::from_slice(&body).unwrap_or_default() }
}

pub(crate) fn id_of(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}")).to_owned()
}
