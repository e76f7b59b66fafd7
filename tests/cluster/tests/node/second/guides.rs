//! Plugins as the guides show them: each file and each call of docs/PLUGINS.md, and the parts of a
//! plugin that was written for another assistant.

use serde_json::{Value, json};

use famulus_cluster_tests::beside::{Repository, plugin, plugin_of, publish};
use famulus_cluster_tests::release::Release;

use famulus_plugin_life::written::{Written, guide};

/// Puts all of them into repositories, and asks for them.
pub(super) async fn ask_for(release: &Release) {
    for (name, Written { files, config, .. }) in guide() {
        let its = format!("guide-{name}");
        let repository = Repository::new(&its);
        for (path, content) in files {
            repository.write(&path, &content);
        }
        repository.push("As the guide has it");
        let Some(config) = config else {
            release.apply(&plugin_of(&its, &name, &json!({}))).await;
            continue;
        };
        let values = format!("{name}-values");
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": config,
            "metadata": {"name": values, "labels": {"famulus.dev/config-for": name}},
        });
        release.apply(&secret.to_string()).await;
        let more = json!({"configSecretRef": {"name": values}});
        release.apply(&plugin_of(&its, &name, &more)).await;
    }
    foreign();
    release.apply(&plugin("my-plugin", &json!({}))).await;
}

pub(super) async fn answer(release: &Release) -> Vec<String> {
    let mut calls = 0;
    let mut names = Vec::new();
    for (name, written) in guide() {
        release.condition(&name, "Ready=True").await;
        for example in written.examples {
            let told = output(release, &name, &example.tool, &example.parameters).await;
            assert_eq!(told.trim(), example.answer.trim(), "{name} {example:?}");
            calls += 1;
        }
        names.push(name);
    }
    assert!(calls >= 7, "the guide has {calls} calls");
    let document = release.store(b"b a b").await;
    let given = json!({"document": {"filename": "a.txt", "upload": 0}});
    let result = release.run_with("wordcount", "count", &given, &[&document]).await;
    assert_eq!(result["runs"][0]["output"]["text"], json!(r#"{"words": 3}"#));
    let words = result["runs"][0]["files"][0][1]["id"].as_str().unwrap();
    assert_eq!(release.stored(words).await, b"a\nb");

    release.condition("my-plugin", "Ready=True").await;
    let told = output(release, "my-plugin", "echo_query", &json!({"query": "why?"})).await;
    assert_eq!(told, r#"{"result": "You asked: why?"}"#);
    names.push("my-plugin".to_owned());
    names
}

/// What one run of a tool writes.
pub(super) async fn output(release: &Release, plugin: &str, tool: &str, given: &Value) -> String {
    let result = release.run_with(plugin, tool, given, &[]).await;
    let output = &result["runs"][0]["output"]["text"];
    output.as_str().unwrap_or_else(|| panic!("{plugin} {tool}: {result}")).to_owned()
}

/// Its scripts have packages that an index has, and none.
fn foreign() {
    publish("echoing", "def echo(text):\n    return f'You asked: {text}'\n");
    let repository = Repository::new("my-plugin");
    repository.write(
        "manifest.json",
        r#"{
  "name": "my-plugin",
  "description": "A short description of what this plugin provides.",
  "instructions": "Optional setup notes or usage guidance for the user.",
  "init": {"entrypoint": "init.py", "async": false}
}"#,
    );
    repository.write(
        "init.py",
        r#"#!/usr/bin/env -S uv run
# /// script
# dependencies = []
# ///

from pathlib import Path


def main() -> None:
    """Create a cache directory for the plugin."""
    Path("cache").mkdir(exist_ok=True)


main()
"#,
    );
    repository.write(
        "echo_query/manifest.json",
        r#"{
  "name": "echo_query",
  "description": "Echoes the query back to the caller.",
  "entrypoint": "run.py",
  "async": false,
  "parameters": {"query": {"type": "string", "description": "The query to echo."}}
}"#,
    );
    repository.write(
        "echo_query/run.py",
        r#"#!/usr/bin/env -S uv run
# /// script
# dependencies = ["echoing"]
# ///

import json
import sys

import echoing


def main() -> None:
    """Read a query from stdin and return a result."""
    params = json.load(sys.stdin)
    json.dump({"result": echoing.echo(params["query"])}, sys.stdout)


main()
"#,
    );
    repository.push("As it was written");
}
