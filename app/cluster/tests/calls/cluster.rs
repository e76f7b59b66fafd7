//! An API server that goes away, forgets, and has objects that cannot be read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use famulus_cluster::{Cluster, Config, ConnectError};
use famulus_core::sandbox::{SandboxError, Sandboxes};
use famulus_lifecycle::Tasks;
use famulus_sandbox::{Ports, Timeouts};
use serde_json::json;

use crate::api::ApiServer;
use crate::bench::{Bench, KEY, PATIENCE, plugin, until};
use crate::ports::{Demand, Files};
use crate::runner::address;

#[tokio::test]
async fn an_object_that_cannot_be_read_stops_nobody_else() {
    let bench = Bench::new().await;
    bench.api.put("plugins", "broken", json!({"metadata": {}, "spec": {"name": 7}}));
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
    // In a list, too.
    bench.until_named(&*bench.replica().await, &["test", "zoo"]).await;
    // One that cannot be read any more is not used as it was.
    bench.api.change("plugins", "zoo", |plugin| plugin["spec"]["permissions"] = json!("all"));
    bench.until_named(&bench.cluster, &["test"]).await;
}

#[tokio::test]
async fn the_older_of_two_with_one_name_has_it() {
    let bench = Bench::new().await;
    let mut younger = plugin("test", json!({"suspend": true}));
    younger["metadata"]["creationTimestamp"] = json!("2026-02-01T00:00:00Z");
    bench.api.put("plugins", "other", younger);
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
    assert!(bench.cluster.plugins().await.unwrap()[0].ready);
    bench.api.delete("plugins", "test");
    let begun = Instant::now();
    while bench.cluster.plugins().await.unwrap()[0].ready {
        assert!(begun.elapsed() < PATIENCE);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_watch_that_is_too_old_lists_again() {
    let bench = Bench::new().await;
    let lists =
        || bench.api.requests().iter().filter(|request| request.ends_with("/plugins")).count();
    let before = lists();
    bench.api.compact();
    until("it lists again", || lists() >= before + 2).await;
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
}

#[tokio::test]
async fn calls_go_on_while_the_api_server_is_away() {
    let bench = Bench::new().await;
    bench.plugin.tool("echo", json!({}), "#!/bin/sh\ncat\n");
    let address = address();
    let _runner = bench.plugin.start(address);
    bench.pod("one", address, true);
    assert_eq!(bench.text("c1", "echo").await, "{}");
    bench.api.go_away(true);
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(bench.text("c2", "echo").await, "{}");
    bench.api.go_away(false);
    bench.api.put("plugins", "zoo", plugin("zoo", json!({})));
    bench.until_named(&bench.cluster, &["test", "zoo"]).await;
}

#[tokio::test]
async fn a_cluster_that_never_answered_is_named() {
    let api = ApiServer::start().await;
    api.go_away(true);
    let folder = tempfile::tempdir().unwrap();
    let timeouts = Timeouts { first: Duration::from_millis(300), ..Timeouts::default() };
    let config = Config {
        sandbox_namespace: "sandbox".to_owned(),
        root_key_file: folder.path().join("key"),
        callback_url: "http://127.0.0.1:9".to_owned(),
        timeouts,
    };
    let tasks = Tasks::new();
    let start = |config: &Config| {
        let (blobs, demand) = (Arc::<Files>::default(), Arc::<Demand>::default());
        Cluster::start(api.kube(), config.clone(), Ports { blobs, demand }, &tasks)
    };
    assert!(matches!(start(&config), Err(ConnectError::RootKey { .. })));
    std::fs::write(&config.root_key_file, "short").unwrap();
    assert!(matches!(start(&config), Err(ConnectError::ShortKey { bytes: 5, .. })));
    std::fs::write(&config.root_key_file, KEY).unwrap();
    let error = start(&config).unwrap().plugins().await.unwrap_err();
    assert!(matches!(&error, SandboxError::Away(why) if why.contains("API server")), "{error}");
    tasks.shutdown();
}

#[tokio::test]
async fn the_log_is_that_of_the_runner_that_is_up() {
    let bench = Bench::new().await;
    let error = bench.cluster.logs("test").await.unwrap_err();
    assert!(error.to_string().contains("no runner is up"), "{error}");
    bench.pod("one", address(), true);
    bench.until_seen().await;
    assert_eq!(bench.cluster.logs("test").await.unwrap(), ["one begins", "one serves"]);
}
