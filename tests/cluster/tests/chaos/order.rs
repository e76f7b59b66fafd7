//! What an installation looks like in which nothing is left over and nothing is missing.

use serde_json::Value;

use famulus_cluster_tests::kubectl::{LONG, is_ready, objects, until};
use famulus_cluster_tests::release::{Release, name};

/// Waits until every Plugin is Ready, every Pod serves or has ended for good, and no Job is there.
pub(crate) async fn is_kept(release: &Release) {
    let release_of_it = name();
    until("the installation is in order", LONG, async || {
        for plugin in objects(&release.sandbox, "plugins", "").await {
            if !is_ready(&plugin) {
                return Err(plugin["status"].to_string());
            }
        }
        for namespace in [&release.sandbox, &release_of_it] {
            let jobs = objects(namespace, "jobs", "").await;
            if let Some(job) = jobs.first() {
                return Err(format!("the Job {}", job["metadata"]["name"]));
            }
            let pods = objects(namespace, "pods", "").await;
            if let Some(pod) = pods.iter().find(|pod| !serves(pod)) {
                return Err(format!("the Pod {}: {}", pod["metadata"]["name"], pod["status"]));
            }
        }
        Ok(())
    })
    .await;
}

fn serves(pod: &Value) -> bool {
    is_ready(pod) && pod["metadata"]["deletionTimestamp"].is_null()
}
