//! Whether the process lives, whether it takes work, and what it measures.

use crate::{
    app::App,
    handlers::{Answer, channels, json, ok, queue},
    openapi,
};
use axum::{
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
};
use famulus_store::Error;
use schemars::JsonSchema;
use serde::Serialize;
use std::{sync::Arc, time::Duration};

/// A database that does not answer within this time does not answer.
const ANSWER: Duration = Duration::from_secs(2);

#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    ok: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    reasons: Vec<&'static str>,
}

pub(crate) async fn live() -> Answer {
    ok(&Health { ok: true, reasons: Vec::new() })
}

/// Asks the database only when its last answer is old, so that probes cost next to nothing.
pub(crate) async fn ready(State(app): State<Arc<App>>) -> Answer {
    let ready = &app.api.readiness;
    if ready.is_stale(app.api.clock.as_ref())
        && let Ok(Ok(())) = tokio::time::timeout(ANSWER, app.api.store.ping()).await
    {
        ready.answered(app.api.clock.now());
    }
    let reasons = ready.reasons(app.api.clock.as_ref());
    let ok = reasons.is_empty();
    let status = if ok { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    json(status, &Health { ok, reasons })
}

/// What this process measured, and the queue and the channels as they are. Without an answer of the database
/// these are left out: numbers of before would say that all is well.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Answer {
    let mut text = (app.api.metrics)();
    let asked = async {
        let queue = queue::exposition(&app.api.store.queue_report().await?.into());
        Ok::<_, Error>(queue + &channels::exposition(&channels::accounts(&app).await?))
    };
    match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(of_database)) => text.push_str(&of_database),
        Ok(Err(error)) => tracing::warn!(%error, "the queue is not among the metrics"),
        Err(_late) => tracing::warn!("the queue is not among the metrics: no answer in {ANSWER:?}"),
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

pub(crate) async fn openapi() -> Answer {
    Ok(([(header::CONTENT_TYPE, "application/json")], openapi::document()).into_response())
}
