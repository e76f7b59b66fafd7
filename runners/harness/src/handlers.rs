//! The paths of the protocol.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use famulus_protocol::{
    Accepted, CallId, CallState, FILES, Health, Kind, Problem, RunCall, SelfTest, VERSION, paths,
};

use crate::calls::{Calls, Started, cannot_write, defect};
use crate::files;
use crate::live::Phase;
use crate::pieces;
use crate::refusal::Refusal;
use crate::stream;
use crate::work::{Answer, WorkHealth};

/// A call whose files are inside, in base64, and a little more.
const CALL_BYTES: usize = 36 * 1024 * 1024;

/// What a handler needs.
type Shared = State<Arc<Calls>>;

pub(crate) fn router(calls: Arc<Calls>) -> Router {
    Router::new()
        .route(paths::ALIVE, get(alive))
        .route(paths::HEALTH, get(health))
        .route(paths::SELF_TEST, post(self_test))
        .route(paths::OWN_FILES, get(give_files).put(take_files))
        .route(paths::CONFIGURATION, get(configuration))
        .route("/v1/calls/{id}", post(run).get(state))
        .route("/v1/calls/{id}/uploads/{index}", put(upload))
        .route("/v1/calls/{id}/progress", get(progress))
        .route("/v1/calls/{id}/files/{index}", get(file))
        .route("/v1/calls/{id}/cancel", post(cancel))
        .route("/v1/calls/{id}/acknowledge", post(acknowledge))
        .fallback(no_route)
        .method_not_allowed_fallback(no_route)
        .layer(DefaultBodyLimit::disable())
        .with_state(calls)
}

/// Says that the process serves, and can take calls.
async fn alive(State(calls): Shared) -> Response {
    if calls.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, "draining\n").into_response();
    }
    match calls.work.readiness() {
        Ok(()) => "ok\n".into_response(),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn health(State(calls): Shared) -> Result<Json<Health>, Refusal> {
    let counts = calls.counts();
    let (draining, isolation) = (calls.is_draining(), calls.supervisor.isolation());
    let work = tokio::task::spawn_blocking(move || calls.work.health()).await;
    let WorkHealth { plugin, tools, complaints, network, revision, rendered } =
        work.map_err(|_panicked| defect("the manifests could not be read"))?;
    Ok(Json(Health {
        versions: vec![VERSION],
        plugin,
        tools,
        complaints,
        running: counts.running,
        queued: counts.queued,
        kept: counts.kept,
        draining,
        isolation,
        network,
        revision,
        rendered,
    }))
}

async fn self_test(State(calls): Shared) -> Result<Json<SelfTest>, Refusal> {
    Ok(Json(calls.self_test().await?))
}

async fn give_files(State(calls): Shared) -> Result<Response, Refusal> {
    let pieces = calls.work.give_files().await?;
    let tar = [(header::CONTENT_TYPE, "application/x-tar")];
    Ok((tar, Body::from_stream(pieces)).into_response())
}

async fn take_files(State(calls): Shared, body: Body) -> Result<StatusCode, Refusal> {
    calls.work.take_files(pieces::of(body)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn configuration(State(calls): Shared) -> Result<Response, Refusal> {
    let calls = Arc::clone(&calls);
    let read = tokio::task::spawn_blocking(move || calls.work.configuration()).await;
    let text = read.map_err(|_panicked| defect("the configuration could not be read"))??;
    Ok(([(header::CONTENT_TYPE, "application/json")], text).into_response())
}

async fn run(
    State(calls): Shared,
    Path(id): Path<String>,
    body: Body,
) -> Result<Response, Refusal> {
    let id = call_id(&id)?;
    let body = axum::body::to_bytes(body, CALL_BYTES).await.map_err(|_cut| {
        Problem::new(
            Kind::TooLarge,
            format!("the call has more than {CALL_BYTES} bytes, or broke off"),
            "send its files as uploads",
        )
    })?;
    let request = parse(&body)?;
    drop(body);
    let Started { live, answer, lines } = calls.start(id.clone(), request).await?;
    match answer {
        Answer::Stream => Ok(stream::progress(calls, id, &live, lines)),
        Answer::Later => {
            // Nobody waits for the result of what is said to run: it comes by itself, also when this
            // runner dies now.
            live.noted.cancelled().await;
            let position = match live.phase() {
                Phase::Queued(position) => position,
                Phase::Running | Phase::Ended => 0,
            };
            let accepted = Accepted { call: id, status: "running".to_owned(), position };
            Ok((StatusCode::ACCEPTED, Json(accepted)).into_response())
        }
    }
}

fn parse(body: &Bytes) -> Result<RunCall, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(
            Kind::Invalid,
            format!("the body is no call: {error}"),
            "send an object with `tool`, `parameters` and, for an async tool, `callback`",
        )
    })
}

async fn state(State(calls): Shared, Path(id): Path<String>) -> Result<Json<CallState>, Refusal> {
    let id = call_id(&id)?;
    let Some(live) = calls.find(&id)? else { return Ok(Json(CallState::Uploading)) };
    Ok(Json(match live.phase() {
        Phase::Queued(position) => CallState::Queued { position },
        Phase::Running => CallState::Running,
        Phase::Ended => CallState::Ended { result: calls.result(&id).await? },
    }))
}

async fn progress(State(calls): Shared, Path(id): Path<String>) -> Result<Response, Refusal> {
    let id = call_id(&id)?;
    let live = calls.taken(&id)?;
    let lines = live.lines.subscribe();
    Ok(stream::progress(calls, id, &live, lines))
}

async fn upload(
    State(calls): Shared,
    Path((id, index)): Path<(String, String)>,
    body: Body,
) -> Result<StatusCode, Refusal> {
    let (id, index) = (call_id(&id)?, file_index(&index)?);
    calls.expect_uploads(&id)?;
    calls.call_store.make_room(&id).await.map_err(|error| cannot_write(&error))?;
    files::receive(&calls.call_store.uploads(&id).join(index.to_string()), body).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn file(
    State(calls): Shared,
    Path((id, index)): Path<(String, String)>,
) -> Result<Response, Refusal> {
    let (id, index) = (call_id(&id)?, file_index(&index)?);
    let live = calls.taken(&id)?;
    if live.phase() != Phase::Ended {
        return Err(Problem::new(
            Kind::NotEnded,
            format!("call `{id}` has not ended"),
            "wait for its result",
        )
        .into());
    }
    Ok(files::send(&calls.call_store.outputs(&id).join(index.to_string())).await?)
}

async fn cancel(State(calls): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    calls.taken(&call_id(&id)?)?.cancel.cancel();
    Ok(StatusCode::ACCEPTED)
}

async fn acknowledge(State(calls): Shared, Path(id): Path<String>) -> Result<StatusCode, Refusal> {
    calls.acknowledge(&call_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn no_route() -> Refusal {
    Refusal(Problem::new(
        Kind::NoRoute,
        "there is no such path, or not with this method",
        "see the list of paths of version 1 of the protocol",
    ))
}

fn call_id(text: &str) -> Result<CallId, Problem> {
    text.parse().map_err(|error| {
        Problem::new(
            Kind::Invalid,
            format!("this cannot name a call: {error}"),
            "choose another id",
        )
    })
}

fn file_index(text: &str) -> Result<u32, Problem> {
    text.parse().ok().filter(|index| *index < FILES).ok_or_else(|| {
        Problem::new(
            Kind::NoFile,
            "this is no index of a file",
            format!("count from 0 to {}", FILES - 1),
        )
    })
}
