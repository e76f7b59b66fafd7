//! The life of a plugin through the assistant: nobody touches a Plugin by hand.

use famulus_cluster_tests::kubectl::{self, LONG, condition, object, objects, until};
use famulus_cluster_tests::managed::files;
use famulus_cluster_tests::release::{Release, inline};
use reqwest::Method;
use serde_json::{Value, json};

const NAME: &str = "kept-by-the-app";

/// A value that stands in no object but a Secret.
const CANARY: &str = "a-canary-of-a-configuration";

/// Asks of the plugin, and is not refused.
async fn ask(release: &Release, method: Method, path: &str, body: Option<Value>) -> Value {
    let (status, said) = release.ask(method, &format!("/v1/plugins{path}"), body.as_ref()).await;
    assert!((200..300).contains(&status), "{path}: {status} {said}");
    said
}

async fn permit(release: &Release, offer: &Value) {
    let granted = json!({"revision": offer["revision"], "tools": ["*"], "egress": "none"});
    ask(release, Method::POST, &format!("/{NAME}/permit"), Some(granted)).await;
    serves(release, offer["revision"].as_str().unwrap()).await;
}

async fn serves(release: &Release, revision: &str) {
    until(&format!("{revision} serves"), LONG, async || {
        let (_, said) = release.ask(Method::GET, &format!("/v1/plugins/{NAME}"), None).await;
        let is_there = said["revision"] == revision && said["ready"] == true;
        if is_there { Ok(()) } else { Err(said.to_string()) }
    })
    .await;
}

async fn said(release: &Release) -> String {
    release.run(NAME, "say", &json!({})).await
}

#[tokio::test]
async fn a_plugin_lives_its_life_through_the_assistant() {
    let release = Release::open().await;
    let source = json!({"source": {"inline": {"files": files(NAME, "one")}}});
    let first = ask(&release, Method::POST, "", Some(source.clone())).await;
    assert_eq!(first["description"]["tools"][0]["name"], "say", "{first}");

    // What is offered has not run: there is no runner, and no build but that of its bundle.
    let plugin = object(&release.sandbox, "plugin", NAME).await.unwrap();
    assert_eq!(plugin["status"]["revision"], Value::Null, "{plugin}");
    assert_eq!(condition(&plugin, "Ready").unwrap()["reason"], "Offered", "{plugin}");
    let selector = format!("famulus.dev/plugin={NAME},famulus.dev/part=runner");
    assert_eq!(objects(&release.sandbox, "pods", &selector).await.len(), 0);
    let again = ask(&release, Method::POST, "", Some(source)).await;
    assert_eq!(again["revision"], first["revision"], "the same is offered again");
    let other = json!({"revision": format!("sha256:{}", "0".repeat(64)), "tools": ["*"]});
    let path = format!("/v1/plugins/{NAME}/permit");
    let (status, refused) = release.ask(Method::POST, &path, Some(&other)).await;
    assert!(
        status >= 400 && refused.to_string().contains("not the one that is offered"),
        "{refused}"
    );

    permit(&release, &first).await;
    let before = said(&release).await;
    assert!(before.contains("one; built for one; {}"), "{before}");
    // A look at its source is no end of a build, of which the owner would be told.
    let told = served(&release).await;
    assert!(told.0.is_string() && told.1.len() == 1, "{told:?}");
    let newest = Some(json!({"files": files(NAME, "one")}));
    ask(&release, Method::POST, &format!("/{NAME}/update"), newest).await;
    assert_eq!(served(&release).await, told);

    // A value reaches the plugin, and stands nowhere else.
    let path = format!("/{NAME}/config/token");
    ask(&release, Method::PUT, &path, Some(json!({"value": CANARY}))).await;
    until("the value has arrived", LONG, async || {
        let said = said(&release).await;
        if said.contains(CANARY) { Ok(()) } else { Err(said) }
    })
    .await;
    let brought = format!("{NAME}-values");
    until("what brought it is gone", LONG, async || {
        let left = object(&release.sandbox, "secret", &brought).await;
        left.map_or(Ok(()), |_| Err("it is there".to_owned()))
    })
    .await;
    let plugin = object(&release.sandbox, "plugin", NAME).await.unwrap();
    assert!(!plugin.to_string().contains(CANARY), "a Plugin shows it");

    // What serves goes on until the new one was permitted and built.
    let update = Some(json!({"files": files(NAME, "two")}));
    let second = ask(&release, Method::POST, &format!("/{NAME}/update"), update).await;
    assert_ne!(second["revision"], first["revision"]);
    assert!(said(&release).await.contains("one; built for one"));
    permit(&release, &second).await;
    let after = said(&release).await;
    assert!(after.contains("two; built for two") && after.contains(CANARY), "{after}");

    let back = ask(&release, Method::POST, &format!("/{NAME}/rollback"), Some(json!({}))).await;
    assert_eq!(back["offered"], Value::Null, "{back}");
    serves(&release, first["revision"].as_str().unwrap()).await;
    assert!(said(&release).await.contains("one; "));

    ask(&release, Method::DELETE, &path, None).await;
    until("the value is gone", LONG, async || {
        let said = said(&release).await;
        if said.contains(CANARY) { Err("it is there".to_owned()) } else { Ok(()) }
    })
    .await;

    let history = ask(&release, Method::GET, &format!("/{NAME}/history"), None).await;
    let done: Vec<&str> = history["entries"].as_array().unwrap().iter().map(what).collect();
    let expected =
        ["fetched", "permitted", "fetched", "configured", "fetched", "permitted", "rolled back"];
    assert_eq!(done[..7], expected, "{history}");
    assert!(history["entries"][0]["who"].is_string(), "{history}");

    ask(&release, Method::DELETE, &format!("/{NAME}"), None).await;
    until("nothing of it is left", LONG, async || {
        let of_it = format!("famulus.dev/plugin={NAME}");
        let mut left = Vec::from_iter(object(&release.sandbox, "plugin", NAME).await);
        for kind in ["pods", "jobs", "deployments", "secrets", "serviceaccounts", "pvc"] {
            left.extend(objects(&release.sandbox, kind, &of_it).await);
        }
        if left.is_empty() { Ok(()) } else { Err(format!("{} objects", left.len())) }
    })
    .await;
}

