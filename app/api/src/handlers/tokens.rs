//! API tokens. A secret is shown once, when it is made, and kept nowhere.

use crate::{
    app::App,
    body::{Authenticated, Json, id},
    handlers::{Answer, gone, json, ok, text},
    problem::{Kind, Problem},
    words::WRITTEN,
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use famulus_core::{
    clock::Rfc3339,
    ids::{PersonId, TokenId},
    person::{Role, Scope},
};
use famulus_store::TokenInfo;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What a token begins with, so that it is recognised where it should not be.
const PREFIX: &str = "fam_";
/// Characters of a name.
const NAME: usize = 100;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Tokens {
    tokens: Vec<Token>,
}

#[derive(Serialize, JsonSchema)]
struct Token {
    id: TokenId,
    person: PersonId,
    name: String,
    scope: Scope,
    #[schemars(with = "Rfc3339")]
    created_at: Timestamp,
    #[schemars(with = "Option<Rfc3339>")]
    revoked_at: Option<Timestamp>,
}

impl From<TokenInfo> for Token {
    fn from(info: TokenInfo) -> Self {
        let TokenInfo { id, person, name, scope, created_at, revoked_at } = info;
        Self { id, person, name, scope, created_at, revoked_at }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewToken {
    /// What it is for.
    #[schemars(length(max = NAME), regex(pattern = WRITTEN))]
    name: String,
    /// `owner` for the owner alone.
    scope: Scope,
    /// Whose it is; the caller's unless told.
    person: Option<PersonId>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeToken {
    id: TokenId,
    /// Shown this once.
    token: String,
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    let tokens = app.api.store.tokens(None).await?;
    ok(&Tokens { tokens: tokens.into_iter().map(Into::into).collect() })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewToken>,
) -> Answer {
    let NewToken { name, scope, person } = new;
    text("name", &name, NAME)?;
    let person = match person {
        None => caller.person.clone(),
        Some(id) => {
            let found = app.api.store.person(id).await?;
            found.ok_or_else(|| Problem::missing("this person", "GET /v1/people"))?
        }
    };
    if scope == Scope::Owner && person.role != Role::Owner {
        return Err(Problem::new(
            Kind::Conflict,
            "only the owner's own tokens can have the scope `owner`",
            "make a token of the scope `chat` for this person",
        ));
    }
    let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
    let hash = Sha256::digest(token.as_bytes()).into();
    let id = app.api.store.create_token(person.id, &name, scope, hash).await?;
    json(StatusCode::CREATED, &MadeToken { id, token })
}

pub(crate) async fn revoke(State(app): State<Arc<App>>, Path(token): Path<String>) -> Answer {
    const LIST: &str = "GET /v1/tokens";
    let token = id::<TokenId>("token", &token, LIST)?;
    let was_there = app.api.store.revoke_token(token).await?;
    app.callers.forget(Some(token));
    if was_there { gone() } else { Err(Problem::missing("this token", LIST)) }
}
