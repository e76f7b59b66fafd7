//! Plugins: what there is, one call of a tool with its progress, and what a runner logged.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, ok},
    problem::{Kind, Problem},
};
use axum::{
    body::Body,
    extract::{Path, State},
    http::{StatusCode, header},
    response::IntoResponse as _,
};
use bytes::Bytes;
use famulus_core::{
    blob::BlobRef,
    ids::{BlobId, PersonId},
    plugin::{Description, Revisions as _, SandboxLevel},
    sandbox::{
        PluginState, Progress, SandboxAnswer, SandboxCall, SandboxError, SandboxResult, Sandboxes,
        Stage,
    },
};
use futures::{Stream, stream};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::{convert::Infallible, sync::Arc, time::Duration};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

/// Files of one call.
const FILES: usize = 64;
/// Lines of progress that wait for a reader; what comes while they do is left out.
const LINES: usize = 64;
/// Between two lines when nothing happens, so that nobody takes the connection for dead.
const ALIVE: Duration = Duration::from_secs(10);
/// Between two questions after a call that ends later.
const ASK: Duration = Duration::from_secs(1);
/// How long a call that ends later is asked after without hearing anything of it.
const UNHEARD: Duration = Duration::from_mins(5);

#[derive(Serialize, JsonSchema)]
pub(crate) struct PluginList {
    plugins: Vec<Plugin>,
    /// What they cost a model in every call: bytes of what it is told of them, divided by four.
    fixed_tokens: usize,
    /// What sandboxes are here; nothing where that is said of each plugin.
    level: Option<SandboxLevel>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Plugin {
    name: String,
    /// Whether a call would be answered.
    ready: bool,
    reason: String,
    message: String,
    pub(crate) revision: Option<String>,
    commit: Option<String>,
    /// What of it may be called.
    tools: Vec<String>,
    /// Keys of its configuration that have a value.
    config_keys: Vec<String>,
    /// What it reaches over the network.
    egress: String,
    runners: u32,
    /// How its runner was really confined.
    isolation: Option<String>,
    /// What the revision that serves says of itself, or the one that is offered where none serves.
    description: Option<Description>,
    /// The revision that waits for a yes.
    offered: Option<String>,
}

impl Plugin {
    fn new(state: PluginState, description: Option<Description>, offered: Option<String>) -> Self {
        let PluginState {
            name,
            ready,
            reason,
            message,
            revision,
            commit,
            tools,
            config_keys,
            egress,
            runners,
            isolation,
        } = state;
        Self {
            name,
            ready,
            reason,
            message,
            revision,
            commit,
            tools,
            config_keys,
            egress,
            runners,
            isolation,
            description,
            offered,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunTool {
    /// An object, or an array of objects: then it runs once for each. The value
    /// `{"filename": …, "upload": N}` is file N.
    #[serde(default = "nothing")]
    parameters: Value,
    /// Files that were stored with `POST /v1/blobs`.
    #[serde(default)]
    #[schemars(length(max = FILES))]
    files: Vec<BlobId>,
}

fn nothing() -> Value {
    serde_json::json!({})
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Logs {
    /// Oldest first.
    lines: Vec<String>,
}

/// A line of the answer to a call. The last one is a result or an error.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum Line {
    Stage(Stage),
    /// Nothing happened; the connection lives.
    Alive,
    Result {
        call: String,
        result: SandboxResult,
    },
    Error {
        call: String,
        message: String,
    },
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    let states = app.api.sandboxes.plugins().await.map_err(|error| refused(&error))?;
    let mut plugins = Vec::with_capacity(states.len());
    for state in states {
        plugins.push(described(&app, state).await?);
    }
    let level = app.api.managed.level();
    ok(&PluginList { plugins, fixed_tokens: app.api.plugin_tokens, level })
}

pub(crate) async fn read(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    ok(&found_plugin(&app, &name).await?)
}

/// The plugin as it is now.
pub(crate) async fn found_plugin(app: &App, name: &str) -> Result<Plugin, Problem> {
    let states = app.api.sandboxes.plugins().await.map_err(|error| refused(&error))?;
    let found = states.into_iter().find(|state| state.name == name);
    let state =
        found.ok_or_else(|| Problem::missing(&format!("plugin `{name}`"), "GET /v1/plugins"))?;
    described(app, state).await
}

pub(crate) async fn described(app: &App, state: PluginState) -> Result<Plugin, Problem> {
    let offer = app.api.managed.offer_of(&state.name).await?;
    let offered = offer.as_ref().map(|offer| offer.revision.clone());
    let description = match &state.revision {
        Some(revision) => app.api.store.described(revision).await?,
        None => offer.map(|offer| offer.description),
    };
    Ok(Plugin::new(state, description, offered))
}

pub(crate) async fn logs(State(app): State<Arc<App>>, Path(name): Path<String>) -> Answer {
    let lines = app.api.sandboxes.logs(&name).await.map_err(|error| refused(&error))?;
    ok(&Logs { lines })
}

pub(crate) async fn run(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path((plugin, tool)): Path<(String, String)>,
    Json(asked, _held): Json<RunTool>,
) -> Answer {
    let RunTool { parameters, files } = asked;
    let person = caller.person.id;
    let files = found(&app, person, files).await?;
    // Whoever hangs up ends the call.
    let cancel = CancellationToken::new();
    let (tell, told) = mpsc::channel(LINES);
    let call = SandboxCall {
        id: format!("api.{}", Uuid::now_v7()),
        plugin,
        tool,
        parameters,
        files,
        person,
        token: None,
        cancel: cancel.clone(),
        progress: Progress(Arc::new(move |stage| {
            // A reader that is too slow misses lines of progress, and nothing else.
            let _full = tell.try_send(stage);
        })),
    };
    let running = Running {
        sandboxes: Arc::clone(&app.api.sandboxes),
        id: call.id.clone(),
        plugin: call.plugin.clone(),
        person,
        sent: app.api.clock.now(),
        told,
        _hung_up: cancel.drop_guard(),
    };
    let body = Body::from_stream(running.lines(call));
    Ok((StatusCode::OK, [(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

async fn found(app: &App, person: PersonId, files: Vec<BlobId>) -> Result<Vec<BlobRef>, Problem> {
    if files.len() > FILES {
        return Err(Problem::bad(
            format!("the call has more than {FILES} files"),
            "make several calls",
        ));
    }
    let mut found = Vec::with_capacity(files.len());
    for id in files {
        let blob = app.api.store.blob(person, id).await?;
        found.push(blob.ok_or_else(|| {
            Problem::missing(&format!("file {id}"), "the answer of POST /v1/blobs")
        })?);
    }
    Ok(found)
}

/// A call that somebody watches.
struct Running {
    sandboxes: Arc<dyn Sandboxes>,
    id: String,
    plugin: String,
    person: PersonId,
    sent: Timestamp,
    told: mpsc::Receiver<Stage>,
    _hung_up: DropGuard,
}

impl Running {
    fn lines(self, call: SandboxCall) -> impl Stream<Item = Result<Bytes, Infallible>> + Send {
        let sandboxes = Arc::clone(&self.sandboxes);
        let (plugin, id) = (self.plugin.clone(), self.id.clone());
        let (person, sent) = (self.person, self.sent);
        let ending =
            Box::pin(async move { ended(&*sandboxes, call, &plugin, &id, person, sent).await });
        stream::unfold(Some((self, ending)), async |state| {
            let (mut running, mut ending) = state?;
            tokio::select! {
                biased;
                Some(stage) = running.told.recv() => {
                    Some((Ok(line(&Line::Stage(stage))), Some((running, ending))))
                }
                ended = &mut ending => {
                    let call = running.id.clone();
                    let last = match ended {
                        Ok(result) => Line::Result { call, result },
                        Err(error) => Line::Error { call, message: error.to_string() },
                    };
                    // What was told on the way to the end comes before it.
                    let mut lines = Vec::new();
                    while let Ok(stage) = running.told.try_recv() {
                        lines.extend_from_slice(&line(&Line::Stage(stage)));
                    }
                    lines.extend_from_slice(&line(&last));
                    Some((Ok(lines.into()), None))
                }
                () = sleep(ALIVE) => Some((Ok(line(&Line::Alive)), Some((running, ending)))),
            }
        })
    }
}

/// Waits for the end of a call, also of one that ends later, and lets its result go.
async fn ended(
    sandboxes: &dyn Sandboxes,
    call: SandboxCall,
    plugin: &str,
    id: &str,
    person: PersonId,
    sent: Timestamp,
) -> Result<SandboxResult, SandboxError> {
    let mut answer = sandboxes.run(call).await?;
    let mut heard = Instant::now();
    let result = loop {
        if let SandboxAnswer::Ended(result) = answer {
            break result;
        }
        sleep(ASK).await;
        match sandboxes.ask(plugin, id, sent, person).await {
            Ok(Some(asked)) => (answer, heard) = (asked, Instant::now()),
            Ok(None) => {
                let why = "its runner does not know it any more".to_owned();
                return Err(SandboxError::Lost { plugin: plugin.to_owned(), why });
            }
            // It goes on where it is, whether or not its runner is heard of just now.
            Err(SandboxError::Unreachable { .. } | SandboxError::Away(_))
                if heard.elapsed() < UNHEARD => {}
            Err(error) => return Err(error),
        }
    };
    sandboxes.acknowledge(plugin, id).await;
    Ok(result)
}

fn line(line: &Line) -> Bytes {
    // A struct of texts, numbers and lists always serialises.
    let mut text = serde_json::to_vec(line).unwrap_or_default();
    text.push(b'\n');
    text.into()
}

/// What went wrong with sandboxes, for a caller.
pub(crate) fn refused(error: &SandboxError) -> Problem {
    let detail = error.to_string();
    match error {
        SandboxError::Unsupported(_) => Problem::new(
            Kind::Conflict,
            detail,
            "install Famulus in a cluster, where each plugin has a Pod of its own",
        ),
        SandboxError::NoPlugin { .. } => {
            Problem::new(Kind::NotFound, detail, "see GET /v1/plugins for what there is")
        }
        SandboxError::NotReady { .. } => {
            Problem::new(Kind::Conflict, detail, "see GET /v1/plugins/{name} for its state")
        }
        SandboxError::Refused(_) => {
            Problem::bad(detail, "correct the call; GET /v1/plugins/{name} shows its tools")
        }
        SandboxError::Away(_) | SandboxError::Unreachable { .. } => {
            Problem::new(Kind::SandboxAway, detail, "send the request again in a moment").after(2)
        }
        // The same request is another call, and this one may have happened.
        SandboxError::Lost { .. } => Problem::new(
            Kind::SandboxAway,
            detail,
            "look whether it took effect before you send it again",
        ),
        SandboxError::Stopped => Problem::new(Kind::Conflict, detail, "call it again"),
    }
}
