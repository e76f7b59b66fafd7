//! Connections, runners and Pods that go away in the middle of a call.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use famulus_core::sandbox::{RunOutput, SandboxError, Sandboxes, Stage};
use famulus_crds::bearer;
use famulus_sandbox::Timeouts;
use serde_json::{Value, json};

use crate::bench::{Bench, KEY, UID, only, pod, text_of, until};
use crate::runner::{Door, address};

/// Notes each run, waits until it is told to go on, and answers.
const COUNTED: &str = "#!/bin/sh\necho run >> STATE/runs\n\
    while [ ! -e STATE/go ]; do sleep 0.02; done\necho done\n";

#[tokio::test]
async fn a_connection_that_is_cut_loses_nothing_and_the_tool_runs_once() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({}), COUNTED);
    let (outside, inside) = (address(), address());
    let _runner = bench.plugin.start(inside);
    let door = Door::open(outside, inside).await;
    bench.pod("one", outside, true);
    let call = bench.run("c1", "count", json!({}));
    let trouble = async {
        for _ in 0..3 {
            until("it runs", || !bench.plugin.state("runs").is_empty()).await;
            tokio::time::sleep(Duration::from_millis(200)).await;
            door.cut();
        }
        bench.plugin.write("state/go", "");
    };
    let (answer, ()) = tokio::join!(call, trouble);
    assert_eq!(text_of(&only(answer)), "done\n");
    assert_eq!(bench.plugin.state("runs"), "run\n");
}

#[tokio::test]
async fn an_answer_that_never_comes_through_is_asked_for_and_the_tool_runs_once() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({}), COUNTED);
    bench.plugin.write("state/go", "");
    let (outside, inside) = (address(), address());
    let _runner = bench.plugin.start(inside);
    let door = Door::open(outside, inside).await;
    bench.pod("one", outside, true);
    // The request goes in, and not one byte comes out.
    door.pass(0);
    let call = bench.run("c1", "count", json!({}));
    let trouble = async {
        until("it ran", || !bench.plugin.state("runs").is_empty()).await;
        tokio::time::sleep(Duration::from_millis(500)).await;
        door.pass(usize::MAX);
    };
    let (answer, ()) = tokio::join!(call, trouble);
    assert_eq!(text_of(&only(answer)), "done\n");
    assert_eq!(bench.plugin.state("runs"), "run\n");
}

#[tokio::test]
async fn a_runner_that_is_lost_in_the_middle_leaves_the_outcome_open() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({}), COUNTED);
    let address = address();
    let mut runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let call = bench.run("c1", "count", json!({}));
    let crash = async {
        until("it runs", || !bench.plugin.state("runs").is_empty()).await;
        runner.kill();
        tokio::time::sleep(Duration::from_millis(400)).await;
        bench.plugin.start(address)
    };
    let (answer, _successor) = tokio::join!(call, crash);
    let run = only(answer);
    assert!(matches!(&run.output, RunOutput::Unknown(_)), "{run:?}");
    assert_eq!(bench.plugin.state("runs"), "run\n");
}

#[tokio::test]
async fn a_runner_that_is_lost_to_its_memory_limit_is_named_so() {
    let how = "took more memory than its limit of 256Mi and was ended while the call ran";
    lost_to(Some(("OOMKilled", 137)), how).await;
}

/// The node may see the end without the cause: a container's end may be told before its cause, and
/// gVisor's processes are gone without a signal that anybody saw.
#[tokio::test]
async fn a_runner_that_was_killed_unseen_names_its_memory_limit() {
    for code in [137, 128] {
        let how = "was killed while the call ran, most likely because it took more memory than its \
                   limit of 256Mi";
        lost_to(Some(("Error", code)), how).await;
    }
}

#[tokio::test]
async fn a_runner_whose_end_is_not_told_names_its_memory_limit() {
    let how = "ended while the call ran, and nobody says why, perhaps because it took \
               more memory than its limit of 256Mi";
    lost_to(None, how).await;
}

