//! What the assistant knows of the caller.

use crate::{
    app::App,
    body::{Authenticated, Json, id},
    handlers::{Answer, gone, json, ok, text},
    problem::Problem,
    words::WRITTEN,
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use famulus_core::{
    event::{List, Viewers as _},
    ids::KnowledgeId,
    knowledge::{Knowledge, KnowledgeKind, Upsert},
    sent::provenance,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIST: &str = "GET /v1/knowledge";
/// Characters of a title, and of a body.
const TITLE: usize = 200;
const BODY: usize = 200_000;

#[derive(Serialize, JsonSchema)]
pub(crate) struct KnowledgeList {
    knowledge: Vec<Knowledge>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum NewKnowledge {
    /// It is carried in every turn.
    Memory {
        #[schemars(length(max = BODY), regex(pattern = WRITTEN))]
        body: String,
        /// A memory has none: what stands here is left out.
        #[serde(default)]
        title: String,
    },
    /// A page, which is read when it is wanted.
    Scratchpad {
        #[schemars(length(max = BODY), regex(pattern = WRITTEN))]
        body: String,
        #[schemars(length(max = TITLE), regex(pattern = WRITTEN))]
        title: String,
    },
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
) -> Answer {
    ok(&KnowledgeList { knowledge: app.api.store.knowledge(caller.person.id).await? })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewKnowledge>,
) -> Answer {
    let (kind, title, body) = match new {
        NewKnowledge::Memory { body, title } => (KnowledgeKind::Memory, title, body),
        NewKnowledge::Scratchpad { body, title } => {
            text("title", &title, TITLE)?;
            (KnowledgeKind::Scratchpad, title, body)
        }
    };
    text("body", &body, BODY)?;
    let person = &caller.person;
    let entry = Upsert { id: None, kind, title, body };
    let stored = app.api.store.write_knowledge(person.id, entry, provenance(person.role)).await?;
    app.api.hub.list_changed(person.id, List::Knowledge);
    json(StatusCode::CREATED, &stored.ok_or_else(missing)?)
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(entry): Path<String>,
) -> Answer {
    let entry = id::<KnowledgeId>("entry", &entry, LIST)?;
    let found = app.api.store.knowledge_entry(caller.person.id, entry).await?;
    ok(&found.ok_or_else(missing)?)
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(entry): Path<String>,
) -> Answer {
    let entry = id::<KnowledgeId>("entry", &entry, LIST)?;
    if !app.api.store.delete_knowledge(caller.person.id, entry).await? {
        return Err(missing());
    }
    app.api.hub.list_changed(caller.person.id, List::Knowledge);
    gone()
}

fn missing() -> Problem {
    Problem::missing("this entry", LIST)
}
