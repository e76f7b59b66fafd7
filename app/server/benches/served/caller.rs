//! Somebody with the owner's token.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::{net::SocketAddr, time::Duration};
use uuid::Uuid;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
}

impl Caller {
    pub(crate) fn new(address: SocketAddr, token: &str) -> Result<Self> {
        let http =
            reqwest::Client::builder().no_proxy().tls_certs_only([]).timeout(PATIENCE).build()?;
        Ok(Self { http, address, token: token.to_owned() })
    }

    /// The same person at another process.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// Sends a message and returns its turn.
    pub(crate) async fn say(&self, conversation: Uuid, text: &str) -> Result<Uuid> {
        let path = format!("/v1/conversations/{conversation}/messages");
        let answer = self.post(&path, &json!({ "text": text, "meeting": "queue" })).await?;
        let turn = answer["turn_id"].as_str().and_then(|turn| turn.parse().ok());
        turn.with_context(|| format!("no turn in {answer}"))
    }

    /// Ends what runs in a conversation; returns how many turns that were.
    pub(crate) async fn stop(&self, conversation: Uuid) -> Result<usize> {
        let path = format!("/v1/conversations/{conversation}/stop");
        let answer = self.post(&path, &json!({})).await?;
        Ok(answer["stopped"].as_array().map_or(0, Vec::len))
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        let request = self.http.get(format!("http://{}{path}", self.address));
        Ok(serde_json::from_slice(&self.bytes(path, request).await?)?)
    }

    /// The lines that are answered.
    pub(crate) async fn read(&self, path: &str, body: &Value) -> Result<String> {
        let request = self.http.post(format!("http://{}{path}", self.address)).json(body);
        Ok(String::from_utf8(self.bytes(path, request).await?)?)
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        Ok(serde_json::from_str(&self.read(path, body).await?)?)
    }

    async fn bytes(&self, path: &str, request: reqwest::RequestBuilder) -> Result<Vec<u8>> {
        let response = request.bearer_auth(&self.token).send().await?;
        let (status, bytes) = (response.status(), response.bytes().await?);
        ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&bytes));
        Ok(bytes.into())
    }
}
