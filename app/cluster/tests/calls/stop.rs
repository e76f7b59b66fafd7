//! Calls that nobody wants any more, and callers that go away.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use famulus_core::sandbox::{SandboxError, Sandboxes};
use serde_json::json;

use crate::bench::{Bench, only, text_of, until};
use crate::runner::{Door, address};

const WAITS: &str = "#!/bin/sh\necho $$ > STATE/pid\nwhile [ ! -e STATE/go ]; do sleep 0.02; done\n\
                     echo done > STATE/done\necho done\n";

/// Waits until the tool has ended, before it was done.
async fn ends_undone(bench: &Bench) {
    let process = PathBuf::from("/proc").join(bench.plugin.state("pid").trim());
    until("the tool ends", || !process.exists()).await;
    assert_eq!(bench.plugin.state("done"), "");
}

fn sent() -> jiff::Timestamp {
    "2026-06-01T00:00:00Z".parse().unwrap()
}

#[tokio::test]
async fn a_call_that_is_cancelled_ends_and_leaves_nothing_behind() {
    let bench = Bench::new().await;
    bench.plugin.tool("wait", json!({}), WAITS);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let call = bench.call("c1", "wait", json!({}));
    let cancel = call.call.cancel.clone();
    let stop = async {
        until("it runs", || !bench.plugin.state("pid").is_empty()).await;
        cancel.cancel();
    };
    let (answer, ()) = tokio::join!(bench.cluster.run(call.call), stop);
    assert_eq!(answer, Err(SandboxError::Stopped));
    ends_undone(&bench).await;
    // Its result was let go, since nobody else would.
    assert_eq!(bench.cluster.ask("test", "c1", sent(), bench.person).await, Ok(None));
}

#[tokio::test]
async fn a_call_whose_caller_is_gone_goes_on_and_is_found_again() {
    let bench = Bench::new().await;
    bench.plugin.tool("wait", json!({}), WAITS);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let call = bench.call("c1", "wait", json!({}));
    tokio::select! {
        answer = bench.cluster.run(call.call) => panic!("{answer:?}"),
        () = until("it runs", || !bench.plugin.state("pid").is_empty()) => {}
    }
    bench.plugin.write("state/go", "");
    let answer = bench.cluster.ask("test", "c1", sent(), bench.person).await.unwrap();
    assert_eq!(text_of(&only(Ok(answer.unwrap()))), "done\n");
}

#[tokio::test]
async fn a_token_counts_also_when_the_caller_is_gone_in_the_same_instant() {
    let bench = Bench::new().await;
    bench.plugin.tool("wait", json!({}), WAITS);
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    let call = bench.call("c1", "wait", json!({}));
    let cancel = call.call.cancel.clone();
    tokio::select! {
        answer = bench.cluster.run(call.call) => panic!("{answer:?}"),
        () = until("it runs", || !bench.plugin.state("pid").is_empty()) => {}
    }
    cancel.cancel();
    ends_undone(&bench).await;
}

#[tokio::test]
async fn a_result_that_could_not_be_let_go_is_let_go_later() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let (outside, inside) = (address(), address());
    let _runner = bench.plugin.start(inside);
    let door = Door::open(outside, inside).await;
    bench.pod("one", outside, true);
    assert_eq!(bench.text("c1", "echo").await, "{}");
    assert!(bench.plugin.path("kept/c1").exists());
    door.refuse(true);
    let begun = Instant::now();
    bench.cluster.acknowledge("test", "c1").await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert!(bench.plugin.path("kept/c1").exists());
    door.refuse(false);
    until("it is let go", || !bench.plugin.path("kept/c1").exists()).await;
}
