//! Everybody who is known to this installation.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{
        Answer, json,
        me::{LANGUAGE, NAME},
        ok, text,
    },
    words::WRITTEN,
};
use axum::{extract::State, http::StatusCode};
use famulus_core::person::{Person, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize, JsonSchema)]
pub(crate) struct People {
    people: Vec<Person>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewPerson {
    #[schemars(length(max = NAME), regex(pattern = WRITTEN))]
    name: String,
    role: NewRole,
    /// IANA name; the owner's zone unless told.
    #[schemars(extend("format" = "time-zone"))]
    time_zone: Option<String>,
    /// BCP 47 tag; the owner's language unless told.
    #[schemars(length(max = LANGUAGE), regex(pattern = WRITTEN))]
    language: Option<String>,
}

/// An installation has one owner: everybody else is one of these.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum NewRole {
    Member,
    Contact,
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    ok(&People { people: app.api.store.people().await? })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewPerson>,
) -> Answer {
    let NewPerson { name, role, time_zone, language } = new;
    text("name", &name, NAME)?;
    if let Some(language) = &language {
        text("language", language, LANGUAGE)?;
    }
    let role = match role {
        NewRole::Member => Role::Member,
        NewRole::Contact => Role::Contact,
    };
    let owner = &caller.person;
    let person = famulus_store::NewPerson {
        name,
        role,
        time_zone: time_zone.unwrap_or_else(|| owner.time_zone.clone()),
        language: language.unwrap_or_else(|| owner.language.clone()),
    };
    json(StatusCode::CREATED, &app.api.store.create_person(person).await?)
}
