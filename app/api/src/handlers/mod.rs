//! Handlers, one file per noun of the API. Each turns a request into calls of the store and the
//! answer into JSON; none decides who may call it: the table of routes does.

pub(crate) mod agents;
pub(crate) mod approvals;
pub(crate) mod blobs;
pub(crate) mod channels;
pub(crate) mod chat;
pub(crate) mod chat_request;
pub(crate) mod commands;
pub(crate) mod conversations;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod invitations;
pub(crate) mod knowledge;
pub(crate) mod links;
pub(crate) mod me;
pub(crate) mod messages;
pub(crate) mod outbox;
pub(crate) mod pairings;
pub(crate) mod people;
pub(crate) mod plugin_files;
pub(crate) mod plugin_life;
pub(crate) mod plugins;
pub(crate) mod queue;
mod reply;
pub(crate) mod schedules;
pub(crate) mod status;
pub(crate) mod tokens;
pub(crate) mod turns;
pub(crate) mod upload;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use crate::problem::Problem;

/// What a handler returns.
pub(crate) type Answer = Result<Response, Problem>;

/// A JSON answer.
#[expect(clippy::unnecessary_wraps, reason = "stands where a handler ends")]
pub(crate) fn json(status: StatusCode, body: &impl Serialize) -> Answer {
    Ok((status, axum::Json(body)).into_response())
}

pub(crate) fn ok(body: &impl Serialize) -> Answer {
    json(StatusCode::OK, body)
}

/// Done, with nothing to say.
#[expect(clippy::unnecessary_wraps, reason = "stands where a handler ends")]
pub(crate) fn gone() -> Answer {
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Items of one list unless told.
const USUAL: i64 = 50;

/// How many items of a list are asked for, at most `most`.
pub(crate) fn page(asked: Option<i64>, most: i64) -> Result<i64, Problem> {
    match asked {
        None => Ok(USUAL),
        Some(limit) if (1..=most).contains(&limit) => Ok(limit),
        Some(limit) => Err(Problem::bad(
            format!("`limit` is {limit}"),
            format!("ask for 1 to {most}, and for more with another request"),
        )),
    }
}

/// Refuses text that is not [`WRITTEN`](crate::words::WRITTEN) or beyond a number of characters.
pub(crate) fn text(name: &str, value: &str, most: usize) -> Result<(), Problem> {
    if value.trim().is_empty() {
        return Err(Problem::bad(format!("`{name}` is empty"), format!("give `{name}` some text")));
    }
    if value.chars().count() > most {
        return Err(Problem::bad(
            format!("`{name}` is longer than {most} characters"),
            format!("shorten `{name}`"),
        ));
    }
    Ok(())
}