/// Since when it serves, and what its history says of it.
async fn served(release: &Release) -> (Value, Vec<Value>) {
    let plugin = object(&release.sandbox, "plugin", NAME).await.unwrap();
    let history = ask(release, Method::GET, &format!("/{NAME}/history"), None).await;
    let ends =
        history["entries"].as_array().unwrap().iter().filter(|entry| what(entry) == "serves");
    (plugin["status"]["servesSince"].clone(), ends.cloned().collect())
}

fn what(entry: &Value) -> &str {
    entry["what"].as_str().unwrap()
}

#[tokio::test]
async fn a_plugin_of_somebody_elses_is_left_alone() {
    let release = Release::open().await;
    release.apply(&inline("theirs", "try", "#!/bin/sh\necho '{}'\n", "")).await;
    release.condition("theirs", "Ready=True").await;
    let before = object(&release.sandbox, "plugin", "theirs").await.unwrap();
    let revision = before["status"]["revision"].clone();
    let asked = [
        (Method::POST, "/update", Some(json!({"files": files(NAME, "x")}))),
        (Method::POST, "/permit", Some(json!({"revision": revision, "tools": ["*"]}))),
        (Method::PUT, "/config/token", Some(json!({"value": "x"}))),
        (Method::POST, "/rollback", Some(json!({}))),
        (Method::DELETE, "", None),
    ];
    for (method, path, body) in asked {
        let path = format!("/v1/plugins/theirs{path}");
        let (status, said) = release.ask(method, &path, body.as_ref()).await;
        let is_refused = status >= 400 && said.to_string().contains("managed by");
        assert!(is_refused, "{path}: {status} {said}");
    }
    let after = object(&release.sandbox, "plugin", "theirs").await.unwrap();
    assert_eq!(after["spec"], before["spec"]);

    // What somebody changed by hand is theirs from then on.
    let mut source =
        json!({"source": {"inline": {"files": files(NAME, "one")}}, "name": "taken-over"});
    for file in source["source"]["inline"]["files"].as_array_mut().unwrap() {
        let content = file["content"].as_str().unwrap().replace(NAME, "taken-over");
        file["content"] = content.into();
    }
    ask(&release, Method::POST, "", Some(source)).await;
    let patch = r#"{"spec":{"suspend":true}}"#;
    kubectl::kubectl(&[
        "-n",
        &release.sandbox,
        "patch",
        "plugin",
        "taken-over",
        "--type=merge",
        "-p",
        patch,
    ])
    .await;
    let (status, said) = release.ask(Method::DELETE, "/v1/plugins/taken-over", None).await;
    assert!(status >= 400 && said.to_string().contains("managed by kubectl"), "{status} {said}");
    release.delete(&["theirs", "taken-over"]).await;
}
