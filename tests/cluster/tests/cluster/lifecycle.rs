//! A plugin from `kubectl apply` to `kubectl delete`.

use std::time::Duration;

use futures::future::join_all;
use serde_json::Value;
use tokio::time::sleep;

use famulus_cluster_tests::kubectl::{self, LONG, condition, kubectl, object, objects, until};
use famulus_cluster_tests::release::{Release, inline};

#[tokio::test]
async fn a_plugin_that_is_applied_is_used_in_a_conversation() {
    let release = Release::open().await;
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/plugin-inline.yaml");
    release.apply(&std::fs::read_to_string(sample).unwrap()).await;
    let plugin = release.condition("dice", "Ready=True").await;
    assert!(plugin["status"]["revision"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!(plugin["status"]["tools"], serde_json::json!(["throw_die"]));

    let reply = release.chat("Throw the die.").await;
    let thrown = reply.split("\"thrown\":").nth(1).unwrap_or_else(|| panic!("{reply}"));
    let thrown = thrown.trim_start().chars().next().unwrap();
    assert!(('1'..='6').contains(&thrown), "{reply}");

    // It ran in a Pod of its own, which was found to be shut in before.
    let mut pods =
        objects(&release.sandbox, "pods", "famulus.dev/plugin=dice,famulus.dev/part=runner").await;
    pods.retain(|pod| pod["metadata"]["deletionTimestamp"].is_null());
    assert_eq!(pods.len(), 1, "{pods:?}");
    let plugin = release.condition("dice", "NetworkIsolated=True").await;
    assert_eq!(plugin["status"]["isolation"]["network"], "Closed");

    // What is printed reads like a sentence.
    until("the Plugin is printed as running", LONG, async || {
        let said =
            kubectl(&["-n", &release.sandbox, "get", "plugins", "dice", "--no-headers"]).await;
        let words: Vec<&str> = said.split_whitespace().take(6).collect();
        if words == ["dice", "dice", "True", "Running", "1", "None"] { Ok(()) } else { Err(said) }
    })
    .await;

    release.delete(&["dice"]).await;
    let reply = release.chat("Throw the die.").await;
    assert!(reply.contains("no plugin `dice`"), "{reply}");
}

#[tokio::test]
async fn a_broken_plugin_says_what_is_wrong_in_condition_and_event() {
    let release = Release::open().await;
    let broken = inline("broken", "try", "#!/bin/sh\necho {}\n", "")
        .replace("\\\"entrypoint\\\":\\\"run.sh\\\"", "\\\"entrypoint\\\":\\\"absent.sh\\\"");
    assert!(broken.contains("absent.sh"), "{broken}");
    release.apply(&broken).await;
    let plugin = release.condition("broken", "Built=False").await;
    let built = condition(&plugin, "Built").unwrap();
    assert_eq!(built["reason"], "ManifestInvalid", "{built}");
    let message = built["message"].as_str().unwrap();
    assert!(message.contains("try/manifest.json") && message.contains("entrypoint"), "{message}");
    let ready = condition(&plugin, "Ready").unwrap();
    assert_eq!((&ready["status"], &ready["reason"]), (&"False".into(), &"ManifestInvalid".into()));
    until("an event says so", LONG, async || {
        let events =
            kubectl(&["-n", &release.sandbox, "get", "events.events.k8s.io", "-o", "json"]).await;
        if events.contains("ManifestInvalid") { Ok(()) } else { Err(events) }
    })
    .await;
    let reply = release.chat("run try of broken").await;
    assert!(reply.contains("not ready (ManifestInvalid)"), "{reply}");
    release.delete(&["broken"]).await;
}

#[tokio::test]
async fn a_wrong_spec_is_refused_with_field_cause_and_remedy() {
    let release = Release::open().await;
    let wrong = inline("wrong", "try", "#!/bin/sh\n", "  runner: {max: 2}\n");
    let complaint = kubectl::apply(&release.sandbox, &wrong).await.unwrap_err();
    assert!(complaint.contains("spec.runner.max is more than 1"), "{complaint}");
}

#[tokio::test]
async fn without_permissions_nothing_runs() {
    let release = Release::open().await;
    let shut =
        inline("shut", "try", "#!/bin/sh\necho '{}'\n", "").replace("tools: ['*']", "tools: []");
    release.apply(&shut).await;
    release.condition("shut", "Built=True").await;
    let plugin = release.condition("shut", "Permitted=False").await;
    let ready = condition(&plugin, "Ready").unwrap();
    assert_eq!(ready["status"], "False", "{ready}");
    let reply = release.chat("run try of shut").await;
    assert!(reply.contains("no plugin `shut`"), "{reply}");
    release.delete(&["shut"]).await;
}

/// The first process of a container does not hear what it is told before it listens: it would stay for all
/// of its grace, which is five minutes and a half. When exactly, nobody knows: a start is tried at many
/// places, beside others, which makes it longer.
#[tokio::test]
async fn a_runner_that_is_deleted_while_it_starts_is_gone_soon() {
    let release = Release::open().await;
    join_all((0..4).map(|number| deleted_while_it_starts(&release, number))).await;
}

async fn deleted_while_it_starts(release: &Release, number: u32) {
    const SOON: Duration = Duration::from_mins(1);
    let (name, sandbox) = (format!("brief-{number}"), &release.sandbox);
    release.apply(&inline(&name, "try", "#!/bin/sh\necho {}\n", "  state: Ephemeral\n")).await;
    release.condition(&name, "Ready=True").await;
    kubectl(&["-n", sandbox, "scale", "plugin", &name, "--replicas=1"]).await;
    let selector = format!("famulus.dev/plugin={name},famulus.dev/part=runner");
    for place in 0..8 {
        let pod = until("a runner is about to start", LONG, async || {
            let pods = objects(sandbox, "pods", &selector).await;
            let starts = |pod: &&Value| {
                let is_on_a_node = pod["spec"]["nodeName"].is_string();
                is_on_a_node && pod["metadata"]["deletionTimestamp"].is_null()
            };
            let pod = pods.iter().find(starts).ok_or_else(|| format!("{} Pods", pods.len()))?;
            Ok(pod["metadata"]["name"].as_str().unwrap().to_owned())
        })
        .await;
        let later = Duration::from_millis(u64::from(place * 200 + number * 50));
        sleep(later).await;
        kubectl(&["-n", sandbox, "delete", "pod", &pod, "--wait=false"]).await;
        until(&format!("{pod} is gone, which was deleted after {later:?}"), SOON, async || {
            let left = object(sandbox, "pods", &pod).await;
            left.map_or(Ok(()), |pod| Err(pod["status"]["phase"].to_string()))
        })
        .await;
    }
    release.delete(&[&name]).await;
}
