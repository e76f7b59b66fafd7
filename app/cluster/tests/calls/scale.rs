//! From zero, and back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use famulus_core::sandbox::{SandboxError, Sandboxes, Stage};
use famulus_sandbox::Timeouts;
use serde_json::json;

use crate::bench::{Bench, only, plugin, pod, text_of, until};
use crate::runner::address;

#[tokio::test]
async fn calls_from_zero_are_served_by_one_runner_that_one_process_asked_for() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({"concurrent": true}), "#!/bin/sh\ncat\n");
    let replica = bench.replica().await;
    let address = address();
    let calls: Vec<_> = (0..6).map(|n| bench.call(&format!("c{n}"), "echo", json!({}))).collect();
    let stages = Arc::clone(&calls[0].stages);
    let answers = futures::future::join_all(calls.into_iter().enumerate().map(|(n, call)| {
        let cluster = if n % 2 == 0 { &bench.cluster } else { &replica };
        cluster.run(call.call)
    }));
    let operator = async {
        until("it was asked for", || !bench.api.writes().is_empty()).await;
        // The Pod has an address before it serves, and serves before it is called ready.
        bench.pod("one", address, false);
        tokio::time::sleep(Duration::from_millis(200)).await;
        bench.plugin.start(address)
    };
    let (answers, _runner) = tokio::join!(answers, operator);
    for answer in answers {
        assert_eq!(text_of(&only(answer)), "{}");
    }
    assert_eq!(bench.api.writes(), [json!({"spec": {"replicas": 1}})]);
    let stages = stages.lock().clone();
    assert_eq!(stages, [Stage::Starting, Stage::Started { run: 0, runs: 1 }]);
}

#[tokio::test]
async fn a_call_that_comes_while_the_runner_is_let_end_starts_the_next_at_once() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let wants = |replicas: i32| {
        bench.api.change("plugins", "test", |plugin| {
            plugin["spec"]["runner"]["replicas"] = json!(replicas);
        });
    };
    wants(1);
    // Whoever sees the second change has seen the first.
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
    let address = address();
    let call = bench.call("c1", "echo", json!({}));
    let stages = Arc::clone(&call.stages);
    let operator = async {
        until("it waits", || !stages.lock().is_empty()).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert_eq!(bench.api.writes(), Vec::<serde_json::Value>::new());
        wants(0);
        until("it was asked for", || !bench.api.writes().is_empty()).await;
        let runner = bench.plugin.start(address);
        bench.pod("one", address, true);
        runner
    };
    let begun = Instant::now();
    let (answer, _runner) = tokio::join!(bench.cluster.run(call.call), operator);
    assert_eq!(text_of(&only(answer)), "{}");
    assert!(begun.elapsed() < Duration::from_secs(4), "nobody waits for a second look");
}

#[tokio::test]
async fn a_plugin_with_an_open_network_is_refused_at_once_and_looked_at_again() {
    let bench = Bench::new().await;
    bench.api.change("plugins", "test", |plugin| {
        let ready = &mut plugin["status"]["conditions"][0];
        ready["status"] = json!("False");
        ready["reason"] = json!("NetworkOpen");
        ready["message"] = json!("the API server was reached");
    });
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
    for id in ["c1", "c2"] {
        let error = bench.run(id, "echo", json!({})).await.unwrap_err();
        let expected = "the plugin `test` is not ready (NetworkOpen): the API server was reached";
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(bench.api.writes(), [json!({"spec": {"replicas": 1}})]);
}

#[tokio::test]
async fn a_runner_that_reaches_more_than_the_plugin_may_takes_no_calls() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    let of_class = |class: &str| {
        let mut pod = pod("runner", address, true);
        pod["metadata"]["labels"]["famulus.dev/egress"] = class.into();
        pod
    };
    bench.api.put("pods", "wide", of_class("internet"));
    bench.until_seen().await;
    let call = bench.run("c1", "echo", json!({}));
    tokio::pin!(call);
    let waited = tokio::time::timeout(Duration::from_millis(300), &mut call).await;
    assert!(waited.is_err(), "{waited:?}");
    bench.api.put("pods", "narrow", of_class("none"));
    assert_eq!(text_of(&only(call.await)), "{}");
}

