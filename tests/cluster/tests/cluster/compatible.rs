//! Plugins of different make, each through its whole life on a cluster: what one machine does with them in
//! `app/server/tests/newcomer/compatible.rs`.

use async_trait::async_trait;
use famulus_cluster_tests::internet::{Folder, sources};
use famulus_cluster_tests::release::Release;
use famulus_plugin_life::{
    Home, LifeError, Method, Outside, Served, ToldBy, all_live, is_talked_through, some_live,
};
use serde_json::Value;

/// A cluster, asked by the owner of the release.
struct Cluster {
    release: Release,
    outside: Option<Outside>,
}

impl Cluster {
    async fn open() -> Self {
        let served = |Folder { path, url }| Served { folder: path, url: url.to_owned() };
        let sources = sources("plugins from git, and plugins with packages");
        let outside = sources.map(|sources| Outside {
            packages: served(sources.packages),
            // The release has the public indexes.
            told_by: ToldBy::Plugin,
            git: served(sources.git),
        });
        Self { release: Release::open().await, outside }
    }
}

#[async_trait]
impl Home for Cluster {
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (u16, Value) {
        let method = reqwest::Method::from_bytes(method.name().as_bytes()).unwrap();
        self.release.ask(method, path, body).await
    }

    async fn run(&self, plugin: &str, tool: &str, parameters: &Value) -> String {
        self.release.run(plugin, tool, parameters).await
    }

    fn outside(&self) -> Option<&Outside> {
        self.outside.as_ref()
    }
}

fn none_failed(failures: &[LifeError]) {
    let failures: Vec<String> = failures.iter().map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// One of three: each has a dozen Pods.
#[tokio::test]
async fn plugins_of_different_make_live_on_a_cluster() {
    let cluster = Cluster::open().await;
    none_failed(&some_live(&cluster, 3).await);
}

/// The conversation of the README, in which nothing is typed into a terminal.
#[tokio::test]
async fn a_plugin_is_brought_used_and_removed_in_a_conversation() {
    let cluster = Cluster::open().await;
    if cluster.outside().is_some() {
        let talked = is_talked_through(&cluster).await;
        assert!(talked.is_ok(), "{}", talked.unwrap_err());
    }
}

mod soak {
    use super::*;

    #[tokio::test]
    async fn every_plugin_lives_on_a_cluster() {
        let cluster = Cluster::open().await;
        none_failed(&all_live(&cluster).await);
    }
}
