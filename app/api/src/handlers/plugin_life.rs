//! The life of plugins: fetched, permitted, configured, rolled back, removed.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, gone, json, ok, plugins::found_plugin},
    problem::{Kind, Problem},
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use famulus_core::{
    clock::Rfc3339,
    plugin::{Change, Egress, Granted, ManageError, PluginEvent, PluginFile, PluginSource},
};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPlugin {
    source: PluginSource,
    /// The name that its manifest has; else that of the files or the address.
    #[serde(default)]
    name: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("not" = {
    "properties": {"ref": {"type": "string"}, "files": {"type": "array"}},
    "required": ["ref", "files"],
}))]
pub(crate) struct PluginUpdate {
    /// Another branch, tag or commit.
    #[serde(default)]
    r#ref: Option<String>,
    /// The new files of a plugin that is of files.
    #[serde(default)]
    files: Option<Vec<PluginFile>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Permit {
    /// The one that was looked at: `sha256:` and 64 hexadecimal digits.
    revision: String,
    /// Tools that may run; `*` is all of them.
    tools: Vec<String>,
    #[serde(default)]
    egress: Egress,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ConfigValue {
    value: Value,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RollBack {
    /// The last other one that served, unless told.
    #[serde(default)]
    revision: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct History {
    /// Oldest first.
    entries: Vec<Entry>,
}

#[derive(Serialize, JsonSchema)]
struct Entry {
    #[schemars(with = "Rfc3339")]
    at: Timestamp,
    what: String,
    /// Whoever did it, unless it came by itself.
    who: Option<String>,
    revision: Option<String>,
}

pub(crate) async fn install(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewPlugin>,
) -> Answer {
    let NewPlugin { source, name } = new;
    let who = &caller.person.name;
    let offer = app.api.managed.install(name.as_deref(), source, who).await?;
    json(StatusCode::CREATED, &offer)
}

pub(crate) async fn update(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(plugin): Path<String>,
    Json(asked, _held): Json<PluginUpdate>,
) -> Answer {
    let change = match asked {
        PluginUpdate { r#ref: Some(_), files: Some(_) } => {
            return Err(Problem::bad(
                "an update is of another `ref` or of `files`, not of both",
                "send one of them",
            ));
        }
        PluginUpdate { files: Some(files), .. } => Change::Files(files),
        PluginUpdate { r#ref: Some(name), .. } => Change::Ref(name),
        PluginUpdate { r#ref: None, files: None } => Change::Again,
    };
    ok(&app.api.managed.update(&plugin, change, &caller.person.name).await?)
}

pub(crate) async fn permit(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(plugin): Path<String>,
    Json(asked, _held): Json<Permit>,
) -> Answer {
    let Permit { revision, tools, egress } = asked;
    let granted = Granted { revision, tools, egress };
    app.api.managed.permit(&plugin, granted, &caller.person.name).await?;
    json(StatusCode::ACCEPTED, &found_plugin(&app, &plugin).await?)
}

pub(crate) async fn configure(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path((plugin, key)): Path<(String, String)>,
    Json(asked, _held): Json<ConfigValue>,
) -> Answer {
    let value = Some(asked.value);
    app.api.managed.configure(&plugin, &key, value, &caller.person.name).await?;
    gone()
}

pub(crate) async fn unset(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path((plugin, key)): Path<(String, String)>,
) -> Answer {
    app.api.managed.configure(&plugin, &key, None, &caller.person.name).await?;
    gone()
}

pub(crate) async fn roll_back(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(plugin): Path<String>,
    Json(asked, _held): Json<RollBack>,
) -> Answer {
    let to = asked.revision.as_deref();
    app.api.managed.roll_back(&plugin, to, &caller.person.name).await?;
    json(StatusCode::ACCEPTED, &found_plugin(&app, &plugin).await?)
}

pub(crate) async fn remove(State(app): State<Arc<App>>, Path(plugin): Path<String>) -> Answer {
    app.api.managed.remove(&plugin).await?;
    gone()
}

pub(crate) async fn history(State(app): State<Arc<App>>, Path(plugin): Path<String>) -> Answer {
    let entry = |PluginEvent { at, what, who, revision }| Entry { at, what, who, revision };
    let entries = app.api.managed.history(&plugin).await?;
    ok(&History { entries: entries.into_iter().map(entry).collect() })
}

impl From<ManageError> for Problem {
    fn from(error: ManageError) -> Self {
        let said = error.to_string();
        match error {
            ManageError::Store(error) => error.into(),
            ManageError::Edit(error) => error.into(),
            ManageError::NoPlugin(name) => {
                Self::missing(&format!("plugin `{name}`"), "GET /v1/plugins")
            }
            ManageError::Unsupported(_) | ManageError::Taken(_) => {
                Self::new(Kind::Conflict, said, "nothing was changed")
            }
            ManageError::Invalid(_) => {
                Self::new(Kind::Plugin, said, "ask for something else; nothing was changed")
            }
            ManageError::Failed { reason, .. } => Self::new(
                Kind::Plugin,
                format!("{said} ({reason})"),
                "correct that, and send the same again; nothing was changed",
            ),
        }
    }
}