/// `end` is what the node tells of it, with the exit code.
async fn lost_to(end: Option<(&str, i32)>, how: &str) {
    let cause = Duration::from_secs(2);
    let bench = Bench::with(Timeouts { cause, ..Timeouts::default() }).await;
    bench.plugin.tool("count", json!({}), COUNTED);
    let address = address();
    let mut runner = bench.plugin.start(address);
    let mut one = pod("runner", address, true);
    one["spec"]["containers"] =
        json!([{"name": "runner", "resources": {"limits": {"memory": "256Mi"}}}]);
    one["status"]["containerStatuses"] = ended("Error", 1, "2026-11-21T10:00:00Z");
    bench.api.put("pods", "one", one);
    let call = bench.run("c1", "count", json!({}));
    let crash = async {
        until("it runs", || !bench.plugin.state("runs").is_empty()).await;
        runner.kill();
        let successor = bench.plugin.start(address);
        // It serves before the cluster tells why it was started.
        tokio::time::sleep(Duration::from_millis(600)).await;
        if let Some((reason, code)) = end {
            bench.api.change("pods", "one", |pod| {
                pod["status"]["containerStatuses"] = ended(reason, code, "2026-11-21T10:05:00Z");
            });
        }
        successor
    };
    let (answer, _successor) = tokio::join!(call, crash);
    let run = only(answer);
    let expected = format!("the sandbox {how}");
    let is_named = matches!(&run.output, RunOutput::Unknown(why)
        if why.starts_with(&expected) && why.contains("its outcome is unknown"));
    assert!(is_named, "{end:?}: {run:?}");
}

#[tokio::test]
async fn a_runner_that_dies_with_its_network_is_noticed_by_its_successor() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({}), COUNTED);
    let (before, after) = (address(), address());
    let runner = bench.plugin.start(before);
    bench.pod("one", before, true);
    let begun = Instant::now();
    let call = bench.run("c1", "count", json!({}));
    let crash = async {
        until("it runs", || !bench.plugin.state("runs").is_empty()).await;
        // As one that is gone with its network: it hangs up on nobody.
        runner.freeze();
        let successor = bench.plugin.start(after);
        bench.api.change("pods", "one", |pod| {
            pod["status"]["podIP"] = json!(after.to_string());
            pod["status"]["containerStatuses"] = ended("Error", 1, "2026-11-21T10:05:00Z");
        });
        successor
    };
    let (answer, _successor) = tokio::join!(call, crash);
    let run = only(answer);
    assert!(matches!(&run.output, RunOutput::Unknown(_)), "{run:?}");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn a_pod_that_is_gone_in_the_middle_is_lost_and_nobody_else_is_asked() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({}), COUNTED);
    let (one, two) = (address(), address());
    let mut runner = bench.plugin.start(one);
    bench.pod("one", one, true);
    let call = bench.run("c1", "count", json!({}));
    let crash = async {
        until("it runs", || !bench.plugin.state("runs").is_empty()).await;
        runner.kill();
        // Its successor has another disk.
        std::fs::remove_dir_all(bench.plugin.path("kept")).unwrap();
        let successor = bench.plugin.start(two);
        bench.pod("two", two, true);
        bench.api.delete("pods", "one");
        successor
    };
    let (answer, _successor) = tokio::join!(call, crash);
    let error = answer.unwrap_err();
    assert!(matches!(&error, SandboxError::Lost { .. }), "{error}");
    assert_eq!(bench.plugin.state("runs"), "run\n");
}

