//! Conversations that go on calling a tool, whatever dies meanwhile, and what is to hold afterwards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use reqwest::{Client, Method};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use famulus_cluster_tests::kubectl::{LONG, tried, until};
use famulus_cluster_tests::release::{Release, name};

use crate::ledger::{self, Marks, PLUGIN};
use crate::order;

/// Conversations that speak at once.
pub(crate) const CLIENTS: usize = 3;

/// A request that is not answered by then is sent again.
const PATIENCE: Duration = Duration::from_secs(15);
const AGAIN: Duration = Duration::from_millis(250);

/// What stands before the id of a call whose result comes by itself.
const CALL_ID: &str = "is running; its call id is ";

/// How a call may end that was under way when something died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowed {
    /// Each happened, and its result is known.
    Done,
    /// Nobody is left to say what came of it.
    Unknown,
}

/// The release, over the address of its app's Service, which stays whatever dies.
pub(crate) async fn release() -> Release {
    let mut release = Release::open().await;
    release.through_service().await;
    // A connection to what is gone is not used again.
    let client = Client::builder().pool_max_idle_per_host(0);
    release.client = client.connect_timeout(Duration::from_secs(2)).build().unwrap();
    release
}

/// The way of one client to the app.
#[derive(Clone)]
pub(crate) struct Way {
    client: Client,
    address: String,
    token: String,
}

/// A message and the answer that its sender got.
struct Said {
    id: String,
    text: String,
    answer: String,
    turn: String,
}

struct Conversation {
    id: String,
    said: Vec<Said>,
    sent_again: usize,
}

pub(crate) struct Load {
    /// What the ids of its calls begin with.
    pub(crate) name: String,
    way: Way,
    clients: Vec<JoinHandle<Conversation>>,
    /// One for each call whose result comes by itself: what it says would join another's turn.
    late: Vec<Conversation>,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
}

impl Load {
    /// Begins, and goes on until each has been answered. A call takes so many seconds.
    pub(crate) async fn begin(release: &Release, what: &str, seconds: f64) -> Self {
        ledger::apply(release).await;
        let way = Way::of(release);
        let name = format!("{what}-{}", std::process::id());
        let (stop, answers) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let mut clients = Vec::new();
        for client in 0..CLIENTS {
            let mut conversation = way.open().await;
            let (way, name) = (way.clone(), format!("{name}-{client}"));
            let (stop, answers) = (Arc::clone(&stop), Arc::clone(&answers));
            clients.push(tokio::spawn(async move {
                for number in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let id = format!("{name}-{number}");
                    let text = format!("run mark of {PLUGIN} with id={id} seconds={seconds}");
                    conversation.say(&way, id, text).await;
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                conversation
            }));
        }
        Self { name, way, clients, late: Vec::new(), stop, answers }
    }

    /// Waits until there are answers to messages that were sent after this.
    pub(crate) async fn goes_on(&self) {
        let enough = self.answers.load(Ordering::Relaxed) + CLIENTS * 2;
        until("the conversations go on", LONG, async || {
            let now = self.answers.load(Ordering::Relaxed);
            if now >= enough { Ok(()) } else { Err(format!("{now} of {enough} answers")) }
        })
        .await;
    }

    /// Begins a call whose result comes by itself.
    pub(crate) async fn later(&mut self, seconds: u32) {
        let id = format!("{}-late-{}", self.name, self.late.len());
        let text = format!("run later of {PLUGIN} with id={id} seconds={seconds}");
        let mut conversation = self.way.open().await;
        conversation.say(&self.way, id, text).await;
        let answer = &conversation.said[0].answer;
        assert!(answer.contains(CALL_ID), "{answer}");
        self.late.push(conversation);
    }

