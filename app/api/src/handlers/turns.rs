//! Turns: looked at, ended, and continued after a limit.

use crate::{
    app::App,
    body::{Authenticated, id},
    handlers::{Answer, approvals::Question, conversations, json, messages, ok},
    problem::{Kind, Problem},
};
use axum::{
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
};
use famulus_core::{
    clock::Rfc3339,
    ids::{ConversationId, TurnId},
    inbound::{Meeting, Source},
    model::Usage,
    person::Caller,
    sent::Sent,
    turn::TurnState,
};
use famulus_store::{MAIN_AGENT, TurnView};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::Arc;

/// What the model is told when a turn is to go on.
const GO_ON: &str = "Go on where you stopped.";

#[derive(Serialize, JsonSchema)]
pub(crate) struct Turn {
    id: TurnId,
    conversation_id: ConversationId,
    state: TurnState,
    /// Model replies so far.
    steps: u32,
    usage: Usage,
    model: Option<String>,
    /// Why it failed.
    error: Option<String>,
    /// The text of its last reply.
    text: Option<String>,
    /// The turn that took over what joined this one and was not read by it.
    successor_id: Option<TurnId>,
    /// The questions that it waits for.
    approvals: Vec<Question>,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
    #[schemars(with = "Option<Rfc3339>")]
    started_at: Option<Timestamp>,
    #[schemars(with = "Option<Rfc3339>")]
    ended_at: Option<Timestamp>,
}

impl Turn {
    fn of(view: TurnView, caller: &Caller) -> Self {
        let questions = view.approvals.into_iter();
        Self {
            id: view.id,
            conversation_id: view.conversation,
            state: view.state,
            steps: view.steps,
            usage: view.usage,
            model: view.model,
            error: view.error,
            text: view.text,
            successor_id: view.successor,
            approvals: questions.map(|approval| Question::of(approval, caller)).collect(),
            created_at: view.created_at,
            started_at: view.started_at,
            ended_at: view.ended_at,
        }
    }
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Stopped {
    stopped: Vec<TurnId>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Cancelled {
    /// As it stands now; a worker ends it within a second.
    state: TurnState,
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(turn): Path<String>,
) -> Answer {
    let turn = turn_id(&turn)?;
    let view = app.api.store.turn(caller.person.id, turn).await?.ok_or_else(missing)?;
    ok(&Turn::of(view, &caller))
}

pub(crate) async fn stop(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(conversation): Path<String>,
) -> Answer {
    let id = conversations::existing(&app, &caller.person, &conversation).await?;
    let stopped = app.api.store.stop_conversation(caller.person.id, None, id).await?;
    ok(&Stopped { stopped: stopped.turns })
}

pub(crate) async fn cancel(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(turn): Path<String>,
) -> Answer {
    let turn = turn_id(&turn)?;
    let person = caller.person.id;
    app.api.store.cancel_turn(person, turn).await?.ok_or_else(missing)?;
    let view = app.api.store.turn(person, turn).await?.ok_or_else(missing)?;
    ok(&Cancelled { state: view.state })
}

/// Sends a message that asks for more, in the turn's conversation.
pub(crate) async fn go_on(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(turn): Path<String>,
    headers: HeaderMap,
) -> Answer {
    let turn = turn_id(&turn)?;
    let key = messages::key(&headers)?;
    let view = app.api.store.turn(caller.person.id, turn).await?.ok_or_else(missing)?;
    if !view.state.is_final() {
        return Err(Problem::new(
            Kind::Conflict,
            "the turn has not ended",
            "wait for its end, or send a message, which joins it",
        ));
    }
    let sent = Sent {
        text: GO_ON.to_owned(),
        attachments: Vec::new(),
        sender: None,
        source: Source::Http,
        conversation: Some(view.conversation),
        agent: MAIN_AGENT,
        key,
        meeting: Meeting::Steer,
        continues: Some(turn),
    };
    json(StatusCode::ACCEPTED, &messages::accept(&app, &caller, sent).await?)
}

fn turn_id(text: &str) -> Result<TurnId, Problem> {
    id("turn", text, "the answers of POST /chat and /v1/conversations")
}

fn missing() -> Problem {
    Problem::missing("this turn", "the answers of POST /chat and /v1/conversations")
}
