//! A cluster that ignores NetworkPolicies and has no StorageClass: Famulus notices, says so, and
//! runs nothing of a plugin.

use famulus_cluster_tests::kubectl::{LONG, condition, object, until};
use famulus_cluster_tests::release::{Release, inline};

#[tokio::test]
async fn where_policies_are_ignored_no_plugin_code_runs() {
    let release = Release::open().await;
    // An init script would run in the build, a tool in the runner; neither may.
    release.apply(&inline("shown", "try", "#!/bin/sh\necho '{\"it\": \"ran\"}'\n", "")).await;
    let plugin = until("the open network is noticed", LONG, async || {
        let plugin = object(&release.sandbox, "plugin", "shown").await.ok_or("not there")?;
        match condition(&plugin, "Ready") {
            Some(one) if one["reason"] == "NetworkOpen" => Ok(plugin),
            Some(_) | None => Err(plugin["status"].to_string()),
        }
    })
    .await;
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
