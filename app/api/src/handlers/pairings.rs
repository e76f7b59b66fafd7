//! Strangers on chat channels who have a code, and letting one in.

use crate::{
    app::App,
    body::Json,
    handlers::{Answer, me::NAME, ok, text},
    problem::Problem,
    words::WRITTEN,
};
use axum::extract::State;
use famulus_core::{
    clock::Rfc3339,
    ids::PersonId,
    person::{Person, Role},
};
use famulus_store::{Becomes, Paired, Waiting};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIST: &str = "GET /v1/pairings";
const PEOPLE: &str = "GET /v1/people";
/// What a code looks like.
const CODE: &str = "^[A-Za-z0-9]{8}$";

#[derive(Serialize, JsonSchema)]
pub(crate) struct Pairings {
    /// The latest first.
    pairings: Vec<Pairing>,
}

/// A stranger who has a code. Who they say they are proves nothing.
#[derive(Serialize, JsonSchema)]
struct Pairing {
    channel: String,
    /// What they cannot change.
    external_id: String,
    /// As they show themselves.
    name: String,
    #[schemars(with = "Rfc3339")]
    since: Timestamp,
    #[schemars(with = "Rfc3339")]
    until: Timestamp,
}

impl From<Waiting> for Pairing {
    fn from(waiting: Waiting) -> Self {
        Self {
            channel: waiting.stranger.channel,
            external_id: waiting.stranger.external_id,
            name: waiting.stranger.name,
            since: waiting.since,
            until: waiting.until,
        }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetIn {
    /// As the stranger was told it.
    #[schemars(regex(pattern = CODE))]
    code: String,
    /// Whose account it is; somebody new's unless told.
    becomes: Option<Whose>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Whose {
    Known(Somebody),
    New(Newcomer),
}

/// Somebody who is known already.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Somebody {
    person: PersonId,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Newcomer {
    /// A member unless told.
    role: Option<NewRole>,
    /// How they are called here; as they show themselves unless told.
    #[schemars(length(max = NAME), regex(pattern = WRITTEN))]
    name: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NewRole {
    Member,
    Contact,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Known {
    person: Person,
    channel: String,
    external_id: String,
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    let waiting = app.api.store.pairings().await?;
    ok(&Pairings { pairings: waiting.into_iter().map(Into::into).collect() })
}

pub(crate) async fn let_in(State(app): State<Arc<App>>, Json(asked, _held): Json<LetIn>) -> Answer {
    let LetIn { code, becomes } = asked;
    let becomes = match becomes.unwrap_or_else(|| Whose::New(Newcomer::default())) {
        Whose::Known(Somebody { person }) => Becomes::Person(person),
        Whose::New(Newcomer { role, name }) => {
            if let Some(name) = &name {
                text("name", name, NAME)?;
            }
            let role = match role.unwrap_or(NewRole::Member) {
                NewRole::Member => Role::Member,
                NewRole::Contact => Role::Contact,
            };
            Becomes::Newcomer { role, name }
        }
    };
    match app.api.store.pair(&code, &becomes).await? {
        Paired::Done { person, stranger } => {
            ok(&Known { person, channel: stranger.channel, external_id: stranger.external_id })
        }
        Paired::NoCode => Err(Problem::missing("this code, or its time is over,", LIST)),
        Paired::NoPerson => Err(Problem::missing("this person", PEOPLE)),
    }
}
