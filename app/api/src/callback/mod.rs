//! The callback listener, for sandboxes: bundles are uploaded and downloaded, and results of calls that
//! end later come in.
//!
//! ```text
//! Pod ─► bearer, plugin, origin ─► Runners::authenticate ─► the plugin's name ─► handler
//!                                                        └ results: token of the very call, too
//! ```
//!
//! No token of a person counts here, and no bearer of a runner on another listener. What holds: who is
//! not authenticated learns nothing, not even whether a call or a revision exists.

mod bundles;
pub(crate) mod canary;
mod results;

use crate::{
    app::App,
    fairness::ShareLimits,
    problem::{Kind, Problem},
};
use axum::{
    Router,
    extract::{FromRequestParts, Request},
    http::{StatusCode, header, request::Parts},
    routing::{get, post, put},
};
use famulus_core::runner::{Origin, RunnerCredentials};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// Connections of all sandboxes at once. They take no place of a connection of people. A runner holds
/// one while it probes, and one for each late result; who is refused comes again.
pub(crate) const CONNECTIONS: ShareLimits = ShareLimits { all: 512, per_origin: 16, first: 128 };

/// How long a head may take, and a connection that says nothing: a Pod of the same cluster sends its
/// few hundred bytes at once.
pub(crate) const HEAD: Duration = Duration::from_secs(5);

/// The names that the protocol of runners gives to headers.
const PLUGIN: &str = "famulus-plugin";
const RENDERED: &str = "famulus-rendered";
const CALL_TOKEN: &str = "famulus-call-token";

pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/internal/v1/ping", get(ping))
        .route("/internal/v1/revisions/{hex}/description", put(bundles::describe))
        .route("/internal/v1/revisions/{hex}/bundle", put(bundles::keep).get(bundles::read))
        .route("/internal/v1/calls/{id}/result", post(results::take))
        .fallback(nothing)
        .with_state(app)
}

/// The control of a look at the network: what may be reached is.
async fn ping() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn nothing(_: Runner) -> Problem {
    Problem::new(Kind::NoRoute, "nothing is served under this path", "see docs/ARCHITECTURE.md")
}

/// Says where a request comes from.
pub(crate) fn from(mut request: Request, origin: Origin) -> Request {
    request.extensions_mut().insert(origin);
    request
}

/// A sandbox that has proved of which plugin it is.
pub(crate) struct Runner {
    pub(crate) plugin: String,
}

impl FromRequestParts<Arc<App>> for Runner {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let now = Instant::now();
        let Some(from) = parts.extensions.get::<Origin>().cloned() else {
            return Err(unproved());
        };
        app.failures.check(&from, now).map_err(too_many)?;
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let bearer =
            header(header::AUTHORIZATION.as_str()).and_then(|it| it.strip_prefix("Bearer "));
        let rendered = header(RENDERED).and_then(|number| number.parse().ok());
        let proved = match (bearer, header(PLUGIN), rendered) {
            (Some(bearer), Some(plugin), Some(rendered)) => {
                let from = from.clone();
                app.api.runners.authenticate(RunnerCredentials { plugin, rendered, bearer, from })
            }
            _ => None,
        };
        if let Some(plugin) = proved {
            return Ok(Self { plugin });
        }
        app.failures.take(&from, now).map_err(too_many)?;
        Err(unproved())
    }
}

fn unproved() -> Problem {
    Problem::new(
        Kind::Unauthorized,
        "this needs the bearer of a plugin's sandbox, sent from there",
        "send authorization, famulus-plugin and famulus-rendered as they were mounted",
    )
}

fn too_many(seconds: u32) -> Problem {
    Problem::new(
        Kind::TooManyFailures,
        "too many wrong bearers came from this address",
        format!("wait {seconds} s"),
    )
    .after(seconds)
}
