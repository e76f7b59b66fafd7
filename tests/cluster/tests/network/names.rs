//! Which names a plugin's Pods can look up, and what they learn.

use std::fs;

use famulus_cluster_tests::beside::node;
use famulus_cluster_tests::kubectl::{LONG, address, objects, until};
use famulus_cluster_tests::release::{self, Release, inline_of};
use serde_json::{Value, json};

use crate::outside::METADATA;

/// Looks names up as a program does, and says what each came to.
const LOOK: &str = r#"#!/usr/bin/env python3
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def found(name):
    try:
        return sorted({found[4][0] for found in socket.getaddrinfo(name, 80, socket.AF_INET)})
    except OSError:
        return []

names = json.load(sys.stdin)["names"].split(",")
with ThreadPoolExecutor(16) as pool:
    print(json.dumps(dict(zip(names, pool.map(found, names)))))
"#;

fn plugin(name: &str, class: &str) -> String {
    let manifest = json!({
        "name": "look", "description": "Looks names up.", "entrypoint": "run.py",
        "parameters": {"names": {"type": "string", "description": "With commas."}},
    });
    let files = [("look/manifest.json", &*manifest.to_string()), ("look/run.py", LOOK)];
    inline_of(name, &files, &format!("  state: Ephemeral\n  egress: {{mode: {class}}}\n"))
}

#[tokio::test]
async fn public_names_are_found_and_none_of_the_cluster_or_of_a_private_place() {
    let release = Release::open().await;
    let name = release::name();
    let of =
        async |part: &str| address(&name, &format!("app.kubernetes.io/component={part}")).await;
    let nodes = objects("", "nodes", "").await;
    let node_address = nodes[0]["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
    // Public names that stand for places which plugins may not reach, as an attacker would have them.
    let private = [
        ("database.example", of("postgres").await),
        ("app.example", of("app").await),
        ("node.example", node_address),
        ("metadata.example", METADATA.to_owned()),
        ("home.example", "192.168.1.1".to_owned()),
        ("own.example", "127.0.0.1".to_owned()),
    ];
    let hosts = node().join("internet/hosts");
    let before = fs::read_to_string(&hosts).unwrap();
    let lines = private.iter().map(|(name, address)| format!("{address} {name}\n"));
    let lines: String = lines.chain(["198.51.100.10 new.example\n".to_owned()]).collect();
    fs::write(&hosts, format!("{before}{lines}")).unwrap();

    let (shut, open) = ("names-none", "names-internet");
    release.apply(&plugin(shut, "None")).await;
    release.apply(&plugin(open, "Internet")).await;
    for plugin in [shut, open] {
        release.condition(plugin, "Ready=True").await;
    }
    let public = ["canary.example", "new.example"];
    until("the new names are known", LONG, async || {
        let found = look(&release, open, &public).await;
        let known = public.iter().all(|name| found[name] == json!(["198.51.100.10"]));
        if known { Ok(()) } else { Err(found.to_string()) }
    })
    .await;
    let of_cluster = [
        "kubernetes.default.svc.cluster.local".to_owned(),
        format!("{name}-postgres.{name}.svc.cluster.local"),
        format!("{name}-callback.{name}.svc.cluster.local"),
        "kubernetes.default.svc".to_owned(),
        "kubernetes".to_owned(),
    ];
    let mut all: Vec<&str> = of_cluster.iter().map(String::as_str).collect();
    all.extend(private.iter().map(|(name, _)| *name));
    let found = look(&release, open, &all).await;
    for one in &all {
        assert_eq!(found[one], json!([]), "{one}: {found}");
    }
    // Whoever may reach nobody asks nobody, either.
    all.extend(public);
    let found = look(&release, shut, &all).await;
    for one in &all {
        assert_eq!(found[one], json!([]), "{one}: {found}");
    }
    fs::write(&hosts, before).unwrap();
    release.delete(&[shut, open]).await;
}

async fn look(release: &Release, plugin: &str, names: &[&str]) -> Value {
    let said = release.run(plugin, "look", &json!({"names": names.join(",")})).await;
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    let text = last["result"]["runs"][0]["output"]["text"].as_str();
    let text = text.unwrap_or_else(|| panic!("{plugin}: {said}"));
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{plugin}: {error}: {said}"))
}
