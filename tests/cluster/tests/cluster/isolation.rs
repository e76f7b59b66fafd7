//! What a plugin's tools reach, asked from inside of their Pods.

use std::net::IpAddr;

use serde_json::{Value, json};

use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::internet::canary;
use famulus_cluster_tests::kubectl::{self, LONG, fed, kubectl, object, objects, until};
use famulus_cluster_tests::release::{Release, name};

/// Tries to connect, three times each, and says what was reached.
const PROBE: &str = r#"#!/usr/bin/env python3
import json, socket, sys
from concurrent.futures import ThreadPoolExecutor

def reached(target):
    host, port = target.rsplit(":", 1)
    for _ in range(3):
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
            return True
        except OSError:
            pass
    return False

targets = json.load(sys.stdin)["targets"].split(",")
with ThreadPoolExecutor(16) as pool:
    print(json.dumps({"reached": [t for t, yes in zip(targets, pool.map(reached, targets)) if yes]}))
"#;

fn plugin(name: &str, egress: &str) -> String {
    let manifest = json!({"name": name, "description": "Tries to connect."});
    let tool = json!({
        "name": "connect", "description": "Connects.", "entrypoint": "run.py",
        "parameters": {"targets": {"type": "string", "description": "HOST:PORT with commas."}},
    });
    let files = json!([
        {"path": "manifest.json", "content": manifest.to_string()},
        {"path": "connect/manifest.json", "content": tool.to_string()},
        {"path": "connect/run.py", "content": PROBE},
    ]);
    json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name},
        "spec": {
            "name": name, "source": {"inline": {"files": files}}, "permissions": {"tools": ["*"]},
            "egress": {"mode": egress}, "state": "Ephemeral",
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_tool_reaches_what_its_class_allows_and_nothing_else() {
    let release = Release::open().await;
    let (shut, open) = ("reach-none", "reach-internet");
    release.apply(&plugin(shut, "None")).await;
    release.apply(&plugin(open, "Internet")).await;
    for plugin in [shut, open] {
        release.condition(plugin, "Ready=True").await;
        // So that both have Pods.
        release.chat(&format!("run connect of {plugin} with targets=127.0.0.1:1")).await;
    }

    let address = async |namespace: &str, selector: &str| -> IpAddr {
        kubectl::address(namespace, selector).await.parse().unwrap()
    };
    let release_of = |part: &str| format!("app.kubernetes.io/component={part}");
    let app = address(&name(), &release_of("app")).await;
    let postgres = address(&name(), &release_of("postgres")).await;
    let operator = address(&name(), &release_of("operator")).await;
    let part = "famulus.dev/part=runner,famulus.dev/plugin";
    let neighbours = [
        address(&release.sandbox, &format!("{part}={shut}")).await,
        address(&release.sandbox, &format!("{part}={open}")).await,
    ];
    let service = object("default", "service", "kubernetes").await.unwrap();
    let service = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let nodes = objects("", "nodes", "").await;
    let node = nodes[0]["status"]["addresses"][0]["address"].as_str().unwrap().to_owned();
    let dns = object("kube-system", "service", "kube-dns").await;
    let dns = dns.and_then(|dns| dns["spec"]["clusterIP"].as_str().map(str::to_owned));

    let internet = canary("what a tool of the class Internet reaches");
    let targets = |own: IpAddr| {
        let mut targets = vec![
            format!("{app}:3000"),
            format!("{app}:3001"),
            format!("{app}:3003"),
            format!("{postgres}:5432"),
            format!("{operator}:8080"),
            format!("{service}:443"),
            format!("{node}:6443"),
            format!("{node}:10250"),
            "169.254.169.254:80".to_owned(),
        ];
        targets.extend(internet.map(str::to_owned));
        targets.extend(dns.iter().map(|dns| format!("{dns}:53")));
        let others = neighbours.iter().filter(|other| **other != own);
        targets.extend(others.map(|other| format!("{other}:8090")));
        targets.join(",")
    };
    for (plugin, own, allowed) in [(shut, neighbours[0], None), (open, neighbours[1], internet)] {
        let targets = targets(own);
        let reply = release.chat(&format!("run connect of {plugin} with targets={targets}")).await;
        let expected = allowed.map(|one| format!("{one:?}")).unwrap_or_default();
        assert!(reply.contains(&format!("\"reached\": [{expected}]")), "{plugin}: {reply}");
        // The callback port is the way of results; it shows that the silence is no accident.
        let allowed = format!("{app}:3002");
        let reply = release.chat(&format!("run connect of {plugin} with targets={allowed}")).await;
        assert!(reply.contains(&allowed), "{plugin}: {reply}");
    }
    release.delete(&[shut, open]).await;
}

/// A node that nobody schedules on, and a server of the API that nobody is led to, each with a public address.
#[tokio::test]
async fn public_addresses_of_nodes_are_found() {
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "elsewhere"},
        "spec": {"unschedulable": true},
    });
    fed(&["apply", "--server-side"], &node.to_string()).await.unwrap();
    let addresses = json!({"status": {"addresses": [
        {"type": "InternalIP", "address": "10.11.12.13"},
        {"type": "ExternalIP", "address": "81.2.69.142"},
        {"type": "Hostname", "address": "elsewhere"},
    ]}});
    let patch = addresses.to_string();
    let patch =
        ["patch", "node", "elsewhere", "--subresource=status", "--type=merge", "-p", &patch];
    kubectl(&patch).await;
    let release = name();
    let words = ["template", &release, CHART, "-f", VALUES, "--dry-run=server"];
    let servers = servers().await;
    let found = with_a_server_elsewhere(&servers, &words).await;
    let off = [&words[..], &["--set", "network.findClusterRanges=false"]].concat();
    let off = with_a_server_elsewhere(&servers, &off).await;
    serve_the_api_from(&servers).await;
    kubectl(&["delete", "node", "elsewhere"]).await;
    // The policies of plugins and builds, and the resolver, which answers no name with it.
    for address in ["81.2.69.142", "81.2.69.143"] {
        assert!(found.contains(&format!("- {address}/32")), "{found}");
        assert!(found.contains(&format!("private-address: {address}/32")), "{found}");
        assert!(!off.contains(address), "{off}");
    }
    assert!(!found.contains("10.11.12.13"), "it is in a range already: {found}");
}

/// What helm says while the API has one server more. The API server puts its own list back within seconds,
/// at any moment: it counts when that was not yet so afterwards.
async fn with_a_server_elsewhere(servers: &Value, words: &[&str]) -> String {
    let mut more = servers.clone();
    // It is not ready, so that no request goes there.
    let elsewhere = json!({"addresses": ["81.2.69.143"], "conditions": {"ready": false}});
    more.as_array_mut().unwrap().push(elsewhere);
    until("the other server stays for long enough", LONG, async || {
        serve_the_api_from(&more).await;
        let said = helm(words).await;
        let now = self::servers().await.to_string();
        if now.contains("81.2.69.143") { Ok(said) } else { Err(now) }
    })
    .await
}

async fn servers() -> Value {
    object("default", "endpointslices", "kubernetes").await.unwrap()["endpoints"].clone()
}

async fn serve_the_api_from(servers: &Value) {
    let patch = json!({"endpoints": servers}).to_string();
    let slice = ["-n", "default", "patch", "endpointslice", "kubernetes"];
    kubectl(&[&slice[..], &["--type=merge", "-p", &patch]].concat()).await;
}
