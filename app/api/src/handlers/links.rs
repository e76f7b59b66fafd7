//! Giving the program of a chat channel an account of ours: by a link, or by a number that it registers.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, json, ok},
    problem::{Kind, Problem},
};
use axum::{extract::State, http::StatusCode};
use famulus_core::linking::{LinkError, Linker, Proof, Registration, is_number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A telephone number with its country, as [`is_number`] wants it.
const NUMBER: &str = r"^\+[0-9]{4,15}$";

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

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewRegistration {
    /// One whose program registers numbers, such as `signal`.
    channel: String,
    /// With its country, such as `+491701234567`. Whoever had it there before loses it.
    #[schemars(regex(pattern = NUMBER))]
    number: String,
    /// What a solved captcha gave, where the platform asked for one.
    #[serde(default)]
    #[schemars(length(max = 10_000))]
    captcha: Option<String>,
    /// Whether the code comes by a call, and not by a text message.
    #[serde(default)]
    call: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RegistrationCode {
    channel: String,
    #[schemars(regex(pattern = NUMBER))]
    number: String,
    /// The code that came to the number.
    #[schemars(length(min = 1, max = 100))]
    code: String,
    /// Where the number was locked by a PIN.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pin: Option<String>,
}

/// A code is on its way.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SentCode {
    number: String,
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

/// Has the platform send a code.
pub(crate) async fn register(
    State(app): State<Arc<App>>,
    Authenticated(_caller): Authenticated,
    Json(new, _held): Json<NewRegistration>,
) -> Answer {
    let NewRegistration { channel, number, captcha, call } = new;
    let number = checked(number)?;
    let new = Registration { number, captcha, by_call: call };
    linker(&app, &channel)?.register(&new).await.map_err(problem)?;
    json(StatusCode::CREATED, &SentCode { number: new.number })
}

/// Registers the number by that code.
pub(crate) async fn verify(
    State(app): State<Arc<App>>,
    Authenticated(_caller): Authenticated,
    Json(told, _held): Json<RegistrationCode>,
) -> Answer {
    let RegistrationCode { channel, number, code, pin } = told;
    let number = checked(number)?;
    linker(&app, &channel)?.verify(&number, &Proof { code, pin }).await.map_err(problem)?;
    ok(&FinishedLink { account: number })
}

fn checked(number: String) -> Result<String, Problem> {
    if is_number(&number) {
        return Ok(number);
    }
    Err(Problem::bad(
        "`number` is not a telephone number with its country",
        "write it as +491701234567: a plus, and 4 to 15 figures",
    ))
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
        LinkError::Captcha { at } => Problem::new(
            Kind::Conflict,
            "the platform wants to see that you are a person, or takes this captcha no more",
            format!(
                "solve the one at {at}, copy the address of the link that it ends with, and send it \
                 at once as `captcha` (--captcha LINK)"
            ),
        ),
        LinkError::TooOften(why) => Problem::new(
            Kind::Conflict,
            format!("the platform lets nobody try so often: {why}"),
            "wait for as long as it says, or for a day",
        ),
        LinkError::Refused(why) => Problem::new(
            Kind::Conflict,
            format!("the channel's program refuses: {why}"),
            "do what it says, and try again",
        ),
    }
}
