//! A model on loopback that speaks the OpenAI wire and notes to whom it is speaking, and when.
//!
//! An answer is told by the last mark, `[[number]]`, of the request: whoever asks is known by it.
//! Answers are written to the socket piece by piece, each in one write, so that the moment before
//! the write is the one in which the piece was there to be read.

use crate::pulse::Pulse;
use anyhow::{Context, Result};
use famulus_lifecycle::{OnExit, Tasks};
use memchr::memmem;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    task::JoinSet,
};
use url::Url;

const HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
/// Between two words of a model that does not rest.
const WORD: Duration = Duration::from_millis(10);
/// Words of it before each call.
const WORDS: usize = 20;

/// What it answers.
#[derive(Clone)]
pub(crate) enum Manner {
    /// A short text, at once.
    Brief,
    /// Words and then a call that writes, without end: the turn ends only when it is stopped.
    Restless,
    /// Numbered words at a steady pace, each stamped.
    Steady(Arc<Pulse>),
}

pub(crate) struct Model {
    pub(crate) url: Url,
    shared: Arc<Shared>,
    tasks: Tasks,
}

struct Shared {
    manner: Mutex<Manner>,
    asked: Mutex<HashMap<u64, Asked>>,
    /// The newest request.
    last: Mutex<Value>,
}

/// What is known of the requests under one mark.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// Requests so far.
    pub(crate) requests: usize,
    /// Answers that are being read.
    pub(crate) open: usize,
    /// When the last answer was read to its end, or was hung up on.
    pub(crate) closed: Option<Instant>,
    /// The name by which it was asked for.
    pub(crate) by: String,
}

impl Model {
    pub(crate) async fn start(manner: Manner) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}/v1", listener.local_addr()?).parse()?;
        let tasks = Tasks::new();
        let shared = Arc::new(Shared {
            manner: Mutex::new(manner),
            asked: Mutex::default(),
            last: Mutex::default(),
        });
        let serving = serve(listener, Arc::clone(&shared));
        let shutdown = tasks.token();
        tasks.spawn("model", OnExit::Log, async move {
            tokio::select! {
                () = serving => {}
                () = shutdown.cancelled() => {}
            }
        });
        Ok(Self { url, shared, tasks })
    }

    pub(crate) fn behave(&self, manner: Manner) {
        *self.shared.manner.lock() = manner;
    }

    pub(crate) fn asked(&self, mark: u64) -> Asked {
        self.shared.asked.lock().get(&mark).cloned().unwrap_or_default()
    }

    pub(crate) fn last(&self) -> Value {
        self.shared.last.lock().clone()
    }

    pub(crate) fn end(&self) {
        self.tasks.shutdown();
    }
}

async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                // Without a connection whoever asks tries again.
                let Ok((socket, _)) = accepted else { continue };
                let shared = Arc::clone(&shared);
                connections.spawn(async move {
                    // Hanging up is the caller's right, and what is measured.
                    let _hung_up = answer(socket, &shared).await;
                });
            }
            Some(_ended) = connections.join_next() => {}
        }
    }
}

/// One request on one connection.
async fn answer(socket: TcpStream, shared: &Shared) -> Result<()> {
    socket.set_nodelay(true)?;
    let (mut reading, writing) = socket.into_split();
    let body = read_request(&mut reading).await?;
    let mark = mark(&body);
    let request: Value = serde_json::from_slice(&body)?;
    let number = {
        let mut asked = shared.asked.lock();
        let asked = asked.entry(mark).or_default();
        asked.requests += 1;
        asked.open += 1;
        request["model"].as_str().unwrap_or_default().clone_into(&mut asked.by);
        asked.requests
    };
    *shared.last.lock() = request;
    let manner = shared.manner.lock().clone();
    let mut answer = Answer { writing };
    let said = async {
        answer.write(HEAD).await?;
        match manner {
            Manner::Brief => answer.brief().await,
            Manner::Restless => answer.restless(mark, number).await,
            Manner::Steady(pulse) => answer.steady(&pulse).await,
        }
    };
    let mut rest = [0; 256];
    let outcome = tokio::select! {
        said = said => said,
        // The caller sends nothing any more: it has hung up.
        _hung_up = reading.read(&mut rest) => Ok(()),
    };
    let mut asked = shared.asked.lock();
    if let Some(asked) = asked.get_mut(&mark) {
        asked.open -= 1;
        asked.closed = Some(Instant::now());
    }
    outcome
}

struct Answer {
    writing: tokio::net::tcp::OwnedWriteHalf,
}

impl Answer {
    async fn write(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.writing.write_all(bytes).await?)
    }

    async fn say(&mut self, text: &str) -> Result<()> {
        self.write(&frame(&json!({ "content": text }), None)).await
    }

    async fn finish(&mut self, reason: &str) -> Result<()> {
        let mut last = frame(&json!({}), Some(reason));
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 9}});
        last.extend_from_slice(format!("data: {usage}\n\ndata: [DONE]\n\n").as_bytes());
        self.write(&last).await
    }

    async fn brief(&mut self) -> Result<()> {
        self.say("Done.").await?;
        self.finish("stop").await
    }

    /// Each call is another one: the same again and again would end the turn.
    async fn restless(&mut self, mark: u64, number: usize) -> Result<()> {
        for _ in 0..WORDS {
            self.say("and again ").await?;
            tokio::time::sleep(WORD).await;
        }
        let content = format!("mark {mark}, number {number}");
        let arguments = json!({"action": "upsert", "store": "memory", "content": content});
        let function = json!({"name": "manage_knowledge", "arguments": arguments.to_string()});
        let call = json!({"index": 0, "id": "call_0", "type": "function", "function": function});
        self.write(&frame(&json!({ "tool_calls": [call] }), None)).await?;
        self.finish("tool_calls").await
    }

    async fn steady(&mut self, pulse: &Pulse) -> Result<()> {
        let mut beat = tokio::time::interval(pulse.pace);
        for number in 0..pulse.count {
            beat.tick().await;
            let piece = frame(&json!({ "content": pulse.word(number) }), None);
            pulse.stamp(number, Instant::now());
            self.write(&piece).await?;
        }
        self.finish("stop").await
    }
}

fn frame(delta: &Value, finish: Option<&str>) -> Vec<u8> {
    let chunk = json!({
        "id": "chatcmpl-bench",
        "object": "chat.completion.chunk",
        "model": "bench",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    });
    format!("data: {chunk}\n\n").into_bytes()
}

/// The body of a request that says how long it is.
async fn read_request(reading: &mut OwnedReadHalf) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(16 * 1024);
    loop {
        anyhow::ensure!(reading.read_buf(&mut bytes).await? > 0, "hung up before asking");
        let Some(end) = memmem::find(&bytes, b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length.context("no length")?.trim().parse()?;
        let begin = end + 4;
        while bytes.len() < begin + length {
            anyhow::ensure!(reading.read_buf(&mut bytes).await? > 0, "hung up while asking");
        }
        return Ok(bytes.split_off(begin));
    }
}

/// The number in the last `[[number]]`; 0 without one.
fn mark(body: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(body);
    let inside = text.rsplit_once("[[").and_then(|(_, rest)| rest.split_once("]]"));
    inside.and_then(|(number, _)| number.parse().ok()).unwrap_or_default()
}
