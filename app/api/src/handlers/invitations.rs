//! Links by which somebody's own account on a chat channel becomes known, without a code.

use crate::{
    app::App,
    body::{Authenticated, Json},
    handlers::{Answer, json},
    problem::{Kind, Problem},
};
use axum::{extract::State, http::StatusCode};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use famulus_core::{clock::Rfc3339, ids::PersonId, pairing::SECRET_BYTES};
use famulus_store::{Invitation, Invited};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewInvitation {
    /// One of `GET /v1/channels`.
    channel: String,
    /// Who becomes known by it; the caller unless told.
    person: Option<PersonId>,
}

/// Whoever opens it first is the person for whom it was made: it is shown this once, and to nobody else.
#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeInvitation {
    link: String,
    #[schemars(with = "Rfc3339")]
    until: Timestamp,
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewInvitation>,
) -> Answer {
    let NewInvitation { channel, person } = new;
    if !app.api.hearing.contains(&channel) {
        return Err(Problem::missing("this channel", "GET /v1/channels"));
    }
    let person = person.unwrap_or(caller.person.id);
    let secret = URL_SAFE_NO_PAD.encode(rand::random::<[u8; SECRET_BYTES]>());
    match app.api.store.invite(&channel, person, &secret).await? {
        Invited::Done(Invitation { link, until }) => {
            let link = format!("{link}{secret}");
            json(StatusCode::CREATED, &MadeInvitation { link, until })
        }
        Invited::NoLink => Err(Problem::new(
            Kind::Conflict,
            "the platform has not told yet how links to this channel's account begin",
            "see GET /v1/channels for whether it answers; or write to it, and let yourself in by the \
             code that you are told",
        )),
        Invited::NoPerson => Err(Problem::missing("this person", "GET /v1/people")),
    }
}
