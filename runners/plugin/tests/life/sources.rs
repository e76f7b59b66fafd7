//! Where plugins come from, and what is refused.

use famulus_protocol::revision::{Network, Probed};

use crate::house::{House, MANIFEST, inline, tool};

#[tokio::test]
async fn files_of_the_order_become_a_revision_that_the_app_keeps() {
    let house = House::new().await;
    // The app does not know the Pod at first.
    house.kept.lock().refusals = 2;
    let manifest = r#"{"name":"test","description":"It greets.","instructions":"Set a key.",
        "config":{"key":{"description":"d","required":true},
            "url":{"description":"d","required":true,"default":"http://x"}}}"#;
    let tool = tool("greet");
    let files = [
        ("manifest.json", manifest),
        ("greet/manifest.json", &tool),
        ("greet/run", "#!/bin/sh\necho hello\n"),
    ];
    house.order("test", inline(&files));
    let bundled = house.try_bundle().await;
    let famulus_protocol::revision::Bundled::Done {
        revision,
        commit,
        tools,
        required_keys,
        config_keys,
    } = bundled
    else {
        panic!("{bundled:?}")
    };
    assert_eq!((commit, tools), (None, vec!["greet".to_owned()]));
    assert_eq!((required_keys, config_keys.len()), (vec!["key".to_owned()], 2));
    let hex = revision.strip_prefix("sha256:").unwrap();
    {
        let kept = house.kept.lock();
        let description = &kept.descriptions[hex];
        assert_eq!(description.description, "It greets.");
        assert_eq!(description.instructions.as_deref(), Some("Set a key."));
        assert!(kept.bundles[hex].len() > 512);
    }
    // The same files are the same revision, and a kept one is itself again.
    assert_eq!(house.bundle().await.0, revision);
    house.order("test", serde_json::json!({"revision": revision}));
    assert_eq!(house.bundle().await.0, revision);
    assert_eq!(house.kept.lock().sent, 1, "what the app keeps is not sent again");
}

#[tokio::test]
async fn a_kept_bundle_is_believed_by_its_digest_alone() {
    let house = House::new().await;
    let tool = tool("t");
    let files = [("manifest.json", MANIFEST), ("t/manifest.json", &tool), ("t/run", "#!/bin/sh\n")];
    house.order("test", inline(&files));
    let (revision, _) = house.bundle().await;
    let hex = revision.strip_prefix("sha256:").unwrap().to_owned();
    house.kept.lock().bundles.get_mut(&hex).unwrap()[600] ^= 1;
    house.order("test", serde_json::json!({"revision": revision}));
    let (reason, message) = house.bundle_failure().await;
    assert_eq!(reason, "BuildFailed");
    assert!(message.contains("what the app sent as"), "{message}");
    let unknown = format!("sha256:{}", "0".repeat(64));
    house.order("test", serde_json::json!({"revision": unknown}));
    assert_eq!(house.bundle_failure().await.0, "RevisionUnknown");
}

#[tokio::test]
async fn what_is_wrong_with_manifests_is_said_and_nothing_is_kept() {
    let house = House::new().await;
    let files =
        [("manifest.json", r#"{"name":"other","description":"d"}"#), ("t/manifest.json", "{")];
    house.order("test", inline(&files));
    let (reason, message) = house.bundle_failure().await;
    assert_eq!(reason, "ManifestInvalid");
    assert!(message.contains("key `name` is `other`"), "{message}");
    assert!(message.contains("t/manifest.json: it is no JSON"), "{message}");
    assert!(house.kept.lock().bundles.is_empty());
}

#[tokio::test]
async fn the_probe_reports_what_it_found_and_never_fails() {
    let house = House::new().await;
    let (succeeded, probed): (bool, Probed) = house.probe(&[]).await;
    assert!(succeeded);
    assert_eq!(probed.network, Network::Closed, "{}", probed.detail);
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    assert_eq!(probed.user_namespace, !map.contains("4294967295"));
    let (succeeded, probed): (bool, Probed) = house.probe(&[("PROBE_DENIED", "")]).await;
    assert!(succeeded);
    assert_eq!(probed.network, Network::Unknown);
}
