//! The caller: who, with which rights, served by what.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, ok, text},
    problem::Problem,
    words::WRITTEN,
};
use axum::extract::State;
use famulus_core::person::{Person, Scope};
use famulus_store::PersonChange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Characters of a person's name, and of a language's tag.
pub(crate) const NAME: usize = 100;
pub(crate) const LANGUAGE: usize = 35;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Me {
    person: Person,
    scope: Scope,
    version: &'static str,
    model: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MeChange {
    #[schemars(length(max = NAME), regex(pattern = WRITTEN))]
    name: Option<String>,
    /// IANA name; wall-clock schedules move along.
    #[schemars(extend("format" = "time-zone"))]
    time_zone: Option<String>,
    /// BCP 47 tag.
    #[schemars(length(max = LANGUAGE), regex(pattern = WRITTEN))]
    language: Option<String>,
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
) -> Answer {
    // The remembered caller may be some seconds old; the person's own view of themselves is not.
    let person = app.api.store.person(caller.person.id).await?;
    ok(&Me {
        person: person.unwrap_or_else(|| caller.person.clone()),
        scope: caller.scope,
        version: env!("CARGO_PKG_VERSION"),
        model: app.api.configured.borrow().model.clone(),
    })
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(change, _held): Json<MeChange>,
) -> Answer {
    let MeChange { name, time_zone, language } = change;
    if let Some(name) = &name {
        text("name", name, NAME)?;
    }
    if let Some(language) = &language {
        text("language", language, LANGUAGE)?;
    }
    let change = PersonChange { name, time_zone, language };
    let changed = app.api.store.change_person(caller.person.id, change).await?;
    app.callers.forget(None);
    ok(&changed.ok_or_else(|| Problem::missing("this person", "GET /v1/people"))?)
}
