//! Plugins that are written here: made, their files read and changed; and the files of any plugin, as a tar.
//!
//! A change is an offer, as what was fetched is: nothing of it runs before it is permitted.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, json, ok, plugins::found_plugin},
    problem::{Kind, Problem},
};
use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderName, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use famulus_core::plugin::{Change, Edit, EditError, PluginFile, PluginSource, Template, editing};
use famulus_store::BundleStream;
use futures::TryStreamExt as _;
use schemars::JsonSchema;
use serde::Deserialize;
use std::{io, sync::Arc};

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PluginDraft {
    /// One sentence on what it does.
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    template: Template,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileWrite {
    content: String,
    /// The `sha256` of the content that was read. If the file has another one by now, nothing is written.
    #[serde(default)]
    before: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileEdits {
    /// All of them are made, in this order, or none is.
    edits: Vec<Edit>,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(plugin): Path<String>,
    Json(asked, _held): Json<PluginDraft>,
) -> Answer {
    let PluginDraft { description, template } = asked;
    let source = PluginSource::Inline { files: template.files(&plugin, description.as_deref()) };
    let offer = app.api.managed.install(Some(&plugin), source, &caller.person.name).await?;
    json(StatusCode::CREATED, &offer)
}

pub(crate) async fn list(State(app): State<Arc<App>>, Path(plugin): Path<String>) -> Answer {
    ok(&editing::list(&files(&app, &plugin).await?))
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Path((plugin, path)): Path<(String, String)>,
) -> Answer {
    ok(&editing::read(&files(&app, &plugin).await?, &path)?)
}

pub(crate) async fn write(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path((plugin, path)): Path<(String, String)>,
    Json(asked, _held): Json<FileWrite>,
) -> Answer {
    let FileWrite { content, before } = asked;
    save(&app, &plugin, vec![Edit::Write { path, content, before }], &caller.person.name).await
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path((plugin, path)): Path<(String, String)>,
) -> Answer {
    save(&app, &plugin, vec![Edit::Delete { path }], &caller.person.name).await
}

/// Several changes are one revision.
pub(crate) async fn edit(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(plugin): Path<String>,
    Json(asked, _held): Json<FileEdits>,
) -> Answer {
    save(&app, &plugin, asked.edits, &caller.person.name).await
}

/// The newest revision that was fetched or saved.
pub(crate) async fn export(State(app): State<Arc<App>>, Path(plugin): Path<String>) -> Answer {
    let offered = app.api.managed.offer_of(&plugin).await?.map(|offer| offer.revision);
    let newest = match offered {
        Some(offered) => Some(offered),
        None => found_plugin(&app, &plugin).await?.revision,
    };
    let bundle = match &newest {
        Some(revision) => app.api.store.bundle(&plugin, revision).await?,
        None => None,
    };
    let (size, stream) = bundle.ok_or_else(|| {
        Problem::new(
            Kind::NotFound,
            format!("no files of the plugin `{plugin}` are kept"),
            "fetch it anew with POST /v1/plugins/{name}/update, or save a file of it",
        )
    })?;
    let mut response = tar(size, stream);
    // A plugin that has files has a name of plain letters.
    let named = format!("attachment; filename=\"{plugin}.tar\"").parse();
    if let Ok(named) = named {
        response.headers_mut().insert(header::CONTENT_DISPOSITION, named);
    }
    Ok(response)
}

/// A bundle as it is sent.
pub(crate) fn tar(size: u64, stream: BundleStream) -> Response {
    let headers: [(HeaderName, String); 2] = [
        (header::CONTENT_TYPE, "application/x-tar".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
    ];
    let body = Body::from_stream(stream.map_err(io::Error::other));
    (StatusCode::OK, headers, body).into_response()
}

async fn files(app: &App, plugin: &str) -> Result<Vec<PluginFile>, Problem> {
    Ok(editing::files_of(plugin, app.api.managed.source(plugin).await?)?)
}

async fn save(app: &App, plugin: &str, edits: Vec<Edit>, who: &str) -> Answer {
    ok(&app.api.managed.update(plugin, Change::Edits(edits), who).await?)
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        let kind = match &error {
            EditError::NoFile { .. } => Kind::NotFound,
            EditError::Changed { .. } | EditError::Exists { .. } => Kind::Conflict,
            EditError::Path { .. }
            | EditError::Folder { .. }
            | EditError::BeneathFile { .. }
            | EditError::TooMany
            | EditError::TooLarge { .. } => Kind::Plugin,
        };
        Self::new(kind, error.to_string(), "nothing was changed")
    }
}
