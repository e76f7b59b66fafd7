//! The receiver of replies: a webhook that takes everything and remembers the order.

use anyhow::Result;
use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::post,
};
use famulus_lifecycle::{OnExit, Tasks};
use parking_lot::Mutex;
use serde_json::Value;
use std::{net::Ipv4Addr, sync::Arc};
use tokio::net::TcpListener;

/// One request, as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) id: String,
    pub(crate) conversation: String,
    pub(crate) markdown: String,
}

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) url: String,
    log: Arc<Mutex<Vec<Delivery>>>,
}

impl Receiver {
    pub(crate) async fn start(tasks: &Tasks) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let receiver =
            Self { url: format!("http://{}/", listener.local_addr()?), log: Arc::default() };
        let routes = Router::new().route("/", post(take)).with_state(receiver.clone());
        let shutdown = tasks.token();
        tasks.spawn("receiver", OnExit::Log, async move {
            tokio::select! {
                () = shutdown.cancelled() => {}
                _ended = axum::serve(listener, routes).into_future() => {}
            }
        });
        Ok(receiver)
    }

    pub(crate) fn received(&self) -> Vec<Delivery> {
        self.log.lock().clone()
    }
}

async fn take(State(receiver): State<Receiver>, headers: HeaderMap, body: Bytes) -> StatusCode {
    let id = headers.get("idempotency-key").and_then(|id| id.to_str().ok());
    let body: Option<Value> = serde_json::from_slice(&body).ok();
    let (Some(id), Some(body)) = (id, body) else { return StatusCode::BAD_REQUEST };
    let text = |field: &str| body[field].as_str().unwrap_or_default().to_owned();
    receiver.log.lock().push(Delivery {
        id: id.to_owned(),
        conversation: text("conversation_id"),
        markdown: text("markdown"),
    });
    StatusCode::NO_CONTENT
}
