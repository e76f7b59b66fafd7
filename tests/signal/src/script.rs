//! The script by HTTP, for a test that is not in this process.
//!
//! | request | what it does |
//! |---|---|
//! | `POST /write` `{user, fields}` | somebody sends a message |
//! | `POST /keep` | keeps the body as a file, which messages can name; `{id}` |
//! | `POST /scan` `{user, link}` | a phone that has this account scans a link |
//! | `GET /sent` | what was sent, in order |
//! | `GET /waiting` | how many messages wait with Signal |
//! | `GET /handed` | which streams were told each message, in order, and whether one of them is open |

use crate::people::User;
use crate::server::Signal;
use crate::world::Message;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use bytes::Bytes;
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::SocketAddr;
use tokio::net::TcpListener;

#[derive(Deserialize)]
struct Written {
    user: User,
    fields: Value,
}

#[derive(Deserialize)]
struct Scanned {
    user: User,
    link: String,
}

impl Signal {
    /// Takes scripts at this address, which nobody but a test should reach.
    ///
    /// # Errors
    /// Nobody can listen there.
    pub async fn take_scripts(&self, address: SocketAddr) -> std::io::Result<()> {
        let listener = TcpListener::bind(address).await?;
        let router = Router::new()
            .route("/write", post(write))
            .route("/keep", post(keep))
            .route("/scan", post(scan))
            .route("/sent", get(async |State(signal): State<Self>| sent(&signal)))
            .route(
                "/waiting",
                get(async |State(signal): State<Self>| Json(json!(signal.waiting()))),
            )
            .route("/handed", get(async |State(signal): State<Self>| handed(&signal)))
            .with_state(self.clone());
        self.serve("scripts", listener, router);
        Ok(())
    }
}

async fn write(State(signal): State<Signal>, Json(told): Json<Written>) -> Json<Value> {
    Json(json!({"timestamp": signal.send(&told.user, told.fields)}))
}

async fn keep(State(signal): State<Signal>, bytes: Bytes) -> Json<Value> {
    Json(json!({"id": signal.keep(bytes)}))
}

async fn scan(State(signal): State<Signal>, Json(told): Json<Scanned>) -> StatusCode {
    signal.scan(&told.link, &told.user);
    StatusCode::NO_CONTENT
}

fn sent(signal: &Signal) -> Json<Value> {
    Json(signal.sent().iter().map(told).collect())
}

fn handed(signal: &Signal) -> Json<Value> {
    let all = signal.handed().into_iter().map(|one| {
        json!({"timestamp": one.timestamp, "streams": one.streams, "is_open": one.is_in_open_stream})
    });
    Json(all.collect())
}

fn told(message: &Message) -> Value {
    let files = message.files.iter().map(|file| {
        json!({"name": file.name, "media_type": file.media_type,
            "base64": BASE64_STANDARD.encode(&file.bytes)})
    });
    json!({
        "timestamp": message.timestamp, "to": message.to, "text": message.text,
        "styles": message.styles, "files": files.collect::<Value>(), "is_voice": message.is_voice,
        "edits": message.edits,
    })
}
