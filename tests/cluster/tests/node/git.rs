//! Plugins from git, with the internet that stands beside a node of `cargo xtask cluster`.

use reqwest::Method;
use serde_json::json;

use famulus_cluster_tests::beside::{Repository, publish};
use famulus_cluster_tests::kubectl::{LONG, condition, kubectl, object, until};
use famulus_cluster_tests::release::Release;

const MANIFEST: &str = r#"{
  "name": "greeter",
  "description": "Greets people.",
  "instructions": "Set api_key.",
  "config": {
    "api_key": {"description": "The key.", "required": true},
    "mood": {"description": "How it greets.", "required": false, "default": "kindly"}
  }
}"#;

const GREET: &str = r#"#!/usr/bin/env -S uv run --script
# /// script
# requires-python = ">=3.11"
# dependencies = ["salutation==1.0"]
#
# [[tool.uv.index]]
# url = "http://pypi.example/simple/"
# default = true
# ///
import json, sys
from pathlib import Path
import salutation

config = json.loads(Path("../config.json").read_text())
given = json.load(sys.stdin)
said = salutation.greet(given["name"])
print(json.dumps({"said": said, "mood": config["mood"], "key": config["api_key"][-4:], "version": 1}))
"#;

fn greeter(repository: &Repository) {
    repository.write("manifest.json", MANIFEST);
    repository.write(
        "greet/manifest.json",
        r#"{"name": "greet", "description": "Greets.", "entrypoint": "run.py",
            "parameters": {"name": {"type": "string", "description": "Whom."}}}"#,
    );
    repository.write("greet/run.py", GREET);
    repository.write(
        "later/manifest.json",
        r#"{"name": "later", "description": "Takes its time.", "entrypoint": "run.sh",
            "async": true, "parameters": {}}"#,
    );
    repository.write("later/run.sh", "#!/bin/sh\nsleep 2\necho '{\"came\": \"late but well\"}'\n");
}

const PLUGIN: &str = "
apiVersion: famulus.dev/v1alpha1
kind: Plugin
metadata: {name: greeter}
spec:
  name: greeter
  source: {git: {url: 'git://git.example/greeter.git', ref: main}}
  configSecretRef: {name: greeter-config}
  permissions: {tools: ['*']}
";

/// Has the ref looked up anew.
async fn refresh(release: &Release, number: u32) {
    let annotation = format!("famulus.dev/refresh={number}");
    kubectl(&["-n", &release.sandbox, "annotate", "--overwrite", "plugin", "greeter", &annotation])
        .await;
}

#[tokio::test]
async fn a_plugin_from_git_is_configured_used_late_broken_mended_and_pinned() {
    publish("salutation", "def greet(name):\n    return f'Good day, {name}'\n");
    let repository = Repository::new("greeter");
    greeter(&repository);
    repository.push("The first");

    let release = Release::open().await;
    release.apply(PLUGIN).await;
    // Without its Secret it is built, and says what is missing.
    let plugin = release.condition("greeter", "Built=True").await;
    let first = plugin["status"]["revision"].as_str().unwrap().to_owned();
    assert_eq!(plugin["status"]["commit"].as_str().unwrap().len(), 40);
    let plugin = release.condition("greeter", "Configured=False").await;
    let configured = condition(&plugin, "Configured").unwrap();
    assert_eq!(configured["reason"], "SecretMissing", "{configured}");

    let key = "a-secret-that-nobody-reads-9876";
    let literal = format!("--from-literal=api_key={key}");
    let create =
        ["-n", &release.sandbox, "create", "secret", "generic", "greeter-config", &literal];
    kubectl(&create).await;
    // A Secret is given to the plugin that its label names, and the condition has the command.
    let command = "famulus.dev/config-for=greeter";
    until("the condition names the command", LONG, async || {
        let found = object(&release.sandbox, "plugin", "greeter").await.unwrap();
        let configured = condition(&found, "Configured").unwrap().to_string();
        if configured.contains(command) { Ok(()) } else { Err(configured) }
    })
    .await;
    let label = ["-n", &release.sandbox, "label", "secret", "greeter-config", command];
    kubectl(&label).await;
    let plugin = release.condition("greeter", "Ready=True").await;
    assert_eq!(plugin["status"]["configKeys"], json!(["api_key"]));

    let reply = release.chat("run greet of greeter with name=Ada").await;
    assert!(reply.contains("Good day, Ada") && reply.contains("9876"), "{reply}");
    assert!(reply.contains("kindly"), "the default: {reply}");
    assert!(!reply.contains(key), "{reply}");

    // An async tool answers at once, and its result comes by itself.
    let reply = release.chat("run later of greeter").await;
    assert!(reply.contains("is running; its call id is"), "{reply}");
    release.hears("late but well").await;

    // A bad commit is refused, and the revision before goes on.
    repository.write("greet/manifest.json", r#"{"name": "greet"}"#);
    repository.push("A bad one");
    refresh(&release, 1).await;
    let plugin = release.condition("greeter", "Built=False").await;
    let built = condition(&plugin, "Built").unwrap();
    assert_eq!(built["reason"], "ManifestInvalid", "{built}");
    assert_eq!(plugin["status"]["revision"], json!(first));
    let reply = release.chat("run greet of greeter with name=Bob").await;
    assert!(reply.contains("Good day, Bob"), "{reply}");

    // A good one takes over in the Pod that runs.
    greeter(&repository);
    repository.write("greet/run.py", &GREET.replace("\"version\": 1", "\"version\": 2"));
    repository.push("A good one");
    refresh(&release, 2).await;
    release.condition("greeter", "Built=True").await;
    let plugin = release.condition("greeter", "Ready=True").await;
    assert_ne!(plugin["status"]["revision"], json!(first));
    until("the new revision serves", LONG, async || {
        let reply = release.chat("run greet of greeter with name=Cleo").await;
        if reply.contains("\"version\": 2") { Ok(()) } else { Err(reply) }
    })
    .await;

    // A pin goes back.
    let pin = json!({"spec": {"revision": first}}).to_string();
    let patch = ["-n", &release.sandbox, "patch", "plugin", "greeter", "--type=merge", "-p", &pin];
    kubectl(&patch).await;
    until("the pinned revision serves", LONG, async || {
        let reply = release.chat("run greet of greeter with name=Dora").await;
        if reply.contains("\"version\": 1") { Ok(()) } else { Err(reply) }
    })
    .await;

    // The key is nowhere but in its place.
    for kind in ["plugins", "pods", "jobs", "deployments", "configmaps", "events"] {
        let said = kubectl(&["-n", &release.sandbox, "get", kind, "-o", "yaml"]).await;
        assert!(!said.contains(key), "{kind}");
    }
    let (_, messages) = release.ask(Method::GET, &release.messages(), None).await;
    assert!(!messages.to_string().contains(key));
    kubectl(&["-n", &release.sandbox, "delete", "secret", "greeter-config"]).await;
    release.delete(&["greeter"]).await;
}
