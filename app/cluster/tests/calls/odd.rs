//! Runners that are behind, ahead, or not what they should be, played word by word.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use famulus_core::sandbox::{RunOutput, SandboxError};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::{Kind, Problem, RENDERED_HEADER};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::bench::{Bench, only, text_of};
use crate::runner::address;

/// What a runner answers, one a request, and what it was asked.
#[derive(Clone, Default)]
struct Script {
    answers: Arc<Mutex<VecDeque<(StatusCode, String)>>>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Script {
    async fn play(
        address: IpAddr,
        answers: impl IntoIterator<Item = (StatusCode, String)>,
    ) -> Self {
        let script = Self::default();
        script.answers.lock().extend(answers);
        let listener = TcpListener::bind((address, 8090)).await.unwrap();
        let router = Router::new().fallback(answer).with_state(script.clone());
        Tasks::new().spawn("script", OnExit::Log, async move {
            axum::serve(listener, router).await.unwrap();
        });
        script
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }
}

async fn answer(State(script): State<Script>, request: Request) -> Response {
    let rendered = request.headers()[RENDERED_HEADER].to_str().unwrap();
    let asked = format!("{} {} {rendered}", request.method(), request.uri().path());
    script.asked.lock().push(asked);
    let (status, body) = script.answers.lock().pop_front().unwrap();
    (status, body).into_response()
}

fn refusal(kind: Kind) -> (StatusCode, String) {
    let status = StatusCode::from_u16(kind.status()).unwrap();
    (status, serde_json::to_string(&Problem::new(kind, "detail", "remedy")).unwrap())
}

fn result() -> Value {
    let run = json!({"outcome": "text", "output": "done", "files": [], "notes": [], "millis": 1});
    json!({"call": "c1", "tool": "echo", "each": false, "runs": [run]})
}

fn lines() -> (StatusCode, String) {
    let mut last = result();
    last["event"] = json!("result");
    // What a newer runner says more is passed over.
    last["newer"] = json!(true);
    (StatusCode::OK, format!("{}\n{last}\n", json!({"event": "alive"})))
}

#[tokio::test]
async fn a_runner_that_is_stale_is_asked_again_and_told_what_is_needed() {
    let bench = Bench::new().await;
    let address = address();
    let answers = [refusal(Kind::Stale), refusal(Kind::Stale), lines()];
    let script = Script::play(address, answers).await;
    bench.pod("one", address, true);
    assert_eq!(bench.text("c1", "echo").await, "done");
    assert_eq!(script.asked(), ["POST /v1/calls/c1 1"; 3]);
}

#[tokio::test]
async fn a_runner_of_another_release_is_named_with_the_remedy() {
    let bench = Bench::new().await;
    let address = address();
    let health = json!({"versions": [7], "plugin": "test", "tools": [], "complaints": [], "running": 0,
        "queued": 0, "kept": 0, "draining": false, "isolation": null});
    let answers = [refusal(Kind::NoRoute), (StatusCode::OK, health.to_string())];
    let _script = Script::play(address, answers).await;
    bench.pod("one", address, true);
    let error = bench.run("c1", "echo", json!({})).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the runner of `test` speaks versions [7] of the protocol and the app [1]; install app, \
         operator and runner image of one release"
    );
}

#[tokio::test]
async fn what_no_runner_says_is_not_believed() {
    // None of these is a result. What became of the call is asked; it is not sent again.
    for odd in [
        (StatusCode::OK, "<html>\n".to_owned()),
        (StatusCode::OK, "{\"event\":\"result\"}\n".to_owned()),
        (StatusCode::OK, String::new()),
        (StatusCode::BAD_GATEWAY, "<html>".to_owned()),
    ] {
        let (bench, address) = (Bench::new().await, address());
        let ended = json!({"state": "ended", "result": result()}).to_string();
        let script = Script::play(address, [odd, (StatusCode::OK, ended)]).await;
        bench.pod("one", address, true);
        let run = only(bench.run("c1", "echo", json!({})).await);
        assert_eq!(text_of(&run), "done");
        assert_eq!(script.asked(), ["POST /v1/calls/c1 1", "GET /v1/calls/c1 1"]);
    }
}

#[tokio::test]
async fn a_result_that_is_too_large_is_no_unknown_outcome() {
    // As a runner of another release makes it, with another limit.
    let (bench, address) = (Bench::new().await, address());
    let mut large = result();
    large["runs"][0]["output"] = json!("x".repeat(9 * 1024 * 1024));
    let mut line = large.clone();
    line["event"] = json!("result");
    let ended = json!({"state": "ended", "result": large}).to_string();
    let answers = [(StatusCode::OK, format!("{line}\n")), (StatusCode::OK, ended)];
    let script = Script::play(address, answers).await;
    bench.pod("one", address, true);
    let run = only(bench.run("c1", "echo", json!({})).await);
    let RunOutput::Failed(message) = &run.output else { panic!("{run:?}") };
    assert!(message.starts_with("the tool has run, and what it did stays done"), "{message}");
    assert!(message.contains("may have 8388608 bytes"), "{message}");
    assert_eq!(script.asked(), ["POST /v1/calls/c1 1", "GET /v1/calls/c1 1"]);
}

#[tokio::test]
async fn refusals_are_told_apart() {
    type Holds = fn(&SandboxError) -> bool;
    let bench = Bench::new().await;
    let address = address();
    let kinds: [(Kind, Holds); 6] = [
        (Kind::Busy, |error| matches!(error, SandboxError::Unreachable { .. })),
        (Kind::Unacknowledged, |error| matches!(error, SandboxError::Unreachable { .. })),
        (Kind::Acknowledged, |error| matches!(error, SandboxError::Lost { .. })),
        (Kind::NoTool, |error| matches!(error, SandboxError::Refused(_))),
        (Kind::Manifest, |error| matches!(error, SandboxError::Refused(_))),
        (Kind::Internal, |error| matches!(error, SandboxError::Refused(_))),
    ];
    let script = Script::play(address, kinds.iter().map(|(kind, _)| refusal(*kind))).await;
    bench.pod("one", address, true);
    for (kind, holds) in kinds {
        let error = bench.run("c1", "echo", json!({})).await.unwrap_err();
        assert!(holds(&error), "{kind:?}: {error:?}");
    }
    assert_eq!(script.asked().len(), 6);
}
