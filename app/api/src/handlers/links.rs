//! Linking an account of ours to the program of a chat channel.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, json, ok},
    problem::{Kind, Problem},
};
use axum::{extract::State, http::StatusCode};
use famulus_core::linking::{LinkError, Linker};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewLink {
    /// One whose program can be linked, such as `signal`.
    channel: String,
}

/// To be scanned by a device of the account, within a minute or two. Whoever scans it gives its program the
/// account.
#[derive(Serialize, JsonSchema)]
pub(crate) struct BegunLink {
    link: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenLink {
    channel: String,
    /// As it was given by `POST /v1/links`.
    link: String,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct FinishedLink {
    /// As people know it.
    account: String,
}

pub(crate) async fn begin(
    State(app): State<Arc<App>>,
    Authenticated(_caller): Authenticated,
    Json(new, _held): Json<NewLink>,
) -> Answer {
    let link = linker(&app, &new.channel)?.begin().await.map_err(problem)?;
    json(StatusCode::CREATED, &BegunLink { link })
}

/// Waits until somebody scanned it, and for nobody when this process is to end.
pub(crate) async fn finish(
    State(app): State<Arc<App>>,
    Authenticated(_caller): Authenticated,
    Json(open, _held): Json<OpenLink>,
) -> Answer {
    let linker = linker(&app, &open.channel)?;
    tokio::select! {
        finished = linker.finish(&open.link) => {
            ok(&FinishedLink { account: finished.map_err(problem)? })
        }
        () = app.shutdown.cancelled() => Err(Problem::new(
            Kind::Unavailable,
            "the server stops, and waits for no phone",
            "ask for another link when it is back",
        )),
    }
}

fn linker(app: &App, channel: &str) -> Result<Arc<dyn Linker>, Problem> {
    app.api.linkers.get(channel).cloned().ok_or_else(|| {
        Problem::new(
            Kind::NotFound,
            "no channel of this name is configured that has a program to link",
            "see docs/CHANNELS.md for which have one, and GET /v1/channels for those that are \
             configured",
        )
    })
}

fn problem(error: LinkError) -> Problem {
    match error {
        LinkError::Away(why) => Problem::new(
            Kind::Unavailable,
            format!("the channel's program did not do it: {why}"),
            "see whether it runs, and try again",
        ),
        LinkError::Late => Problem::new(
            Kind::Conflict,
            "nobody scanned the link in time",
            "ask for another one, and scan it within a minute",
        ),
        LinkError::Refused(why) => Problem::new(
            Kind::Conflict,
            format!("the channel's program refuses: {why}"),
            "do what it says, and ask for another link",
        ),
    }
}
