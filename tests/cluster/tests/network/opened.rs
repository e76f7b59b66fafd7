//! A network that was shut and opens later: whoever enforced the policies is gone, or they are.

use std::time::Duration;

use famulus_cluster_tests::host::of_pod;
use famulus_cluster_tests::kubectl::{self, LONG, condition, kubectl, object, objects, until};
use famulus_cluster_tests::release::{self, Release, inline_of};
use serde_json::json;
use tokio::time::Instant;

use crate::changes::{AS_HELM, bare};
use crate::rows::feed;

/// A runner looks every 20 s, and a look at what is shut takes less than one; the rest is for a busy
/// machine.
const NOTICED: Duration = Duration::from_mins(2);

/// The kubelet starts a container that ended again after five minutes at the latest.
const AGAIN: Duration = Duration::from_mins(10);

const PLUGIN: &str = "opened";

/// A tool that is done at once, and one that takes all the time there is.
fn plugin() -> String {
    let tool = |name: &str, later: bool| {
        json!({
            "name": name, "description": "Runs.", "entrypoint": "run.sh", "async": later,
            "concurrent": true, "parameters": {},
        })
        .to_string()
    };
    let files = [
        ("try/manifest.json", &*tool("try", false)),
        ("try/run.sh", "#!/bin/sh\necho it ran\n"),
        ("hold/manifest.json", &*tool("hold", true)),
        ("hold/run.sh", "#!/bin/sh\nsleep 280\necho it was let end\n"),
    ];
    inline_of(PLUGIN, &files, "  runner: {idleSeconds: 600}\n")
}

#[tokio::test]
async fn a_network_that_opens_later_is_noticed_and_nothing_runs_until_it_is_shut() {
    let release = Release::open().await;
    release.apply(&plugin()).await;
    release.condition(PLUGIN, "Ready=True").await;
    let reply = release.chat(&format!("run try of {PLUGIN}")).await;
    assert!(reply.contains("it ran"), "{reply}");
    release.condition(PLUGIN, "NetworkIsolated=True").await;
    doctor_says("plugin opened: Running", "network closed").await;

    let runner = format!("famulus.dev/plugin={PLUGIN},famulus.dev/part=runner");
    let runner = objects(&release.sandbox, "pods", &runner).await.remove(0);
    let before = of_pod(&runner).len();
    let change = async {
        until("the call runs", LONG, async || {
            let now = of_pod(&runner).len();
            if now > before { Ok(()) } else { Err(now.to_string()) }
        })
        .await;
        open_and_shut(&release).await;
    };
    let none = json!({});
    let (held, ()) = tokio::join!(release.run(PLUGIN, "hold", &none), change);
    assert!(held.contains("ended while the call ran"), "{held}");
    release.delete(&[PLUGIN]).await;
}

/// Opens the network under a call that runs, and shuts it again.
async fn open_and_shut(release: &Release) {
    // An agent that dies leaves its work in the kernel, so the policies themselves are taken away.
    let policies = objects(&release.sandbox, "networkpolicies", "").await;
    kubectl(&["-n", &release.sandbox, "delete", "networkpolicies", "--all"]).await;
    let opened = Instant::now();
    let plugin = until("the open network is noticed", NOTICED, async || {
        let plugin = object(&release.sandbox, "plugin", PLUGIN).await.unwrap();
        let isolated = condition(&plugin, "NetworkIsolated").unwrap().clone();
        if isolated["status"] == "False" { Ok(plugin) } else { Err(isolated.to_string()) }
    })
    .await;
    println!("noticed after {} s", opened.elapsed().as_secs());
    for kind in ["NetworkIsolated", "Ready"] {
        let said = condition(&plugin, kind).unwrap();
        assert_eq!((&said["status"], &said["reason"]), (&"False".into(), &"NetworkOpen".into()));
    }
    assert!(plugin["status"]["isolation"]["network"] == "Open", "{}", plugin["status"]);
    until("an event says so", LONG, async || {
        let about = ["-n", &release.sandbox, "get", "events", "-o", "json"];
        let mine = format!("involvedObject.name={PLUGIN},reason=NetworkOpen,type=Warning");
        let events = kubectl(&[&about[..], &["--field-selector", &mine]].concat()).await;
        if events.contains("can be reached and must not be") { Ok(()) } else { Err(events) }
    })
    .await;
    for _ in 0..3 {
        let reply = release.chat(&format!("run try of {PLUGIN}")).await;
        assert!(reply.contains("NetworkOpen") && !reply.contains("it ran"), "{reply}");
    }
    doctor_says("plugin opened: NetworkOpen", "network open").await;

    for policy in policies {
        feed(&AS_HELM, &bare(&policy)).await;
    }
    let shut = Instant::now();
    until("it is found shut", AGAIN, async || {
        let plugin = object(&release.sandbox, "plugin", PLUGIN).await.unwrap();
        let isolated = condition(&plugin, "NetworkIsolated").unwrap();
        if isolated["status"] == "True" { Ok(()) } else { Err(isolated.to_string()) }
    })
    .await;
    let reply = until("a call runs again", AGAIN, async || {
        let reply = release.chat(&format!("run try of {PLUGIN}")).await;
        if reply.contains("it ran") { Ok(reply) } else { Err(reply) }
    })
    .await;
    assert!(shut.elapsed() < AGAIN, "{:?}", shut.elapsed());
    println!("runs again {} s after it was shut: {reply}", shut.elapsed().as_secs());
}

/// Waits until `famulus doctor` says both of the plugin.
async fn doctor_says(one: &str, other: &str) {
    until("the doctor says so", LONG, async || {
        let said = doctor().await;
        if said.contains(one) && said.contains(other) { Ok(()) } else { Err(said) }
    })
    .await;
}

/// What `famulus doctor` says of the plugin in the Pod of the app. It ends with a failure where something is wrong.
async fn doctor() -> String {
    let name = release::name();
    let app = format!("deployment/{name}");
    let args = ["-n", &name, "exec", &app, "--", "famulus", "doctor"];
    let output = kubectl::command(&args).output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines().filter(|line| line.contains("plugin opened"));
    lines.next().unwrap_or(&said).to_owned()
}
