//! A plugin from `kubectl apply` to `kubectl delete`.

use famulus_cluster_tests::kubectl::{self, LONG, condition, kubectl, objects, until};
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
