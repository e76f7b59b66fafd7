//! Results of async tools go to the app by themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use famulus_protocol::{Accepted, CALL_TOKEN_HEADER, CallState, Delivery, Reason, VERSION, paths};
use parking_lot::Mutex;
use reqwest::{Method, Response, StatusCode};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{BEARER, Bench, PATIENCE, Runner, call_id, failure_of, lives, text_of, until};

/// What the app was sent: a head and a body.
type Heard = Arc<Mutex<Vec<(String, Delivery)>>>;

/// An app that gives these answers, one a request, and repeats the last; nothing means that it hangs
/// up.
async fn app(answers: &'static [&'static str]) -> (String, Heard) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/callbacks/c1", listener.local_addr().unwrap());
    let heard = Heard::default();
    let told = Arc::clone(&heard);
    famulus_lifecycle::Tasks::new().spawn("app", famulus_lifecycle::OnExit::Log, async move {
        for request in 0.. {
            let (socket, _) = listener.accept().await.unwrap();
            let answer = answers[request.min(answers.len() - 1)];
            answer_one(socket, answer, &told).await;
        }
    });
    (url, heard)
}

async fn answer_one(mut socket: TcpStream, answer: &str, heard: &Heard) {
    if answer.is_empty() {
        return;
    }
    let mut bytes = Vec::new();
    let (head, body) = loop {
        let mut piece = [0; 4096];
        // Who was killed in the middle of it has told nothing.
        let Ok(read @ 1..) = socket.read(&mut piece).await else { return };
        bytes.extend_from_slice(&piece[..read]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
        if body.len() >= length.trim().parse::<usize>().unwrap() {
            break (lower, body.to_owned());
        }
    };
    heard.lock().push((head, serde_json::from_str(&body).unwrap()));
    let answer = format!("HTTP/1.1 {answer}\r\ncontent-length: 0\r\n\r\n");
    let _gone = socket.write_all(answer.as_bytes()).await;
}

async fn post(runner: &Runner, id: &str, tool: &str, url: &str) -> Response {
    let body: Value = json!({
        "tool": tool, "parameters": {}, "callback": {"url": url, "token": "one-time-token"},
    });
    runner.send(Method::POST, &paths::call(&call_id(id)), Some(body)).await
}

#[tokio::test]
async fn a_callback_is_repeated_until_it_is_accepted_and_the_result_stays() {
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\nsleep 0.2\necho late\n");
    let runner = bench.start();
    let (url, heard) = app(&["", "500 Oops", "503 Busy", "204 Fine"]).await;
    let accepted = post(&runner, "c1", "later", &url).await;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let accepted: Accepted = accepted.json().await.unwrap();
    assert_eq!((accepted.call, accepted.status.as_str()), (call_id("c1"), "running"));

    until("the app was told three times", || heard.lock().len() == 3).await;
    for (head, delivery) in heard.lock().iter() {
        assert!(head.starts_with("post /v1/callbacks/c1 http/1.1\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nauthorization: bearer {BEARER}\r\n")), "{head}");
        assert!(head.contains(&format!("\r\n{CALL_TOKEN_HEADER}: one-time-token\r\n")), "{head}");
        assert_eq!((delivery.version, delivery.plugin.as_str()), (VERSION, "test"));
        assert_eq!(delivery.result.call, call_id("c1"));
        assert_eq!(text_of(&delivery.result.runs[0]), "late\n");
    }
    // Once accepted it is not sent again, and stays until it is acknowledged.
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert_eq!(heard.lock().len(), 3);
    assert!(matches!(runner.state("c1").await, CallState::Ended { .. }));
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_result_that_nobody_wants_does_not_stay() {
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\necho late\n");
    let runner = bench.start_with(&[("KEPT_RESULTS", "2")]);
    let (url, heard) = app(&["410 Gone"]).await;
    // More of them than may be kept.
    for id in ["c1", "c2", "c3", "c4"] {
        assert_eq!(post(&runner, id, "later", &url).await.status(), StatusCode::ACCEPTED, "{id}");
        let begun = Instant::now();
        while runner.send(Method::GET, &paths::call(&call_id(id)), None).await.status()
            != StatusCode::NOT_FOUND
        {
            assert!(begun.elapsed() < PATIENCE, "{id} stays");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(heard.lock().len(), 4);
}

#[tokio::test]
async fn a_result_that_the_app_finds_too_large_is_replaced_by_the_word_that_it_is() {
    let bench = Bench::new();
    let script = "#!/bin/sh\necho content > ${TMPDIR%/*}/test/out.txt\necho late\n";
    bench.tool("later", json!({"async": true}), script);
    let runner = bench.start();
    let (url, heard) = app(&["413 Large", "500 Oops", "204 Fine"]).await;
    post(&runner, "c1", "later", &url).await;
    until("the app was told three times", || heard.lock().len() == 3).await;
    let heard = heard.lock();
    assert_eq!(text_of(&heard[0].1.result.runs[0]), "late\n");
    for (_, delivery) in &heard[1..] {
        let run = &delivery.result.runs[0];
        let failure = failure_of(run);
        assert!(failure.message.contains("more than the app takes"), "{failure:?}");
        assert_eq!(run.files[0].name, "out.txt", "what it left is had all the same");
    }
}

#[tokio::test]
async fn an_acknowledged_result_is_not_delivered_any_more() {
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\necho late\n");
    let runner = bench.start();
    let (url, heard) = app(&["500 Oops"]).await;
    post(&runner, "c1", "later", &url).await;
    until("the app was told", || !heard.lock().is_empty()).await;
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
    let told = heard.lock().len();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    // One may have been on its way.
    assert!(heard.lock().len() <= told + 1);
}

#[tokio::test]
async fn a_successor_delivers_what_its_predecessor_could_not() {
    let bench = Bench::new();
    bench.tool("quick", json!({"async": true}), "#!/bin/sh\necho late\n");
    let waits = "#!/bin/sh\necho $$ > STATE/pid\nsleep 60\n";
    bench.tool("waits", json!({"async": true}), waits);
    let mut runner = bench.start();
    let (deaf, refused) = app(&["500 Oops"]).await;
    post(&runner, "done", "quick", &deaf).await;
    until("it was tried", || !refused.lock().is_empty()).await;
    post(&runner, "cut", "waits", &deaf).await;
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    runner.kill();
    until("the tool ends", || !lives(&bench.read("state/pid"))).await;
    refused.lock().clear();
    let _runner = bench.start();
    until("both were told", || {
        let heard = refused.lock();
        let told = |id: &str| heard.iter().any(|(_, one)| one.result.call == call_id(id));
        told("done") && told("cut")
    })
    .await;
    let heard = refused.lock();
    for (_, delivery) in heard.iter() {
        let run = &delivery.result.runs[0];
        if delivery.result.call == call_id("cut") {
            assert_eq!(failure_of(run).reason, Reason::Lost);
        } else {
            assert_eq!(text_of(run), "late\n");
        }
    }
}

/// What was said to run is on disk by then, so that a successor knows of it.
#[tokio::test]
async fn a_call_that_was_said_to_run_is_heard_of_however_soon_its_runner_dies() {
    const ROUNDS: usize = 12;
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\nsleep 60\n");
    let mut runner = bench.start();
    for round in 0..ROUNDS {
        let (url, heard) = app(&["204 Fine"]).await;
        let id = format!("c{round}");
        assert_eq!(post(&runner, &id, "later", &url).await.status(), StatusCode::ACCEPTED);
        runner.kill();
        runner = bench.start();
        until("the app was told what became of it", || heard.lock().len() == 1).await;
        let (_, delivery) = heard.lock().remove(0);
        assert_eq!(failure_of(&delivery.result.runs[0]).reason, Reason::Lost);
    }
}

#[tokio::test]
async fn a_runner_that_is_asked_to_end_delivers_its_results_first() {
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\nsleep 0.5\necho late\n");
    let mut runner = bench.start();
    let (url, heard) = app(&["500 Oops", "204 Fine"]).await;
    post(&runner, "c1", "later", &url).await;
    let pid = rustix::process::Pid::from_child(&runner.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    until("the app was told twice", || heard.lock().len() == 2).await;
    assert_eq!(text_of(&heard.lock()[1].1.result.runs[0]), "late\n");
    // It is with the app when the app says so.
    assert!(runner.child.try_wait().unwrap().is_none());
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
    until("the runner ends", || runner.child.try_wait().unwrap().is_some()).await;
}

#[tokio::test]
async fn async_tools_have_their_own_deadline() {
    let bench = Bench::new();
    bench.tool("later", json!({"async": true}), "#!/bin/sh\nsleep 1\necho late\n");
    bench.tool("sooner", json!({}), "#!/bin/sh\nsleep 20\n");
    let runner = bench.start_with(&[("SYNC_SECONDS", "0.3"), ("ASYNC_SECONDS", "15")]);
    let body = json!({"tool": "later", "parameters": {}});
    let path = paths::call(&call_id("c1"));
    let accepted = runner.send(Method::POST, &path, Some(body)).await;
    // Without a callback the result waits to be fetched.
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    assert_eq!(text_of(&runner.ended("c1").await.runs[0]), "late\n");
    let failure = failure_of(&runner.run("c2", "sooner", json!({})).await);
    assert_eq!(failure.reason, Reason::Deadline);
}

#[tokio::test]
async fn an_async_tool_is_ended_at_its_own_deadline() {
    let bench = Bench::new();
    bench.tool("endless", json!({"async": true}), "#!/bin/sh\nsleep 600\n");
    let runner = bench.start_with(&[("SYNC_SECONDS", "0.3"), ("ASYNC_SECONDS", "2")]);
    let body = json!({"tool": "endless", "parameters": {}});
    let begun = Instant::now();
    let accepted = runner.send(Method::POST, &paths::call(&call_id("c1")), Some(body)).await;
    assert_eq!(accepted.status(), StatusCode::ACCEPTED);
    let failure = failure_of(&runner.ended("c1").await.runs[0]);
    assert!(begun.elapsed() >= Duration::from_secs(2), "not at that of other tools");
    assert_eq!(failure.reason, Reason::Deadline);
    assert!(failure.message.starts_with("the tool was not done after 2 s"), "{failure:?}");
}