#[tokio::test]
async fn a_runner_that_drains_finishes_and_the_next_call_waits_for_its_successor() {
    let bench = Bench::new().await;
    bench.plugin.tool("count", json!({"concurrent": true}), COUNTED);
    let (one, two) = (address(), address());
    let runner = bench.plugin.start(one);
    bench.pod("one", one, true);
    let first = bench.run("c1", "count", json!({}));
    let rest = async {
        until("it runs", || !bench.plugin.state("runs").is_empty()).await;
        runner.drain();
        // Nobody told the API server yet that the Pod is about to end.
        bench.until_draining(one).await;
        let call = bench.call("c2", "count", json!({}));
        let second = bench.cluster.run(call.call);
        let successor = async {
            until("it is started for", || call.stages.lock().contains(&Stage::Starting)).await;
            bench.plugin.write("state/go", "");
            let other = bench.plugin.start_with(two, "kept-by-successor");
            bench.pod("two", two, true);
            other
        };
        tokio::join!(second, successor)
    };
    let (first, (second, _successor)) = tokio::join!(first, rest);
    assert_eq!(text_of(&only(first)), "done\n");
    assert_eq!(text_of(&only(second)), "done\n");
    assert_eq!(bench.plugin.state("runs"), "run\nrun\n");
}

#[tokio::test]
async fn a_bearer_that_is_ahead_or_behind_is_waited_for() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    bench.plugin.write("bearer", &bearer::runner(KEY, UID, 2));
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let call = bench.run("c1", "echo", json!({}));
    let news = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        bench.api.change("plugins", "test", |plugin| plugin["status"]["rendered"] = json!(2));
    };
    let (answer, ()) = tokio::join!(call, news);
    assert_eq!(text_of(&only(answer)), "{}");
    bench.plugin.write("bearer", &bearer::runner(KEY, UID, 9));
    let error = bench.run("c2", "echo", json!({})).await.unwrap_err();
    assert!(
        matches!(&error, SandboxError::Unreachable { why, .. } if why.contains("bearer")),
        "{error}"
    );
}

#[tokio::test]
async fn a_runner_that_does_not_answer_is_left_alone_for_a_while() {
    let begun = Instant::now();
    let (bench, address) = silent(Duration::from_millis(800)).await;
    let error = bench.run("c4", "echo", json!({})).await.unwrap_err();
    let expected = "the sandbox of `test` could not be reached: its runner does not answer; try \
                    again in a moment";
    assert_eq!(error.to_string(), expected);
    assert!(begun.elapsed() < Duration::from_secs(10));
    // Once it answers, the next call opens the way for all.
    let _runner = bench.plugin.start(address);
    let mut answered = false;
    while !answered {
        answered = bench.run("c5", "echo", json!({})).await.is_ok();
        assert!(begun.elapsed() < Duration::from_secs(40));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(bench.text("c6", "echo").await, "{}");
}

#[tokio::test]
async fn a_call_waits_for_a_runner_that_starts_again() {
    let (bench, address) = silent(Duration::from_millis(300)).await;
    // Nobody is called for half a second now, and the runner is there again before that.
    let call = bench.text("c4", "echo");
    let again = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        bench.plugin.start(address)
    };
    let (answer, _runner) = tokio::join!(call, again);
    assert_eq!(answer, "{}");
}

/// A plugin whose runner did not answer, so often that it is left alone; a call waits so long for it.
async fn silent(reach: Duration) -> (Bench, IpAddr) {
    let bench = Bench::with(Timeouts { reach, ..Timeouts::default() }).await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let address = address();
    bench.pod("one", address, true);
    bench.until_seen().await;
    for id in ["c1", "c2", "c3"] {
        let error = bench.run(id, "echo", json!({})).await.unwrap_err();
        assert!(matches!(&error, SandboxError::Unreachable { .. }), "{error}");
    }
    (bench, address)
}

/// The status of a container that was started again after such an end.
fn ended(reason: &str, code: i32, at: &str) -> Value {
    json!([{"name": "runner", "image": "", "imageID": "", "ready": true, "restartCount": 1,
        "lastState": {"terminated": {"exitCode": code, "reason": reason, "finishedAt": at}}}])
}
