//! Runners that are asked for what a plugin keeps, and do not give it.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use famulus_cluster::keeper::{Keeper, KeeperError, Patience};
use famulus_lifecycle::{OnExit, Tasks};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::{sleep, timeout};

use crate::api::ApiServer;
use crate::bench::{PATIENCE, plugin, pod};
use crate::runner::address;

const KEY: &[u8; 32] = b"a key for what plugins keep only";
const SHORT: Patience =
    Patience { runner: Duration::from_millis(1500), answer: Duration::from_millis(500) };

/// An installation with the plugin `test`, and who asks for what it keeps.
async fn installation(replicas: u32) -> (ApiServer, Keeper) {
    let api = ApiServer::start().await;
    let runner = json!({"replicas": replicas, "max": 1, "idleSeconds": 300});
    api.put("plugins", "test", plugin("test", json!({"runner": runner})));
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, KEY).unwrap();
    let keeper = Keeper::with(api.kube(), "sandbox", &key, SHORT).unwrap();
    (api, keeper)
}

/// A runner that takes every question, says this, and then a space each 100 ms for ever.
async fn listener(address: IpAddr, says: &'static str, drips: bool) {
    let listener = TcpListener::bind((address, 8090)).await.unwrap();
    let tasks = Tasks::new();
    let accepting = tasks.clone();
    tasks.spawn("runner", OnExit::Log, async move {
        loop {
            let (mut stream, _peer) = listener.accept().await.unwrap();
            accepting.spawn("connection", OnExit::Log, async move {
                let mut request = [0; 4096];
                let _read = stream.read(&mut request).await;
                let _told = stream.write_all(says.as_bytes()).await;
                while drips && stream.write_all(b"1\r\n \r\n").await.is_ok() {
                    sleep(Duration::from_millis(100)).await;
                }
                sleep(PATIENCE).await;
            });
        }
    });
}

/// Waits for a refusal, and for it in time: a little over what is waited for.
async fn refused(what: impl Future<Output = Result<Vec<u8>, KeeperError>>) -> KeeperError {
    let begun = Instant::now();
    let answer = timeout(PATIENCE, what).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5), "it took {:?}", begun.elapsed());
    answer.unwrap_err()
}

#[tokio::test]
async fn a_runner_that_is_silent_is_given_up_in_time() {
    let (api, keeper) = installation(1).await;
    let address = address();
    listener(address, "", false).await;
    api.put("pods", "one", pod("runner", address, true));
    let files = async { keeper.files("test").await.map(|_pieces| Vec::new()) };
    for error in [refused(files).await, refused(keeper.configuration("test")).await] {
        assert!(matches!(error, KeeperError::Silent { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("Plugin test") && said.contains("did not answer"), "{said}");
    }
}

#[tokio::test]
async fn a_configuration_that_drips_is_given_up_in_time() {
    let (api, keeper) = installation(1).await;
    let address = address();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\n\r\n";
    listener(address, head, true).await;
    api.put("pods", "one", pod("runner", address, true));
    let error = refused(keeper.configuration("test")).await;
    assert!(matches!(error, KeeperError::Configuration { .. }), "{error}");
}

#[tokio::test]
async fn a_runner_that_never_comes_is_asked_for_once_and_said_to_be_missing() {
    let (api, keeper) = installation(0).await;
    // That of another plugin is not asked.
    let mut other = pod("runner", address(), true);
    other["metadata"]["labels"]["famulus.dev/plugin"] = json!("other");
    api.put("pods", "other", other);
    let error = refused(keeper.configuration("test")).await;
    assert!(matches!(error, KeeperError::Silent { .. }), "{error}");
    assert_eq!(api.writes(), [json!({"spec": {"replicas": 1}})]);
    let gone = refused(keeper.configuration("nobody")).await;
    assert!(matches!(gone, KeeperError::Gone { .. }), "{gone}");
}
