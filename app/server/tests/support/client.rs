//! A client that never gives up: it repeats every request until some process answers it.

use crate::support::fleet::Fleet;
use anyhow::{Context, Result, bail, ensure};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep};
use uuid::Uuid;

/// A process that is stopped answers nobody; another one does.
const ANSWER: Duration = Duration::from_secs(3);
/// Longer than any number of deaths may keep a request waiting.
const PATIENCE: Duration = Duration::from_secs(90);
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
    fleet: Arc<Fleet>,
    turn: Arc<AtomicUsize>,
}

/// How a message meets a turn that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    Steer,
    Queue,
}

/// What a process said of a message: from then on it must not be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ack {
    pub(crate) message: Uuid,
    pub(crate) turn: Uuid,
    pub(crate) disposition: String,
}

impl Client {
    pub(crate) fn new(fleet: Arc<Fleet>, token: String) -> Result<Self> {
        let http = reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([])
            .connect_timeout(Duration::from_secs(1))
            .build()?;
        Ok(Self { http, token, fleet, turn: Arc::default() })
    }

    /// Asks one process after the other until one answers with something else than *not now*.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<(StatusCode, Value)> {
        let begun = Instant::now();
        let mut last = "no process runs".to_owned();
        while begun.elapsed() < PATIENCE {
            match self.ask_once(method.clone(), path, key, body).await {
                Ok(Some((status, answer))) if !is_passing(status) => return Ok((status, answer)),
                Ok(Some((status, answer))) => last = format!("{status}: {answer}"),
                Ok(None) => {}
                Err(error) => last = format!("{error:#}"),
            }
            sleep(PAUSE).await;
        }
        bail!("{method} {path} was not answered within {PATIENCE:?}; the last answer: {last}")
    }

    /// One try, at the process whose turn it is; `None` when none runs.
    pub(crate) async fn ask_once(
        &self,
        method: Method,
        path: &str,
        key: Option<&str>,
        body: Option<&Value>,
    ) -> Result<Option<(StatusCode, Value)>> {
        let Some(url) = self.url_of(path) else { return Ok(None) };
        let mut request = self.http.request(method, url).bearer_auth(&self.token).timeout(ANSWER);
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await?;
        let status = response.status();
        let bytes = response.bytes().await?;
        Ok(Some((status, serde_json::from_slice(&bytes).unwrap_or(Value::Null))))
    }

    /// Of the process whose turn it is; `None` when none runs.
    fn url_of(&self, path: &str) -> Option<String> {
        let addresses = self.fleet.addresses();
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let (_, address) = addresses.get(turn % addresses.len().max(1))?;
        Some(format!("http://{address}{path}"))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let (status, answer) = self.ask(Method::GET, path, None, None).await?;
        ensure!(status == StatusCode::OK, "GET {path}: {status}: {answer}");
        Ok(answer)
    }

    /// Opens a conversation; one that a dying process opened unheard stays empty.
    pub(crate) async fn converse(&self) -> Result<Uuid> {
        let path = "/v1/conversations";
        let (status, answer) = self.ask(Method::POST, path, None, Some(&json!({}))).await?;
        ensure!(status == StatusCode::CREATED, "POST {path}: {status}: {answer}");
        id(&answer, "id")
    }

    /// Sends a message until it is acknowledged.
    pub(crate) async fn say(
        &self,
        conversation: Uuid,
        key: &str,
        text: &str,
        meeting: Meeting,
        file: Option<Uuid>,
    ) -> Result<Ack> {
        let path = format!("/v1/conversations/{conversation}/messages");
        let meeting = match meeting {
            Meeting::Steer => "steer",
            Meeting::Queue => "queue",
        };
        let mut body = json!({"text": text, "meeting": meeting});
        if let Some(file) = file {
            body["attachments"] = json!([{"blob": {"id": file}, "name": "file.txt"}]);
        }
        let (status, answer) = self.ask(Method::POST, &path, Some(key), Some(&body)).await?;
        ensure!(status == StatusCode::ACCEPTED, "POST {path}: {status}: {answer}");
        Ok(Ack {
            message: id(&answer, "message_id")?,
            turn: id(&answer, "turn_id")?,
            disposition: answer["disposition"].as_str().unwrap_or_default().to_owned(),
        })
    }

    /// Stores a file. One content is one file, however often it is sent.
    pub(crate) async fn upload(&self, bytes: &[u8], media_type: &str) -> Result<Uuid> {
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            if let Some(url) = self.url_of("/v1/blobs") {
                let request = self.http.post(url).bearer_auth(&self.token).timeout(ANSWER);
                let request = request.header("content-type", media_type).body(bytes.to_vec());
                match request.send().await {
                    Ok(answer) if answer.status().is_success() => {
                        return id(&answer.json().await?, "id");
                    }
                    Ok(answer) if !is_passing(answer.status()) => {
                        bail!("POST /v1/blobs: {}", answer.status());
                    }
                    Ok(_) | Err(_) => {}
                }
            }
            sleep(PAUSE).await;
        }
        bail!("a file was not taken within {PATIENCE:?}")
    }

    pub(crate) async fn state_of(&self, turn: Uuid) -> Result<String> {
        let answer = self.get(&format!("/v1/turns/{turn}")).await?;
        Ok(answer["state"].as_str().unwrap_or_default().to_owned())
    }

    /// The turn that took over what a turn had not read.
    pub(crate) async fn successor_of(&self, turn: Uuid) -> Result<Option<Uuid>> {
        let answer = self.get(&format!("/v1/turns/{turn}")).await?;
        Ok(answer["successor_id"].as_str().and_then(|id| id.parse().ok()))
    }

    pub(crate) async fn stop(&self, conversation: Uuid) -> Result<()> {
        let path = format!("/v1/conversations/{conversation}/stop");
        let (status, answer) = self.ask(Method::POST, &path, None, Some(&json!({}))).await?;
        ensure!(status == StatusCode::OK, "POST {path}: {status}: {answer}");
        Ok(())
    }

    /// The open questions: id and what the call would do.
    pub(crate) async fn questions(&self) -> Result<Vec<(Uuid, String)>> {
        let answer = self.get("/v1/approvals?state=pending").await?;
        let questions = answer["approvals"].as_array().cloned().unwrap_or_default();
        questions
            .iter()
            .map(|question| {
                Ok((id(question, "id")?, question["summary"].as_str().unwrap_or_default().into()))
            })
            .collect()
    }

    /// Answers a question; one that is closed already was answered by a try that died.
    pub(crate) async fn decide(&self, question: Uuid, yes: bool) -> Result<()> {
        let path = format!("/v1/approvals/{question}");
        let body = json!({"decision": if yes { "approve" } else { "deny" }});
        let (status, answer) = self.ask(Method::POST, &path, None, Some(&body)).await?;
        let done = status == StatusCode::OK || status == StatusCode::CONFLICT;
        ensure!(done, "POST {path}: {status}: {answer}");
        Ok(())
    }

    /// Makes a schedule that is due once, a second from now. The request has no key, so that it is
    /// looked for before it is repeated.
    pub(crate) async fn schedule(&self, conversation: Uuid, note: &str) -> Result<()> {
        let path = "/v1/schedules";
        let begun = Instant::now();
        while begun.elapsed() < PATIENCE {
            let there = self.get(path).await?;
            let schedules = there["schedules"].as_array().cloned().unwrap_or_default();
            if schedules.iter().any(|schedule| schedule["note"] == note) {
                return Ok(());
            }
            let due = now_seconds() + 2;
            let at = jiff::Timestamp::from_second(due)?;
            let body = json!({
                "note": note,
                "rule": {"kind": "at", "at": at.to_string()},
                "conversation_id": conversation.to_string(),
            });
            match self.ask_once(Method::POST, path, None, Some(&body)).await {
                Ok(Some((StatusCode::CREATED, _))) => return Ok(()),
                // The time passed while the request waited for a process that hung.
                Ok(Some((StatusCode::CONFLICT, _))) if now_seconds() >= due => {}
                Ok(Some((status, answer))) if !is_passing(status) => {
                    bail!("POST {path}: {status}: {answer}")
                }
                // A process that died may have left its commit to Postgres, whose disk may be slow.
                Ok(_) | Err(_) => sleep(PAUSE * 100).await,
            }
        }
        bail!("a schedule was not taken within {PATIENCE:?}")
    }
}

fn is_passing(status: StatusCode) -> bool {
    status.is_server_error()
        || status == StatusCode::TOO_MANY_REQUESTS
        || status == StatusCode::REQUEST_TIMEOUT
}

pub(crate) fn id(answer: &Value, field: &str) -> Result<Uuid> {
    let text = answer[field].as_str();
    text.and_then(|text| text.parse().ok()).with_context(|| format!("no `{field}` in {answer}"))
}

fn now_seconds() -> i64 {
    use famulus_core::{Clock as _, clock::SystemClock};
    SystemClock.now().as_second()
}
