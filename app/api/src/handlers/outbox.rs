//! Messages on their way out.

use crate::{
    app::App,
    body::{QueryParams, id},
    handlers::{Answer, ok, page, queue::Retried},
    problem::Problem,
};
use axum::extract::{Path, State};
use famulus_core::{
    clock::Rfc3339,
    ids::{ConversationId, OutboundId, PersonId, TurnId},
    inbound::Address,
};
use famulus_store::{OutboxItem, OutboxState};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Messages that one request lists.
const LISTED: i64 = 500;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    #[schemars(with = "Option<StateName>")]
    state: Option<OutboxState>,
    /// At most this many, 50 unless told.
    #[schemars(range(min = 1, max = LISTED))]
    limit: Option<i64>,
}

/// The states by name, for the description.
#[derive(JsonSchema)]
#[schemars(rename_all = "snake_case")]
#[expect(dead_code, reason = "describes `OutboxState`")]
enum StateName {
    Pending,
    Sending,
    Delivered,
    Unknown,
    Failed,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Outbox {
    messages: Vec<Leaving>,
}

#[derive(Serialize, JsonSchema)]
struct Leaving {
    id: OutboundId,
    /// Null where the installation says something to somebody it does not know.
    person: Option<PersonId>,
    conversation_id: Option<ConversationId>,
    turn_id: Option<TurnId>,
    to: Address,
    #[schemars(with = "StateName")]
    state: &'static str,
    attempts: i32,
    error: Option<String>,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
    #[schemars(with = "Option<Rfc3339>")]
    ended_at: Option<Timestamp>,
}

impl From<OutboxItem> for Leaving {
    fn from(item: OutboxItem) -> Self {
        Self {
            id: item.id,
            person: item.person,
            conversation_id: item.conversation,
            turn_id: item.turn,
            to: item.to,
            state: item.state.as_str(),
            attempts: item.attempts,
            error: item.error,
            created_at: item.created_at,
            ended_at: item.ended_at,
        }
    }
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    QueryParams(asked): QueryParams<ListQuery>,
) -> Answer {
    let limit = page(asked.limit, LISTED)?;
    let items = app.api.store.outbox(None, asked.state, limit).await?;
    ok(&Outbox { messages: items.into_iter().map(Into::into).collect() })
}

pub(crate) async fn retry(State(app): State<Arc<App>>, Path(message): Path<String>) -> Answer {
    const LIST: &str = "GET /v1/outbox?state=unknown";
    let message = id::<OutboundId>("message", &message, LIST)?;
    if app.api.store.retry_outbound(message).await? {
        ok(&Retried { retried: true })
    } else {
        Err(Problem::missing("this undelivered message", LIST))
    }
}
