//! The chart is upgraded while calls are under way, on any cluster.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![expect(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test's tasks end with it, and it tells what it counted"
)]

#[path = "../chaos/ledger.rs"]
mod ledger;
#[path = "../chaos/load.rs"]
#[expect(dead_code, reason = "where something dies, more of it is used")]
mod load;
#[path = "../chaos/order.rs"]
mod order;

use serde_json::Value;

use famulus_cluster_tests::helm::upgrade;
use famulus_cluster_tests::kubectl::{LONG, objects, until};
use famulus_cluster_tests::release::{Release, name};

use load::{Allowed, CLIENTS, Load, release};

/// What a call takes, in seconds: longer than a turn may go on in an app that ends.
const CALL: f64 = 7.0;

#[tokio::test]
async fn the_chart_is_upgraded_with_calls_under_way() {
    let release = release().await;
    let mut load = Load::begin(&release, "upgrade", CALL).await;
    are_under_way(&load, &release).await;
    load.later(15).await;
    // A value that neither the chart nor an upgrade before had, so that Pods are another ones.
    let number = std::process::id();

    let [app, operator, runner] = pods(&release).await;
    let log = format!("info\\,chaos{number}=info");
    let (app_log, operator_log) = (format!("app.log={log}"), format!("operator.log={log}"));
    upgrade(&["--set", &app_log, "--set", &operator_log]).await;
    let [app_now, operator_now, runner_now] = pods(&release).await;
    assert!(app != app_now && operator != operator_now, "they were replaced");
    assert_eq!(runner, runner_now, "it goes on");

    load.later(10).await;
    let memory = format!("plugins.resources.requests.memory={}Mi", 65 + number % 63);
    upgrade(&["--set", &memory]).await;
    until("the runner is replaced", LONG, async || {
        let [_, _, now] = pods(&release).await;
        if now.len() == 1 && now != runner { Ok(()) } else { Err(format!("{now:?}")) }
    })
    .await;
    load.end(&release, Allowed::Done).await;
}

/// Waits until every client has a call that runs.
async fn are_under_way(load: &Load, release: &Release) {
    until("all calls are under way", LONG, async || {
        let marks = ledger::marks(release).await;
        let runs = |(id, counts): &(&String, &(usize, usize))| {
            id.starts_with(&load.name) && **counts == (1, 0)
        };
        let running = marks.iter().filter(runs).count();
        if running >= CLIENTS { Ok(()) } else { Err(format!("{running} run")) }
    })
    .await;
}

/// Who runs: app, operator, and the runner of the ledger.
async fn pods(release: &Release) -> [Vec<String>; 3] {
    let runner = format!("famulus.dev/plugin={},famulus.dev/part=runner", ledger::PLUGIN);
    let ids = async |namespace: &str, selector: &str| {
        let pods = objects(namespace, "pods", selector).await;
        let stays = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
        let id = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap().to_owned();
        pods.iter().filter(stays).map(id).collect::<Vec<_>>()
    };
    [
        ids(&name(), "app.kubernetes.io/component=app").await,
        ids(&name(), "app.kubernetes.io/component=operator").await,
        ids(&release.sandbox, &runner).await,
    ]
}
