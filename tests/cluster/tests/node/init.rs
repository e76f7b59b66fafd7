//! What init scripts reach: the internet, or what the owner lets the tools reach; and that the owner reads
//! what they say.

use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, plugin};
use famulus_cluster_tests::kubectl::{LONG, condition, kubectl, objects, until};
use famulus_cluster_tests::release::Release;

/// Keeps whether the internet is reached, and whether a name of it is known, where its tools read it.
const INIT: &str = r#"#!/usr/bin/env python3
import json, socket
from pathlib import Path

def reached(act):
    try:
        act()
        return True
    except OSError:
        return False

Path("seen.json").write_text(json.dumps({
    "address": reached(lambda: socket.create_connection(("198.51.100.10", 80), timeout=2).close()),
    "name": reached(lambda: socket.getaddrinfo("canary.example", 80)),
}))
print("it looked around")
"#;

/// What the owner reads of it.
const SAID: &str = "its init script said: it looked around";

fn publish(name: &str) {
    let repository = Repository::new(name);
    let init = json!({"entrypoint": "init.py"});
    let manifest = json!({"name": name, "description": "Looks around.", "init": init});
    repository.write("manifest.json", &manifest.to_string());
    repository.write("init.py", INIT);
    let tool = json!({
        "name": "seen", "description": "What init saw.", "entrypoint": "run.sh", "parameters": {},
    });
    repository.write("seen/manifest.json", &tool.to_string());
    repository.write("seen/run.sh", "#!/bin/sh\ncat ../seen.json\n");
    repository.push("Looks around");
}

/// Both are fetched from git, which is the internet.
#[tokio::test]
async fn an_init_script_reaches_what_the_tools_reach_if_the_owner_wants_it_so() {
    let release = Release::open().await;
    let plugins =
        [("init-open", json!({}), true), ("init-apart", json!({"init": "AsTools"}), false)];
    for (name, egress, _) in &plugins {
        publish(name);
        release.apply(&plugin(name, &json!({"egress": egress}))).await;
    }
    for (name, _, reaches) in &plugins {
        release.condition(name, "Ready=True").await;
        let told: Value = release.told(&format!("run seen of {name}")).await;
        assert_eq!(told, json!({"address": reaches, "name": reaches}), "{name}");
        is_told_to_the_owner(&release, name).await;
    }
    until("what was built is all that there is", LONG, async || {
        let left = objects(&release.sandbox, "jobs", "famulus.dev/plugin=init-apart").await;
        if left.is_empty() { Ok(()) } else { Err(format!("{} Jobs", left.len())) }
    })
    .await;
    release.delete(&["init-open", "init-apart"]).await;
}

/// It stands in the condition, and an event tells of it.
async fn is_told_to_the_owner(release: &Release, name: &str) {
    let plugin = release.condition(name, "Built=True").await;
    let built = condition(&plugin, "Built").unwrap();
    assert!(built["message"].as_str().unwrap().ends_with(SAID), "{name}: {built}");
    let about = format!("involvedObject.name={name},reason=RevisionBuilt");
    until(&format!("an event tells what the init of {name} said"), LONG, async || {
        let events = ["-n", &release.sandbox, "get", "events", "--field-selector", &about];
        let events = kubectl(&[&events[..], &["-o", "json"]].concat()).await;
        if events.contains(SAID) { Ok(()) } else { Err(events) }
    })
    .await;
}
