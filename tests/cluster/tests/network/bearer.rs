//! A node reaches its Pods, whatever the policies say. A runner answers nobody without its bearer.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use famulus_cluster_tests::kubectl::{LONG, address, object};
use famulus_cluster_tests::release::{Release, inline};
use reqwest::Method;
use serde_json::json;

const PLUGINS: [&str; 2] = ["bearer-one", "bearer-two"];

#[tokio::test]
async fn a_node_that_reaches_a_runner_is_refused_without_the_bearer_of_that_plugin() {
    let release = Release::open().await;
    let mut bearers = Vec::new();
    for plugin in PLUGINS {
        release.apply(&inline(plugin, "try", "#!/bin/sh\necho it ran\n", "")).await;
        release.condition(plugin, "Ready=True").await;
        let said = release.run(plugin, "try", &json!({})).await;
        assert!(said.contains("it ran"), "{said}");
        let mounted = format!("{plugin}-mounted");
        let secret = object(&release.sandbox, "secret", &mounted).await.unwrap();
        let bearer = STANDARD.decode(secret["data"]["bearer"].as_str().unwrap()).unwrap();
        bearers.push(String::from_utf8(bearer).unwrap().trim().to_owned());
    }
    assert_ne!(bearers[0], bearers[1]);
    let [own, other] = [bearers[0].as_str(), bearers[1].as_str()];
    let selector = format!("famulus.dev/part=runner,famulus.dev/plugin={}", PLUGINS[0]);
    let runner = address(&release.sandbox, &selector).await;
    let root = release.token.as_str();
    let call = "/v1/calls/node.1.1.0";
    let wrong = [None, Some("wrong"), Some(&own[1..]), Some(other), Some(root)];
    let doors = [
        (Method::GET, "/v1/health"),
        (Method::POST, "/v1/self-test"),
        (Method::POST, call),
        (Method::GET, call),
        (Method::GET, "/v1/calls/node.1.1.0/progress"),
        (Method::PUT, "/v1/calls/node.1.1.0/uploads/0"),
        (Method::GET, "/v1/calls/node.1.1.0/files/0"),
        (Method::POST, "/v1/calls/node.1.1.0/cancel"),
        (Method::POST, "/v1/calls/node.1.1.0/acknowledge"),
        (Method::GET, "/nowhere"),
    ];
    // For backups alone, which the bearer of the app is not.
    let kept = [
        (Method::GET, "/v1/own-files"),
        (Method::PUT, "/v1/own-files"),
        (Method::GET, "/v1/configuration"),
    ];
    let ask = async |method: &Method, path: &str, bearer: Option<&str>| {
        let address = format!("http://{runner}:8090{path}");
        let request = release.client.request(method.clone(), address).timeout(LONG);
        let request = bearer.into_iter().fold(request, reqwest::RequestBuilder::bearer_auth);
        request.send().await.unwrap().status().as_u16()
    };
    for (method, path) in &doors {
        for (number, bearer) in wrong.iter().enumerate() {
            let status = ask(method, path, *bearer).await;
            assert_eq!(status, 401, "{method} {path}, bearer {number}");
        }
    }
    for (method, path) in &kept {
        for (number, bearer) in wrong.iter().chain([&Some(own)]).enumerate() {
            let status = ask(method, path, *bearer).await;
            assert_eq!(status, 401, "{method} {path}, bearer {number}");
        }
    }
    println!(
        "{} requests from the node were refused",
        (doors.len() + kept.len()) * wrong.len() + kept.len()
    );
    // So that the silence is no accident.
    assert_eq!(ask(&Method::GET, "/v1/health", Some(own)).await, 200);
    assert_eq!(ask(&Method::GET, "/health", None).await, 200);
    release.delete(&PLUGINS).await;
}
