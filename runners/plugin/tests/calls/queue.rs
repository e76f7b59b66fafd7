//! One at a time, in order, with a position; beside each other where the manifest says so; cancel.

use std::time::Duration;

use famulus_protocol::{CallState, Kind, Progress, Reason};
use reqwest::StatusCode;
use serde_json::json;

use crate::support::{Bench, failure_of, json_of, lines_of, lives, result_of, text_of, until};

const LOGGED: &str = "#!/bin/sh\necho begin >> STATE/log\nwhile [ ! -e STATE/go ]; do sleep 0.02; done\n\
                      echo end >> STATE/log\n";

#[tokio::test]
async fn calls_of_a_plugin_run_one_at_a_time_and_know_their_position() {
    let bench = Bench::new();
    bench.tool("one", json!({}), LOGGED);
    bench.tool("two", json!({}), LOGGED);
    let runner = bench.start();
    let first = runner.post_call("c1", "one", json!({})).await;
    until("the first runs", || bench.read("state/log") == "begin\n").await;
    let second = runner.post_call("c2", "two", json!({})).await;
    let third = runner.post_call("c3", "one", json!({})).await;
    assert_eq!(runner.state("c1").await, CallState::Running);
    assert_eq!(runner.state("c2").await, CallState::Queued { position: 1 });
    assert_eq!(runner.state("c3").await, CallState::Queued { position: 2 });
    // Time in which a second one could begin.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.read("state/log"), "begin\n");
    bench.write("state/go", "");
    let (first, second, third) = tokio::join!(lines_of(first), lines_of(second), lines_of(third));
    assert_eq!(bench.read("state/log"), "begin\nend\n".repeat(3));
    assert_eq!(second[0], Progress::Queued { position: 1 });
    assert_eq!(third[0], Progress::Queued { position: 2 });
    assert!(third.contains(&Progress::Started { run: 0, runs: 1 }), "{third:?}");
    for lines in [first, second, third] {
        text_of(&result_of(lines).runs[0]);
    }
}

#[tokio::test]
async fn too_many_calls_are_told_to_come_again() {
    let bench = Bench::new();
    bench.tool("one", json!({}), LOGGED);
    let runner = bench.start_with(&[("WAITING", "1")]);
    let first = runner.post_call("c1", "one", json!({})).await;
    let second = runner.post_call("c2", "one", json!({})).await;
    let (status, problem) = runner.refusal("c3", "one", json!({})).await;
    assert_eq!((status, problem.kind), (StatusCode::SERVICE_UNAVAILABLE, Kind::Busy));
    bench.write("state/go", "");
    tokio::join!(lines_of(first), lines_of(second));
    text_of(&runner.run("c3", "one", json!({})).await);
}

/// Each waits until the other is there too.
const MEETS: &str = r"#!/usr/bin/env python3
import json, os, sys, time
me = json.load(sys.stdin)['me']
open(f'STATE/{me}', 'w').close()
open(os.path.join(os.environ['TMPDIR'], 'out.txt'), 'w').write(me)
end = time.time() + 25
while len([n for n in os.listdir('STATE') if n in ('a', 'b')]) < 2:
    if time.time() > end:
        sys.exit('alone')
    time.sleep(0.02)
print(json.dumps({'temporary': os.environ['TMPDIR'], 'there': os.listdir(os.environ['TMPDIR'])}))
";

#[tokio::test]
async fn calls_of_a_concurrent_tool_run_beside_each_other_in_folders_of_their_own() {
    let bench = Bench::new();
    let me = json!({"me": {"type": "string", "description": "Who."}});
    bench.tool("meets", json!({"concurrent": true, "parameters": me}), MEETS);
    let runner = bench.start();
    let (a, b) = tokio::join!(
        runner.run("c1", "meets", json!({"me": "a"})),
        runner.run("c2", "meets", json!({"me": "b"})),
    );
    assert_ne!(json_of(&a)["temporary"], json_of(&b)["temporary"]);
    for (run, id, text) in [(&a, "c1", "a"), (&b, "c2", "b")] {
        assert_eq!(json_of(run)["there"], json!(["out.txt"]));
        assert_eq!(run.files.len(), 1);
        assert_eq!(runner.file(id, 0).await.1, text.as_bytes());
    }
    assert!(!bench.path("tmp/test").exists());
}

#[tokio::test]
async fn a_call_that_runs_is_cancelled_and_its_successor_runs() {
    let bench = Bench::new();
    let sleeps = "#!/bin/sh\nsleep 60 &\necho $! > STATE/child\necho $$ > STATE/pid\nwait\n";
    bench.tool("sleeps", json!({}), sleeps);
    bench.tool("quick", json!({}), "#!/bin/sh\necho quick\n");
    let runner = bench.start();
    let slow = runner.post_call("c1", "sleeps", json!({})).await;
    until("it runs", || !bench.read("state/pid").is_empty()).await;
    let waiting = runner.post_call("c2", "quick", json!({})).await;
    assert_eq!(runner.cancel("c1").await, StatusCode::ACCEPTED);
    let run = result_of(lines_of(slow).await).runs.remove(0);
    assert_eq!(failure_of(&run).reason, Reason::Cancelled);
    assert!(run.millis < 20_000, "{run:?}");
    assert!(!lives(&bench.read("state/pid")) && !lives(&bench.read("state/child")));
    assert_eq!(text_of(&result_of(lines_of(waiting).await).runs[0]), "quick\n");
}

#[tokio::test]
async fn a_call_that_waits_is_cancelled_and_never_begins() {
    let bench = Bench::new();
    bench.tool("one", json!({}), LOGGED);
    bench.tool("never", json!({}), "#!/bin/sh\ntouch STATE/never\n");
    let runner = bench.start();
    let first = runner.post_call("c1", "one", json!({})).await;
    let second = runner.post_call("c2", "never", json!({})).await;
    assert_eq!(runner.cancel("c2").await, StatusCode::ACCEPTED);
    let failure = failure_of(&result_of(lines_of(second).await).runs[0]);
    assert_eq!(failure.reason, Reason::Cancelled);
    assert_eq!(failure.message, "the call was cancelled before it began");
    bench.write("state/go", "");
    lines_of(first).await;
    assert!(!bench.path("state/never").exists());
    assert_eq!(runner.cancel("unknown").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_rest_of_an_array_is_not_begun_after_a_cancel() {
    let bench = Bench::new();
    bench.tool("one", json!({}), LOGGED);
    let runner = bench.start();
    let call = runner.post_call("c1", "one", json!([{}, {}])).await;
    until("the first item runs", || bench.read("state/log") == "begin\n").await;
    runner.cancel("c1").await;
    let result = result_of(lines_of(call).await);
    assert_eq!(failure_of(&result.runs[0]).reason, Reason::Cancelled);
    assert_eq!(failure_of(&result.runs[1]).message, "the call was cancelled before this run");
    assert_eq!(bench.read("state/log"), "begin\n");
}
