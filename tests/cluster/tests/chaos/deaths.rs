//! One thing dies, and what it did goes on.

use famulus_cluster_tests::host::{enter, kill_container, kill_part, restart};
use famulus_cluster_tests::kubectl::objects;
use famulus_cluster_tests::release::{Release, name};

use crate::ledger::PLUGIN;
use crate::load::{self, Allowed, Load};

/// What a call takes, in seconds: something is always under way.
const CALL: f64 = 0.5;

/// The release; a test before may have switched the node off.
async fn release() -> Release {
    enter();
    load::release().await
}

fn part(part: &str) -> String {
    format!("app.kubernetes.io/component={part}")
}

#[tokio::test]
async fn the_app_is_killed() {
    let release = release().await;
    let mut load = Load::begin(&release, "app", CALL).await;
    load.goes_on().await;
    load.later(5).await;
    kill_container(&name(), &part("app")).await;
    load.goes_on().await;
    load.end(&release, Allowed::Done).await;
}

#[tokio::test]
async fn the_operator_is_killed() {
    let release = release().await;
    let mut load = Load::begin(&release, "operator", CALL).await;
    load.goes_on().await;
    load.later(5).await;
    kill_container(&name(), &part("operator")).await;
    load.goes_on().await;
    load.end(&release, Allowed::Done).await;
}

#[tokio::test]
async fn postgres_is_killed() {
    let release = release().await;
    let mut load = Load::begin(&release, "postgres", CALL).await;
    load.goes_on().await;
    load.later(5).await;
    kill_container(&name(), &part("postgres")).await;
    load.goes_on().await;
    load.end(&release, Allowed::Done).await;
}

#[tokio::test]
async fn a_runner_is_killed() {
    let release = release().await;
    let mut load = Load::begin(&release, "runner", CALL).await;
    load.goes_on().await;
    load.later(5).await;
    let selector = format!("famulus.dev/plugin={PLUGIN},famulus.dev/part=runner");
    kill_container(&release.sandbox, &selector).await;
    load.goes_on().await;
    load.end(&release, Allowed::Unknown).await;
}

/// The same of each part of the node.
pub(crate) mod soak {
    use super::parts_are_killed;

    #[tokio::test]
    async fn the_kubelet_is_killed() {
        parts_are_killed(&["kubelet"]).await;
    }

    #[tokio::test]
    async fn containerd_is_killed() {
        parts_are_killed(&["containerd"]).await;
    }

    #[tokio::test]
    async fn the_api_server_and_its_database_are_killed() {
        parts_are_killed(&["etcd", "kube-apiserver"]).await;
    }
}

/// While they are away calls go on, and no Pod is another one afterwards.
async fn parts_are_killed(parts: &[&str]) {
    let release = release().await;
    let mut load = Load::begin(&release, parts[0], CALL).await;
    load.goes_on().await;
    load.later(5).await;
    let before = containers(&release).await;
    for part in parts {
        kill_part(part);
    }
    load.goes_on().await;
    restart(parts);
    load.goes_on().await;
    load.end(&release, Allowed::Done).await;
    assert_eq!(containers(&release).await, before);
}

#[tokio::test]
async fn the_node_is_switched_off_and_on() {
    let release = release().await;
    let mut load = Load::begin(&release, "node", CALL).await;
    load.goes_on().await;
    load.later(5).await;
    restart(&[]);
    load.goes_on().await;
    load.end(&release, Allowed::Unknown).await;
}

/// The ids of all containers but the operator's, which ends itself when it cannot renew its Lease.
async fn containers(release: &Release) -> Vec<String> {
    let mut containers = Vec::new();
    for namespace in [&release.sandbox, &name()] {
        for pod in objects(namespace, "pods", "").await {
            if pod["metadata"]["labels"]["app.kubernetes.io/component"] == "operator" {
                continue;
            }
            let id = &pod["status"]["containerStatuses"][0]["containerID"];
            containers.push(id.as_str().unwrap().to_owned());
        }
    }
    containers.sort();
    containers
}
