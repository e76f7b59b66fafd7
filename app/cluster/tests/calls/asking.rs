//! Asking after calls that were perhaps sent.

use std::time::Duration;

use famulus_core::sandbox::{SandboxError, Sandboxes};
use jiff::Timestamp;
use serde_json::json;

use crate::bench::{Bench, only, text_of};
use crate::runner::address;

fn at(time: &str) -> Timestamp {
    time.parse().unwrap()
}

#[tokio::test]
async fn only_a_runner_that_was_there_can_say_that_it_did_not_happen() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let ask = async |id: &str, sent| bench.cluster.ask("test", id, at(sent), bench.person).await;
    let is_lost = |answer| matches!(answer, Err(SandboxError::Lost { .. }));
    assert!(is_lost(ask("c1", "2026-06-01T00:00:00Z").await), "there is no runner");

    // A Pod of the test is made at the beginning of 2026.
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    assert_eq!(bench.text("c0", "echo").await, "{}");
    assert_eq!(ask("c1", "2026-06-01T00:00:00Z").await, Ok(None));
    assert!(is_lost(ask("c1", "2025-12-31T00:00:00Z").await), "it is younger than the call");
    assert!(is_lost(ask("c1", "2026-01-01T00:00:02Z").await), "clocks differ");
    let known = ask("c0", "2025-12-31T00:00:00Z").await.unwrap();
    assert_eq!(text_of(&only(Ok(known.unwrap()))), "{}");
}

#[tokio::test]
async fn of_several_runners_one_that_is_gone_may_have_had_it() {
    let bench = Bench::new().await;
    bench.api.change("plugins", "test", |plugin| {
        plugin["spec"]["state"] = json!("Ephemeral");
        plugin["spec"]["runner"]["max"] = json!(2);
    });
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    assert_eq!(bench.text("c0", "echo").await, "{}");
    let sent = at("2026-06-01T00:00:00Z");
    let unknown = bench.cluster.ask("test", "c1", sent, bench.person).await;
    assert!(matches!(unknown, Err(SandboxError::Lost { .. })), "{unknown:?}");
    let known = bench.cluster.ask("test", "c0", sent, bench.person).await.unwrap();
    assert!(known.is_some());
}

#[tokio::test]
async fn a_runner_that_is_gone_does_not_hide_what_another_has() {
    let bench = Bench::new().await;
    bench.api.change("plugins", "test", |plugin| {
        plugin["spec"]["state"] = json!("Ephemeral");
        plugin["spec"]["runner"]["max"] = json!(3);
    });
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let here = address();
    let _runner = bench.plugin.start(here);
    bench.pod("middle", here, true);
    assert_eq!(bench.text("c0", "echo").await, "{}");
    // Nobody listens there any more; each is asked in its turn.
    for name in ["above", "zenith"] {
        bench.pod(name, address(), true);
    }
    let sent = at("2026-06-01T00:00:00Z");
    let asked = bench.cluster.ask("test", "c0", sent, bench.person);
    let gone = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for name in ["above", "zenith"] {
            bench.api.delete("pods", name);
        }
    };
    let (known, ()) = tokio::join!(asked, gone);
    assert_eq!(text_of(&only(Ok(known.unwrap().unwrap()))), "{}");
}
