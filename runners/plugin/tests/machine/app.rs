//! The app behind the doors: it believes a plugin's bearer at that plugin's door, and keeps bundles.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::{get, post, put};
use famulus_core::runner::Door;
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use tokio::net::UnixListener;
use tokio::sync::mpsc;

/// What the app has and was told.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) bundles: BTreeMap<String, Vec<u8>>,
    /// Results that came later, with the UID of the plugin through whose door they came.
    pub(crate) results: Vec<(String, String)>,
}

#[derive(Clone)]
struct Behind {
    /// Whose door it is.
    plugin: Arc<str>,
    kept: Arc<Mutex<Kept>>,
}

/// Serves every door that is opened.
pub(crate) fn serve(mut doors: mpsc::Receiver<Door>, kept: &Arc<Mutex<Kept>>, tasks: &Tasks) {
    let (kept, serving) = (Arc::clone(kept), tasks.clone());
    tasks.spawn("app.doors", OnExit::Log, async move {
        while let Some(Door { plugin, listener, closed }) = doors.recv().await {
            listener.set_nonblocking(true).unwrap();
            let listener = UnixListener::from_std(listener).unwrap();
            let router = router(Behind { plugin, kept: Arc::clone(&kept) });
            serving.spawn("app.door", OnExit::Log, async move {
                tokio::select! {
                    served = async { axum::serve(listener, router).await } => served.unwrap(),
                    () = closed.cancelled() => {}
                }
            });
        }
    });
}

fn router(behind: Behind) -> Router {
    Router::new()
        .route("/internal/v1/ping", get(async || StatusCode::NO_CONTENT))
        .route("/internal/v1/revisions/{hex}/description", put(describe))
        .route("/internal/v1/revisions/{hex}/bundle", get(give).put(take))
        .route("/internal/v1/calls/{id}/result", post(result))
        .layer(DefaultBodyLimit::disable())
        .with_state(behind)
}

fn is_right(behind: &Behind, headers: &HeaderMap) -> bool {
    let plugin = headers.get("famulus-plugin").and_then(|value| value.to_str().ok());
    plugin == Some(&*behind.plugin)
}

async fn describe(
    State(behind): State<Behind>,
    Path(hex): Path<String>,
    headers: HeaderMap,
) -> StatusCode {
    match (is_right(&behind, &headers), behind.kept.lock().bundles.contains_key(&hex)) {
        (false, _) => StatusCode::UNAUTHORIZED,
        (true, true) => StatusCode::OK,
        (true, false) => StatusCode::NO_CONTENT,
    }
}

async fn take(
    State(behind): State<Behind>,
    Path(hex): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    if !is_right(&behind, &headers) {
        return StatusCode::UNAUTHORIZED;
    }
    behind.kept.lock().bundles.insert(hex, body.to_vec());
    StatusCode::NO_CONTENT
}

async fn give(
    State(behind): State<Behind>,
    Path(hex): Path<String>,
) -> Result<Vec<u8>, StatusCode> {
    behind.kept.lock().bundles.get(&hex).cloned().ok_or(StatusCode::NOT_FOUND)
}

async fn result(State(behind): State<Behind>, body: String) -> StatusCode {
    behind.kept.lock().results.push((behind.plugin.to_string(), body));
    StatusCode::NO_CONTENT
}
