//! A result is there until it is acknowledged, whatever happens to connections and runners.

use famulus_protocol::{CallState, Kind, Problem, Reason, paths};
use reqwest::{Method, StatusCode};
use serde_json::json;

use crate::support::{Bench, call_id, failure_of, lines_of, lives, result_of, text_of, until};

/// Counts itself before it says that it runs: a test may end it from then on.
const WAITS: &str = "#!/bin/sh\necho x >> STATE/count\necho $$ > STATE/pid\n\
                     while [ ! -e STATE/go ]; do sleep 0.02; done\necho done\n";

#[tokio::test]
async fn a_result_is_fetched_after_a_lost_connection_and_acknowledged() {
    let bench = Bench::new();
    bench.tool("waits", json!({}), WAITS);
    let runner = bench.start();
    drop(runner.post_call("c1", "waits", json!({})).await);
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    assert_eq!(runner.acknowledge("c1").await, StatusCode::CONFLICT);
    assert_eq!(runner.file("c1", 0).await.0, StatusCode::CONFLICT);
    bench.write("state/go", "");
    let result = runner.ended("c1").await;
    assert_eq!(text_of(&result.runs[0]), "done\n");
    // Whoever asks again gets the same.
    assert_eq!(runner.state("c1").await, CallState::Ended { result: result.clone() });
    assert_eq!(runner.result("c1", "waits", json!({})).await, result);
    assert_eq!(bench.read("state/count"), "x\n");

    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
    let path = paths::call(&call_id("c1"));
    let forgotten = runner.send(Method::GET, &path, None).await;
    assert_eq!(forgotten.status(), StatusCode::NOT_FOUND);
    assert!(!bench.path("kept/c1").exists());
    let (status, problem) = runner.refusal("c1", "waits", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::GONE, Kind::Acknowledged));
    assert_eq!(bench.read("state/count"), "x\n");
}

#[tokio::test]
async fn the_same_call_sent_twice_runs_once() {
    let bench = Bench::new();
    bench.tool("waits", json!({}), WAITS);
    let runner = bench.start();
    let first = runner.post_call("c1", "waits", json!({})).await;
    let second = runner.post_call("c1", "waits", json!({})).await;
    let path = paths::progress(&call_id("c1"));
    let third = runner.send(Method::GET, &path, None).await;
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    bench.write("state/go", "");
    let (first, second, third) = tokio::join!(lines_of(first), lines_of(second), lines_of(third));
    let first = result_of(first);
    assert_eq!(first, result_of(second));
    assert_eq!(first, result_of(third));
    assert_eq!(bench.read("state/count"), "x\n");
}

#[tokio::test]
async fn a_result_outlives_the_runner() {
    let bench = Bench::new();
    let script = "#!/bin/sh\necho file > ${TMPDIR%/*}/test/f\necho done\n";
    bench.tool("quick", json!({}), script);
    let mut runner = bench.start();
    let result = runner.result("c1", "quick", json!({})).await;
    runner.kill();
    let runner = bench.start();
    assert_eq!(runner.ended("c1").await, result);
    assert_eq!(runner.file("c1", 0).await.1, b"file\n");
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
}

#[tokio::test]
async fn a_runner_that_dies_takes_its_tools_along_and_its_successor_says_so() {
    let bench = Bench::new();
    bench.tool("waits", json!({}), WAITS);
    let mut runner = bench.start();
    let _cut = runner.post_call("c1", "waits", json!({})).await;
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    let tool = bench.read("state/pid");
    runner.kill();
    until("the tool ends", || !lives(&tool)).await;
    let runner = bench.start();
    let failure = failure_of(&runner.ended("c1").await.runs[0]);
    assert_eq!(failure.reason, Reason::Lost);
    assert!(failure.message.contains("outcome is unknown"), "{failure:?}");
    // It is not run again.
    runner.result("c1", "waits", json!({})).await;
    assert_eq!(bench.read("state/count"), "x\n");
}

#[tokio::test]
async fn a_supervisor_that_dies_leaves_nobody_behind() {
    let bench = Bench::new();
    let script =
        "#!/bin/sh\nsleep 60 &\necho $! > STATE/child\necho $PPID > STATE/supervisor\nwait\n";
    bench.tool("orphans", json!({}), script);
    bench.tool("quick", json!({}), "#!/bin/sh\necho quick\n");
    let runner = bench.start();
    let call = runner.post_call("c1", "orphans", json!({})).await;
    until("it runs", || !bench.read("state/supervisor").is_empty()).await;
    let supervisor: i32 = bench.read("state/supervisor").trim().parse().unwrap();
    let supervisor = rustix::process::Pid::from_raw(supervisor).unwrap();
    rustix::process::kill_process(supervisor, rustix::process::Signal::KILL).unwrap();
    let failure = failure_of(&result_of(lines_of(call).await).runs[0]);
    assert_eq!(failure.reason, Reason::Runner);
    let child = bench.read("state/child");
    assert!(!lives(&child), "the orphan {child} lives on");
    assert_eq!(text_of(&runner.run("c2", "quick", json!({})).await), "quick\n");
}

#[tokio::test]
async fn a_runner_that_is_asked_to_end_lets_its_calls_end_first() {
    let bench = Bench::new();
    bench.tool("waits", json!({}), WAITS);
    let mut runner = bench.start();
    let call = runner.post_call("c1", "waits", json!({})).await;
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    let pid = rustix::process::Pid::from_child(&runner.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let refused = loop {
        let response = runner.send(Method::GET, paths::ALIVE, None).await;
        if response.status() != StatusCode::OK {
            break runner.post_call("c2", "waits", json!({})).await;
        }
    };
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.json::<Problem>().await.unwrap().kind, Kind::Draining);
    bench.write("state/go", "");
    assert_eq!(text_of(&result_of(lines_of(call).await).runs[0]), "done\n");
    runner.stop().await;
}

#[tokio::test]
async fn results_that_nobody_acknowledges_do_not_grow_without_end() {
    let bench = Bench::new();
    bench.tool("quick", json!({}), "#!/bin/sh\necho quick\n");
    let runner = bench.start_with(&[("KEPT_RESULTS", "2")]);
    for id in ["c1", "c2"] {
        runner.result(id, "quick", json!({})).await;
    }
    let (status, problem) = runner.refusal("c3", "quick", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::SERVICE_UNAVAILABLE, Kind::Unacknowledged));
    assert_eq!(runner.acknowledge("c1").await, StatusCode::NO_CONTENT);
    runner.result("c3", "quick", json!({})).await;
}
