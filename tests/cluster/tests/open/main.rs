//! A cluster that ignores NetworkPolicies and has no StorageClass: Famulus notices, says so, and
//! runs nothing of a plugin, unless its owner accepts that.

use famulus_cluster_tests::helm::upgrade;
use famulus_cluster_tests::kubectl::{LONG, condition, object, until};
use famulus_cluster_tests::release::{Release, inline};
use serde_json::Value;

const TOOL: &str = "#!/bin/sh\necho '{\"it\": \"ran\"}'\n";

#[tokio::test]
async fn where_policies_are_ignored_no_plugin_code_runs() {
    let release = Release::open().await;
    // An init script would run in the build, a tool in the runner; neither may.
    release.apply(&inline("shown", "try", TOOL, "")).await;
    let plugin = is(&release, "shown", "NetworkOpen").await;
    let isolated = condition(&plugin, "NetworkIsolated").unwrap();
    assert_eq!(isolated["reason"], "NetworkOpen", "{isolated}");
    let ready = condition(&plugin, "Ready").unwrap();
    assert_eq!(ready["status"], "False", "{ready}");
    let kept = condition(&plugin, "StateKept").unwrap();
    assert_eq!((&kept["status"], &kept["reason"]), (&"False".into(), &"NoStorageClass".into()));

    let reply = release.chat("run try of shown").await;
    assert!(reply.contains("NetworkOpen") && !reply.contains("\"ran\""), "{reply}");
    let reply = release.chat("What time is it?").await;
    assert!(reply.contains("It is"), "the rest works: {reply}");
    release.delete(&["shown"]).await;
}

#[tokio::test]
async fn an_owner_may_accept_that_policies_are_ignored_and_take_it_back() {
    let release = Release::open().await;
    upgrade(&["--set", "plugins.acceptOpenNetwork=true"]).await;
    release.apply(&inline("accepted", "try", TOOL, "")).await;
    let plugin = release.condition("accepted", "Ready=True").await;
    let isolated = condition(&plugin, "NetworkIsolated").unwrap();
    let said = (&isolated["status"], &isolated["reason"]);
    assert_eq!(said, (&"False".into(), &"OpenNetworkAccepted".into()), "it stays said");
    let reply = release.chat("run try of accepted").await;
    assert!(reply.contains("\"ran\""), "{reply}");

    upgrade(&["--set", "plugins.acceptOpenNetwork=false"]).await;
    is(&release, "accepted", "NetworkOpen").await;
    let reply = release.chat("run try of accepted").await;
    assert!(reply.contains("NetworkOpen") && !reply.contains("\"ran\""), "{reply}");
    release.delete(&["accepted"]).await;
}

/// Waits until the Plugin is ready, or is not, for this reason, and the app has heard of it.
async fn is(release: &Release, name: &str, reason: &str) -> Value {
    let plugin = until(&format!("{name} is {reason}"), LONG, async || {
        let plugin = object(&release.sandbox, "plugin", name).await.ok_or("not there")?;
        match condition(&plugin, "Ready") {
            Some(one) if one["reason"] == reason => Ok(plugin),
            Some(_) | None => Err(plugin["status"].to_string()),
        }
    })
    .await;
    release.has_heard(&plugin).await;
    plugin
}
