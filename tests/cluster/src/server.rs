//! The API server, asked by HTTP through `kubectl proxy`: many questions at once, answers as they are.

use std::process::Stdio;

use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use crate::kubectl::{self, LONG};

/// A way to it, as the owner.
pub struct Server {
    address: String,
    client: reqwest::Client,
    /// The way; it ends with this.
    _proxy: Child,
}

/// Nothing is kept, and a field that no schema has is an error.
pub const TRY: &str = "dryRun=All&fieldValidation=Strict";

impl Server {
    pub async fn open() -> Self {
        let mut proxy = kubectl::command(&["proxy", "--port=0"]);
        let mut proxy = proxy.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(proxy.stdout.take().unwrap()).lines();
        let line = tokio::time::timeout(LONG, lines.next_line()).await.unwrap().unwrap().unwrap();
        let (_, address) = line.rsplit_once(' ').unwrap();
        Self { address: format!("http://{address}"), client: reqwest::Client::new(), _proxy: proxy }
    }

    /// One request: the object, or the Status that refuses it.
    pub async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Value> {
        self.ask_as(&[], method, path, body).await
    }

    /// The same in the name of somebody: `Impersonate-User`, `Impersonate-Group`.
    pub async fn ask_as(
        &self,
        who: &[(&str, &str)],
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Value> {
        let patch = method == Method::PATCH;
        let request = self.client.request(method, format!("{}{path}", self.address));
        let request =
            who.iter().fold(request, |request, (kind, name)| request.header(*kind, *name));
        let request = match body {
            Some(body) if patch => request
                .header("content-type", "application/merge-patch+json")
                .body(body.to_string()),
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.timeout(LONG).send().await.unwrap();
        let is_good = answer.status().is_success();
        let said: Value = answer.json().await.unwrap();
        if is_good { Ok(said) } else { Err(said) }
    }
}

/// Where Plugins of a namespace are.
pub fn plugins(namespace: &str) -> String {
    format!("/apis/famulus.dev/v1alpha1/namespaces/{namespace}/plugins")
}