    /// Ends it when what was begun is answered, and checks that nothing was lost or doubled.
    pub(crate) async fn end(self, release: &Release, allowed: Allowed) {
        self.stop.store(true, Ordering::Relaxed);
        let mut conversations = Vec::new();
        for client in self.clients {
            conversations.push(client.await.unwrap());
        }
        order::is_kept(release).await;
        let mut ended = Vec::new();
        for conversation in &conversations {
            let messages = self.way.messages(&conversation.id).await;
            for said in &conversation.said {
                ended.push((said.id.clone(), said.ended(&messages)));
            }
        }
        for conversation in &self.late {
            for said in &conversation.said {
                ended.push((said.id.clone(), self.way.came(&conversation.id, said).await));
            }
        }
        let sent_again: usize = conversations.iter().map(|one| one.sent_again).sum();
        // Reading is a call like others, so what was under way before has ended.
        let marks = ledger::marks(release).await;
        judge(&self.name, &ended, &marks, allowed, sent_again);
    }
}

/// What the record says of a call.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Done,
    Unknown,
    Failed(String),
}

fn judge(name: &str, ended: &[(String, Ended)], marks: &Marks, allowed: Allowed, again: usize) {
    let unknown = ended.iter().filter(|(_, ended)| *ended == Ended::Unknown).count();
    let done = ended.iter().filter(|(_, ended)| *ended == Ended::Done).count();
    let refused = ended.len() - done - unknown;
    println!("{name}: {done} done, {unknown} unknown, {refused} refused; sent again: {again}");
    for (id, ended) in ended {
        let (begun, finished) = marks.get(id).copied().unwrap_or_default();
        match ended {
            Ended::Done => assert_eq!((begun, finished), (1, 1), "{id} is done"),
            Ended::Unknown => assert!(begun <= 1 && allowed == Allowed::Unknown, "{id}: {begun}"),
            // It was refused while nobody was there to run it, and its answer says so.
            Ended::Failed(_) if begun == 0 && allowed == Allowed::Unknown => {}
            Ended::Failed(why) => panic!("{id}, which ran {begun} times: {why}"),
        }
    }
    let ours = marks.keys().filter(|id| id.starts_with(name));
    let mut strangers = ours.filter(|id| !ended.iter().any(|(sent, _)| sent == *id));
    assert_eq!(strangers.next(), None, "it ran, and nobody asked for it");
}

impl Conversation {
    /// Says something, again and again until it is answered.
    async fn say(&mut self, way: &Way, id: String, text: String) {
        let body = json!({"message": text, "conversation_id": self.id});
        let deadline = Instant::now() + LONG;
        loop {
            let seen = match way.ask(Method::POST, "/chat", Some((&id, &body))).await {
                Ok((200, reply)) => {
                    let text_of = |field: &str| reply[field].as_str().unwrap().to_owned();
                    let (answer, turn) = (text_of("response"), text_of("turn_id"));
                    return self.said.push(Said { id, text, answer, turn });
                }
                Ok((status, said)) if status == 202 || status >= 500 => format!("{status} {said}"),
                Ok((status, said)) => panic!("{id}: {status} {said}"),
                Err(error) => error,
            };
            assert!(Instant::now() < deadline, "{id} is not answered: {seen}");
            self.sent_again += 1;
            sleep(AGAIN).await;
        }
    }
}

impl Said {
    /// What the record says of it: one question, one call and one answer.
    fn ended(&self, messages: &[Value]) -> Ended {
        let questions = messages.iter().filter(|it| it["text"] == self.text.as_str());
        assert_eq!(questions.filter(|it| it["role"] == "user").count(), 1, "{}", self.id);
        let turn: Vec<_> =
            messages.iter().filter(|it| it["turn_id"] == self.turn.as_str()).collect();
        let is_cut = |message: &Value| message.to_string().contains("\"sentinel\"");
        let answers = turn.iter().filter(|it| it["role"] == "assistant" && it["has_text"] == true);
        let answers: Vec<_> = answers.filter(|it| !is_cut(it)).map(|it| &it["text"]).collect();
        assert_eq!(answers, [&json!(self.answer)], "{}", self.id);
        let results = turn.iter().filter(|it| it["role"] == "tool");
        let results: Vec<_> = results.map(|it| &it["parts"][0]["output"]).collect();
        let [output] = *results else { panic!("{}: {results:?}", self.id) };
        ended_with(&self.id, output["kind"].as_str().unwrap(), output["text"].as_str().unwrap())
    }
}

