//! The class of a Plugin is changed while a tool of it is at work.

use std::time::Duration;

use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, ready_pod, until};
use famulus_cluster_tests::release::Release;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::outside::{Listeners, SINK};

/// How long a stream lasts: longer than a runner takes to be replaced.
const STREAMED: Duration = Duration::from_secs(15);

/// Sends without a pause for as long as it is told.
const STREAM: &str = r#"#!/usr/bin/env python3
import json, socket, sys, time
given = json.load(sys.stdin)
end = socket.create_connection((given["host"], 80), timeout=5)
until = time.monotonic() + given["seconds"]
while time.monotonic() < until:
    end.sendall(b"x")
    time.sleep(0.02)
print("streamed")
"#;

/// Says whether the internet is reached.
const REACH: &str = r#"#!/usr/bin/env python3
import socket
try:
    socket.create_connection(("198.51.100.10", 80), timeout=1).close()
    print("it is open")
except OSError:
    print("it is shut")
"#;

fn plugin(name: &str, class: &str, state: &str) -> String {
    let manifest = json!({"name": name, "description": "Reaches out."});
    let tool = |name: &str, later: bool, parameters: Value| {
        json!({
            "name": name, "description": "Reaches out.", "entrypoint": "run.py", "async": later,
            "concurrent": true, "parameters": parameters,
        })
        .to_string()
    };
    let of_stream = json!({
        "host": {"type": "string", "description": "Where to."},
        "seconds": {"type": "number", "description": "How long."},
    });
    let files = json!([
        {"path": "manifest.json", "content": manifest.to_string()},
        {"path": "stream/manifest.json", "content": tool("stream", true, of_stream)},
        {"path": "stream/run.py", "content": STREAM},
        {"path": "reach/manifest.json", "content": tool("reach", false, json!({}))},
        {"path": "reach/run.py", "content": REACH},
    ]);
    json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name},
        "spec": {
            "name": name, "source": {"inline": {"files": files}}, "permissions": {"tools": ["*"]},
            "egress": {"mode": class}, "state": state,
        },
    })
    .to_string()
}

#[tokio::test]
async fn a_class_that_is_narrowed_holds_for_the_next_call() {
    let listeners = Listeners::start().await;
    let release = Release::open().await;
    for state in ["Ephemeral", "Persistent"] {
        let name = format!("egress-{}", state.to_lowercase());
        release.apply(&plugin(&name, "None", state)).await;
        release.condition(&name, "Ready=True").await;
        let said = release.run(&name, "reach", &json!({})).await;
        assert!(said.contains("it is shut"), "{said}");

        // Whoever is widened serves as it is until the wider one is there.
        release.apply(&plugin(&name, "Internet", state)).await;
        until("the wider class is there", LONG, async || {
            let said = release.run(&name, "reach", &json!({})).await;
            if said.contains("it is open") { Ok(()) } else { Err(said) }
        })
        .await;
        let given = json!({"host": SINK, "seconds": STREAMED.as_secs()});
        let stream = release.run(&name, "stream", &given);
        let (streamed, ()) = tokio::join!(stream, narrow(&release, &listeners, &name, state));
        assert!(streamed.contains("streamed"), "{streamed}");
    }
    release.delete(&["egress-ephemeral", "egress-persistent"]).await;
}

#[tokio::test]
async fn who_cannot_wait_for_a_call_of_the_wider_class_deletes_its_pod() {
    let listeners = Listeners::start().await;
    let release = Release::open().await;
    let name = "egress-impatient";
    release.apply(&plugin(name, "Internet", "Persistent")).await;
    release.condition(name, "Ready=True").await;
    let given = json!({"host": SINK, "seconds": 280});
    let stream = release.run(name, "stream", &given);
    let delete = async {
        flows(&listeners).await;
        let selector = format!("famulus.dev/plugin={name},famulus.dev/egress=internet");
        let wide = ready_pod(&release.sandbox, &selector).await;
        let wide = wide["metadata"]["name"].as_str().unwrap().to_owned();
        release.apply(&plugin(name, "None", "Persistent")).await;
        release.knows(name, "egress", "none").await;
        let told = Instant::now();
        let now = ["delete", "pod", &wide, "--grace-period=0", "--force"];
        kubectl(&[&["-n", &release.sandbox][..], &now].concat()).await;
        told
    };
    let (streamed, told) = tokio::join!(stream, delete);
    assert!(!streamed.contains("\"streamed\""), "{streamed}");
    println!("the call ended {:?} after its Pod was deleted", told.elapsed());
    let said = release.run(name, "reach", &json!({})).await;
    assert!(said.contains("it is shut"), "{said}");
    release.delete(&[name]).await;
}

/// Waits until a stream is heard.
async fn flows(listeners: &Listeners) {
    let before = listeners.internet.said().len();
    until("a stream flows", LONG, async || {
        let more = listeners.internet.said().len() - before;
        if more > 10 { Ok(()) } else { Err(format!("{more} pieces")) }
    })
    .await;
}

/// Narrows the class while the plugin streams.
async fn narrow(release: &Release, listeners: &Listeners, name: &str, state: &str) {
    flows(listeners).await;
    release.apply(&plugin(name, "None", state)).await;
    let narrowed = Instant::now();
    release.knows(name, "egress", "none").await;
    let said = release.run(name, "reach", &json!({})).await;
    let next = narrowed.elapsed();
    assert!(said.contains("it is shut"), "{said}");
    // A call that runs ends as it began; its Pod has no other.
    let (last, _) = listeners.internet.said().pop().unwrap();
    println!(
        "{state}: the next call is shut, after {next:?}; the stream was heard until {:?}",
        last.duration_since(narrowed)
    );
    until("its wide Pods were told to end", LONG, async || {
        let selector = format!("famulus.dev/plugin={name},famulus.dev/egress=internet");
        let wide = objects(&release.sandbox, "pods", &selector).await;
        let stays = wide.iter().find(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        stays.map_or(Ok(()), |pod| Err(pod["metadata"]["name"].to_string()))
    })
    .await;
}