#[tokio::test]
async fn a_runner_that_does_not_start_is_an_error_that_says_why() {
    let timeouts = Timeouts { start: Duration::from_secs(5), ..Timeouts::default() };
    let bench = Bench::with(timeouts).await;
    let call = bench.run("c1", "echo", json!({}));
    let operator = async {
        until("it was asked for", || !bench.api.writes().is_empty()).await;
        bench.api.change("plugins", "test", |plugin| {
            let ready = &mut plugin["status"]["conditions"][0];
            ready["status"] = json!("False");
            ready["reason"] = json!("Unschedulable");
            ready["message"] = json!("no node has 64Gi of memory; ask for less");
        });
    };
    let (answer, ()) = tokio::join!(call, operator);
    assert_eq!(
        answer.unwrap_err().to_string(),
        "the plugin `test` is not ready (Unschedulable): its runner did not start within 5 s: no \
         node has 64Gi of memory; ask for less"
    );
}

#[tokio::test]
async fn a_scale_that_is_refused_is_named() {
    let timeouts = Timeouts { start: Duration::from_secs(1), ..Timeouts::default() };
    let bench = Bench::with(timeouts).await;
    bench.api.refuse_writes(Some(StatusCode::FORBIDDEN));
    let error = bench.run("c1", "echo", json!({})).await.unwrap_err().to_string();
    assert!(error.contains("the scale of the Plugin could not be written"), "{error}");
    assert!(error.contains("it is refused"), "{error}");
}

#[tokio::test]
async fn a_plugin_that_stops_being_ready_ends_the_wait() {
    let bench = Bench::new().await;
    let call = bench.run("c1", "echo", json!({}));
    let owner = async {
        until("it was asked for", || !bench.api.writes().is_empty()).await;
        bench.api.change("plugins", "test", |plugin| plugin["spec"]["suspend"] = json!(true));
    };
    let (answer, ()) = tokio::join!(call, owner);
    let error = answer.unwrap_err();
    assert!(
        matches!(&error, SandboxError::NotReady { reason, .. } if reason == "Suspended"),
        "{error}"
    );
}

#[tokio::test]
async fn nobody_ends_a_runner_that_is_used_and_one_process_ends_one_that_is_not() {
    let bench = Bench::new().await;
    bench.plugin.tool("wait", json!({}), "#!/bin/sh\nsleep 4\necho done\n");
    let replica = bench.replica().await;
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    bench.api.change("plugins", "test", |plugin| {
        plugin["spec"]["runner"] = json!({"replicas": 1, "max": 1, "idleSeconds": 1});
    });
    bench.until_seen().await;
    assert_eq!(bench.text("c1", "wait").await, "done\n");
    assert_eq!(bench.api.writes(), Vec::<serde_json::Value>::new());
    until("it is ended", || !bench.api.writes().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    let writes = bench.api.writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert_eq!(writes[0]["spec"], json!({"replicas": 0}));
    assert!(writes[0]["metadata"]["resourceVersion"].is_string(), "{writes:?}");
    drop(replica);
}

#[tokio::test]
async fn a_runner_stays_whose_plugin_changed_meanwhile() {
    let bench = Bench::new().await;
    bench.api.refuse_writes(Some(StatusCode::CONFLICT));
    bench.api.change("plugins", "test", |plugin| {
        plugin["spec"]["runner"] = json!({"replicas": 1, "max": 1, "idleSeconds": 1});
    });
    until("it is tried", || !bench.api.writes().is_empty()).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    // Whoever was let stop is not let again at once.
    assert_eq!(bench.api.writes().len(), 1);
}
