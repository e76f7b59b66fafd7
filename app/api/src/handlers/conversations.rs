//! Conversations; `main` names the one in which messages without a conversation land.

use crate::{
    app::App,
    body::{Authenticated, Json, QueryParams, id},
    handlers::{Answer, json, ok, page, text},
    problem::Problem,
    words::WRITTEN,
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use famulus_channels::http::entry;
use famulus_core::{
    agent::MAIN,
    clock::Rfc3339,
    conversation,
    event::{List, Viewers as _},
    ids::{ConversationId, TurnId},
    person::Person,
    turn::TurnState,
};
use famulus_store::{ConversationView, MAIN_AGENT};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Characters of a title.
const TITLE: usize = 200;
/// Conversations that one request lists.
const LISTED: i64 = 200;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Conversation {
    id: ConversationId,
    title: Option<String>,
    /// The agent's name.
    agent: String,
    state: Activity,
    live_turn: Option<TurnId>,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
    #[schemars(with = "Rfc3339")]
    updated_at: Timestamp,
    last_seq: i64,
}

/// What a conversation is doing.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Activity {
    Idle,
    Running,
    /// For the answer to a question.
    Waiting,
}

impl From<ConversationView> for Conversation {
    fn from(view: ConversationView) -> Self {
        let state = match view.live {
            Some((_, TurnState::Waiting)) => Activity::Waiting,
            Some((_, TurnState::Queued | TurnState::Running)) => Activity::Running,
            Some((_, TurnState::Complete | TurnState::Failed | TurnState::Cancelled)) | None => {
                Activity::Idle
            }
        };
        Self {
            id: view.id,
            title: view.title,
            agent: view.agent,
            state,
            live_turn: view.live.map(|(turn, _)| turn),
            created_at: view.created_at,
            updated_at: view.updated_at,
            last_seq: view.last_seq,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Conversations {
    conversations: Vec<Conversation>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// At most this many, 50 unless told.
    #[schemars(range(min = 1, max = LISTED))]
    limit: Option<i64>,
    /// Those behind this conversation.
    before: Option<ConversationId>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewConversation {
    #[schemars(length(max = TITLE), regex(pattern = WRITTEN))]
    title: Option<String>,
    /// An agent's name; `main` unless told.
    agent: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rename {
    #[schemars(length(max = TITLE), regex(pattern = WRITTEN))]
    title: String,
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    QueryParams(asked): QueryParams<ListQuery>,
) -> Answer {
    let limit = page(asked.limit, LISTED)?;
    let views = app.api.store.conversations(caller.person.id, asked.before, limit).await?;
    ok(&Conversations { conversations: views.into_iter().map(Into::into).collect() })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewConversation>,
) -> Answer {
    let NewConversation { title, agent } = new;
    if let Some(title) = &title {
        text("title", title, TITLE)?;
    }
    let agent = match agent.as_deref() {
        None | Some(MAIN) => MAIN_AGENT,
        Some(name) => {
            let found = app.api.store.agent_by_name(name).await?;
            found
                .ok_or_else(|| Problem::missing("this agent", "GET /v1/agents, or leave it out"))?
                .id
        }
    };
    let key = entry(&caller.person).own_key(&caller.person, agent, ConversationId::new());
    let new = conversation::NewConversation { agent, key, title };
    let id = app.api.store.ensure_conversation(caller.person.id, new).await?;
    app.api.hub.list_changed(caller.person.id, List::Conversations);
    json(StatusCode::CREATED, &view(&app, &caller.person, id).await?)
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
) -> Answer {
    let id = existing(&app, &caller.person, &id).await?;
    ok(&view(&app, &caller.person, id).await?)
}

pub(crate) async fn rename(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(id): Path<String>,
    Json(rename, _held): Json<Rename>,
) -> Answer {
    text("title", &rename.title, TITLE)?;
    let id = existing(&app, &caller.person, &id).await?;
    if !app.api.store.rename(caller.person.id, id, rename.title.trim()).await? {
        return Err(missing());
    }
    app.api.hub.list_changed(caller.person.id, List::Conversations);
    ok(&view(&app, &caller.person, id).await?)
}

/// What a path or body names: `None` is the main conversation.
pub(crate) fn named(text: &str) -> Result<Option<ConversationId>, Problem> {
    match text {
        "main" => Ok(None),
        other => id("conversation", other, "GET /v1/conversations").map(Some),
    }
}

/// The id of what a path names, if it belongs to the person; the main conversation is opened if it
/// is not there.
pub(crate) async fn existing(
    app: &App,
    person: &Person,
    text: &str,
) -> Result<ConversationId, Problem> {
    match named(text)? {
        None => main(app, person).await,
        Some(id) => {
            let found = app.api.store.conversation(person.id, id).await?;
            found.map(|view| view.id).ok_or_else(missing)
        }
    }
}

pub(crate) async fn main(app: &App, person: &Person) -> Result<ConversationId, Problem> {
    let key = entry(person).key(person, MAIN_AGENT);
    let new = conversation::NewConversation { agent: MAIN_AGENT, key, title: None };
    Ok(app.api.store.ensure_conversation(person.id, new).await?)
}

async fn view(app: &App, person: &Person, id: ConversationId) -> Result<Conversation, Problem> {
    let view = app.api.store.conversation(person.id, id).await?;
    view.map(Conversation::from).ok_or_else(missing)
}

pub(crate) fn missing() -> Problem {
    Problem::missing("this conversation", "GET /v1/conversations")
}
