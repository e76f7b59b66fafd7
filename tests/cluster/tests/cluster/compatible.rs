//! Plugins of different make, each through its whole life on a cluster: what one machine does with them in
//! `app/server/tests/newcomer/compatible.rs`.

use async_trait::async_trait;
use famulus_cluster_tests::release::Release;
use famulus_plugin_life::{Home, LifeError, Method, all_live, some_live};
use serde_json::Value;

/// A cluster, asked by the owner of the release.
struct Cluster(Release);

#[async_trait]
impl Home for Cluster {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.name().as_bytes()).unwrap();
        self.0.ask(method, path, body).await
    }

    async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String {
        self.0.run(plugin, tool, parameters).await
    }
}

fn none_failed(failures: &[LifeError]) {
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// One of three: each has a dozen Pods.
#[tokio::test]
async fn plugins_of_different_make_live_on_a_cluster() {
    let cluster = Cluster(Release::open().await);
    none_failed(&some_live(&cluster, 3).await);
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn every_plugin_lives_on_a_cluster() {
        let cluster = Cluster(Release::open().await);
        none_failed(&all_live(&cluster).await);
    }
}
