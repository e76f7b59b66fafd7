//! Everybody who is known to this installation.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, json, ok, text},
    problem::Problem,
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
    name: String,
    /// `member` or `contact`.
    role: Role,
    /// IANA name; the owner's zone unless told.
    time_zone: Option<String>,
    /// BCP 47 tag; the owner's language unless told.
    language: Option<String>,
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
    text("name", &name, 100)?;
    if role == Role::Owner {
        return Err(Problem::bad(
            "an installation has one owner",
            "add the person as `member`; rights beyond that are the owner's",
        ));
    }
    let owner = &caller.person;
    let person = famulus_store::NewPerson {
        name,
        role,
        time_zone: time_zone.unwrap_or_else(|| owner.time_zone.clone()),
        language: language.unwrap_or_else(|| owner.language.clone()),
    };
    json(StatusCode::CREATED, &app.api.store.create_person(person).await?)
}
