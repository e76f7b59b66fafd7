//! Who brings the plugin: asks once, and hears nothing when the process dies over it.

use crate::support::{client::Client, world::World};
use anyhow::{Context, Result, ensure};
use reqwest::{Method, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// The plugin of these tests.
pub(crate) const PLUGIN: &str = "dice";

/// Longer than a loaded machine takes to fetch, build or start it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
pub(crate) const LOOK: Duration = Duration::from_millis(10);

pub(crate) struct Owner<'a> {
    world: &'a World,
    client: Client,
}

/// Something that became of the plugin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Event {
    pub(crate) what: String,
    pub(crate) revision: Option<String>,
}

#[derive(Deserialize)]
struct History {
    entries: Vec<Event>,
}

impl<'a> Owner<'a> {
    /// Where a process has started once.
    pub(crate) async fn of(world: &'a World) -> Result<Self> {
        Ok(Self { world, client: world.person().await?.client })
    }

    /// What was answered; nothing when the process is gone.
    pub(crate) async fn ask(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<Option<(StatusCode, String)>> {
        let addresses = self.world.fleet.addresses();
        let Some((_, address)) = addresses.first() else { return Ok(None) };
        let url = format!("http://{address}/v1/plugins{path}");
        let mut request = self.client.http.request(method, url).bearer_auth(&self.client.token);
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answered = async {
            let answer = request.timeout(PATIENCE).send().await?;
            Ok((answer.status(), answer.text().await?))
        };
        match answered.await {
            Ok(answer) => Ok(Some(answer)),
            Err(error) => {
                let error: reqwest::Error = error;
                ensure!(error.is_connect() || !error.is_timeout(), "no answer came: {error:#}");
                Ok(None)
            }
        }
    }

    /// Asks for what is to succeed; `false` when the process is gone.
    pub(crate) async fn good(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
    ) -> Result<bool> {
        let Some((status, said)) = self.ask(method, path, body).await? else { return Ok(false) };
        ensure!(status.is_success(), "{path}: {status}: {said}");
        Ok(true)
    }

    /// What the plugin says of itself; null where there is none.
    pub(crate) async fn shown(&self) -> Result<Option<Value>> {
        self.found(&format!("/{PLUGIN}")).await
    }

    /// Oldest first; nothing where there is no plugin.
    pub(crate) async fn history(&self) -> Result<Option<Vec<Event>>> {
        let Some(found) = self.found(&format!("/{PLUGIN}/history")).await? else {
            return Ok(None);
        };
        let history: Option<History> = serde_json::from_value(found)?;
        Ok(Some(history.map(|history| history.entries).unwrap_or_default()))
    }

    async fn found(&self, path: &str) -> Result<Option<Value>> {
        match self.ask(Method::GET, path, None).await? {
            None => Ok(None),
            Some((StatusCode::NOT_FOUND, _)) => Ok(Some(Value::Null)),
            Some((status, said)) => {
                ensure!(status.is_success(), "{path}: {status}: {said}");
                Ok(Some(serde_json::from_str(&said)?))
            }
        }
    }

    /// The revision that waits for a yes.
    pub(crate) async fn offered(&self) -> Result<Option<String>> {
        let Some(shown) = self.shown().await? else { return Ok(None) };
        let offered = shown["offered"].as_str();
        Ok(Some(offered.with_context(|| format!("nothing is offered: {shown}"))?.to_owned()))
    }

    /// What a tool said, with what was told on the way; nothing when the process is gone.
    pub(crate) async fn run(&self, tool: &str) -> Result<Option<String>> {
        let path = format!("/{PLUGIN}/tools/{tool}/run");
        let answer = self.ask(Method::POST, &path, Some(json!({"parameters": {}}))).await?;
        Ok(answer.map(|(_, said)| said))
    }
}

/// The files of a plugin with this init script and a tool for each name and script.
pub(crate) fn files(init: &str, tools: &[(&str, &str)]) -> Value {
    let file = |path: &str, content: &str| json!({"path": path, "content": content});
    let plugin = json!({
        "name": PLUGIN,
        "description": "Throws dice.",
        "config": {"sides": {"description": "How many sides it has."}},
        "init": {"entrypoint": "init"},
    });
    let mut files = vec![
        file("manifest.json", &plugin.to_string()),
        file("init", &format!("#!/bin/sh\n{init}\n")),
    ];
    for (name, script) in tools {
        let tool =
            json!({"name": name, "description": "A tool.", "entrypoint": "run", "parameters": {}});
        files.push(file(&format!("{name}/manifest.json"), &tool.to_string()));
        files.push(file(&format!("{name}/run"), &format!("#!/bin/sh\n{script}\n")));
    }
    Value::Array(files)
}

pub(crate) fn permit(revision: &str) -> Value {
    json!({"revision": revision, "tools": ["*"]})
}