fn ended_with(id: &str, kind: &str, text: &str) -> Ended {
    match kind {
        "text" | "json" if text.contains(&format!("\"done\": \"{id}\"")) => Ended::Done,
        "unknown" => Ended::Unknown,
        _ => Ended::Failed(format!("{kind}: {text}")),
    }
}

impl Way {
    pub(crate) fn of(release: &Release) -> Self {
        let Release { client, address, token, .. } = release;
        Self { client: client.clone(), address: address.clone(), token: token.clone() }
    }

    async fn open(&self) -> Conversation {
        let path = "/v1/conversations";
        let opened = until("a conversation is opened", LONG, async || {
            let (status, opened) = self.ask(Method::POST, path, Some(("", &json!({})))).await?;
            if (200..300).contains(&status) { Ok(opened) } else { Err(opened.to_string()) }
        })
        .await;
        let id = opened["id"].as_str().unwrap().to_owned();
        Conversation { id, said: Vec::new(), sent_again: 0 }
    }

    /// One request; with a body comes the key by which it counts once.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<(&str, &Value)>,
    ) -> Result<(u16, Value), String> {
        let request = self.client.request(method, format!("{}{path}", self.address));
        let mut request = request.bearer_auth(&self.token).timeout(PATIENCE);
        if let Some((key, body)) = body {
            request = request.json(body);
            if !key.is_empty() {
                request = request.header("idempotency-key", key);
            }
        }
        let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
        let status = answer.status().as_u16();
        if status == 204 {
            return Ok((status, Value::Null));
        }
        Ok((status, answer.json().await.map_err(|error| format!("{status}: {error:?}"))?))
    }

    /// All messages of a conversation.
    async fn messages(&self, conversation: &str) -> Vec<Value> {
        let mut messages = Vec::new();
        let mut before = String::new();
        loop {
            let path = format!("/v1/conversations/{conversation}/messages?limit=100{before}");
            let page = until("messages are read", LONG, async || {
                let (status, page) = self.ask(Method::GET, &path, None).await?;
                if status == 200 { Ok(page) } else { Err(page.to_string()) }
            })
            .await;
            messages.extend(page["messages"].as_array().unwrap().iter().cloned());
            let Some(cursor) = page["before"].as_str() else { return messages };
            before = format!("&before={cursor}");
        }
    }

    /// What a late result says, which comes once.
    async fn came(&self, conversation: &str, said: &Said) -> Ended {
        let call = said.answer.split(CALL_ID).nth(1).unwrap();
        let call = call.split_once(". The result").unwrap().0;
        let begins = format!("The result of call {call} has come.");
        let look = async {
            loop {
                let messages = self.messages(conversation).await;
                let is_it = |it: &&Value| {
                    it["role"] == "user" && it["text"].as_str().unwrap().starts_with(&begins)
                };
                let came: Vec<_> = messages.iter().filter(is_it).collect();
                assert!(came.len() <= 1, "{}: {came:?}", said.id);
                if let Some(it) = came.first() {
                    return it["text"].as_str().unwrap().to_owned();
                }
                sleep(AGAIN).await;
            }
        };
        let Ok(text) = timeout(LONG, look).await else {
            panic!(
                "the result of {} did not come within {LONG:?}\n{}",
                said.id,
                said_by_all().await
            )
        };
        let kind = if text.contains("\"done\"") { "text" } else { "unknown" };
        ended_with(&said.id, kind, &text)
    }
}

/// What app and runner have logged, before another death takes it away.
async fn said_by_all() -> String {
    let (own, sandbox) = (name(), format!("{}-sandbox", name()));
    let app = format!("app.kubernetes.io/instance={own},app.kubernetes.io/component=app");
    let runner = format!("famulus.dev/plugin={PLUGIN}");
    let mut all = String::new();
    for (namespace, selector) in [(&own, &app), (&sandbox, &runner)] {
        for before in ["--previous=false", "--previous"] {
            let words = ["-n", namespace, "logs", "-l", selector, "--prefix", "--tail=80", before];
            all.push_str(&tried(&words).await.unwrap_or_else(|complaint| complaint));
        }
    }
    all
}
