//! Builds: that fail, that are pinned, that are asked for again.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, revision, wait};

#[tokio::test]
async fn a_failed_build_leaves_what_serves_alone() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    let source = json!({"git": {"url": "git://git.example/weather.git", "ref": "broken"}});
    bench.plugin(json!({"source": source, "runner": {"replicas": 1}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 1, "while it is built");
    assert_eq!(bench.ready().1, "Starting");
    bench.build_fails("ManifestInvalid", "manifest.json has no name; add one");
    bench.settle().await;
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    assert_eq!(bench.condition("Built"), ("False".into(), "ManifestInvalid".into()));
    assert!(
        bench
            .message("Built")
            .ends_with("revision aaaaaaaaaaaa of commit c0ffeec0ff goes on serving")
    );
    assert_eq!(bench.status()["revision"], revision('a'));
    assert_eq!(bench.status()["rendered"], 2, "nothing changed for the runner");
}

#[tokio::test]
async fn a_source_is_looked_up_once_whatever_else_changes() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(
        json!({"runner": {"replicas": 1, "idleSeconds": 7}, "egress": {"mode": "Internet"}}),
    );
    bench.settle().await;
    assert_eq!(bench.cluster.names("jobs"), [""; 0]);
}

#[tokio::test]
async fn a_pin_goes_back_and_its_end_goes_forward_without_asking_the_source() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    let source = json!({"git": {"url": "git://git.example/weather.git", "ref": "v2"}});
    bench.plugin(json!({"source": source}));
    bench.settle().await;
    bench.build_ends(&revision('b'), &[]);
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('b'));

    bench.plugin(json!({"source": source, "revision": revision('a')}));
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    assert_eq!(bench.status()["revision"], revision('b'), "until it is back");
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('a'));

    bench.plugin(json!({"source": source}));
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('b')}), "it is known already");
    bench.build_ends(&revision('b'), &[]);
    bench.settle().await;
    assert_eq!(bench.status()["revision"], revision('b'));
    assert_eq!(bench.status()["rendered"], 5, "one for each change of what is mounted");
}

#[tokio::test]
async fn a_pin_that_is_not_kept_is_said_and_changes_nothing() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"revision": revision('c')}));
    bench.settle().await;
    bench.build_fails("RevisionUnknown", "no such revision is kept");
    bench.settle().await;
    assert_eq!(bench.condition("Built"), ("False".into(), "RevisionUnknown".into()));
    assert_eq!(bench.ready().1, "Idle");
    assert_eq!(bench.status()["revision"], revision('a'));
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.condition("Built").1, "RevisionBuilt");
}

#[tokio::test]
async fn what_may_come_right_is_tried_again_and_what_cannot_is_not() {
    for (reason, again) in
        [("SourceUnreachable", true), ("NetworkOpen", true), ("ManifestInvalid", false)]
    {
        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.settle().await;
        let job = bench.job();
        bench.build_fails(reason, "it does not work");
        bench.settle().await;
        assert_eq!(bench.ready(), ("False".into(), reason.to_owned()));
        assert_eq!(bench.message("Ready"), "it does not work");
        assert_eq!(bench.cluster.names("secrets"), ["weather-mounted"], "the order is gone");

        wait(Duration::from_secs(29));
        bench.settle().await;
        assert_eq!(bench.job(), job, "it stays to be looked at");
        wait(Duration::from_secs(2));
        bench.try_reconcile().await.unwrap();
        assert_eq!(bench.cluster.names("jobs").is_empty(), again, "{reason}");
        bench.cluster.remove("pods", &format!("{job}-x"));
        bench.settle().await;
        assert_eq!(bench.cluster.names("secrets").len() > 1, again, "{reason}");
    }
}

#[tokio::test]
async fn a_build_that_failed_behind_its_bundle_is_tried_again_with_that_bundle() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    assert!(bench.order()["source"]["git"].is_object());
    bench.build_fails_behind_its_bundle(&revision('a'), "no package could be had");
    bench.settle().await;
    assert_eq!(bench.condition("Built").1, "BuildFailed");
    bench.next_try().await;
    // Whatever the branch has become meanwhile.
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    // A failure before the bundle changes nothing of that.
    bench.build_fails("NetworkUnknown", "the app was away");
    bench.settle().await;
    bench.next_try().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.restored_build_ends(&revision('a'));
    bench.settle().await;
    assert_eq!(bench.ready().1, "Idle");
    assert_eq!(bench.status()["revision"], revision('a'));
    assert_eq!(bench.status()["commit"], "c0ffee".repeat(6), "it is known from the first try");
    // It is the build of the source: nothing asks for another.
    bench.settle().await;
    assert_eq!(bench.cluster.names("jobs"), [""; 0]);
}

#[tokio::test]
async fn a_bundle_that_went_before_the_next_try_is_made_of_the_source_again() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    bench.build_fails_behind_its_bundle(&revision('a'), "no package could be had");
    bench.settle().await;
    bench.next_try().await;
    bench.build_fails("RevisionUnknown", "no such revision is kept");
    bench.settle().await;
    assert_eq!(bench.condition("Built").1, "BuildFailed");
    bench.next_try().await;
    assert!(bench.order()["source"]["git"].is_object());
}

#[tokio::test]
async fn the_newest_revision_is_made_of_the_source_again_when_its_bundle_went() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"revision": revision('b')}));
    bench.settle().await;
    bench.build_ends(&revision('b'), &[]);
    bench.settle().await;
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.build_fails("RevisionUnknown", "no such revision is kept");
    bench.settle().await;
    assert!(bench.order()["source"]["git"].is_object());
    assert_eq!(bench.status()["revision"], revision('b'), "it goes on serving");
}

#[tokio::test]
async fn the_annotation_builds_the_same_source_again() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    bench.build_fails("ManifestInvalid", "it has no name");
    bench.settle().await;
    let before = bench.job();
    bench.cluster.change("plugins", "weather", |plugin| {
        plugin["metadata"]["annotations"] = json!({"famulus.dev/refresh": "2"});
    });
    bench.settle().await;
    assert_ne!(bench.job(), before);
    bench.build_ends(&revision('b'), &[]);
    bench.settle().await;
    assert_eq!(bench.ready().1, "Idle");
}

#[tokio::test]
async fn a_build_of_a_source_that_is_not_wanted_any_more_ends() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    let before = bench.job();
    bench.plugin(
        json!({"source": {"inline": {"files": [{"path": "manifest.json", "content": "{}"}]}}}),
    );
    bench.settle().await;
    assert_ne!(bench.job(), before);
    assert_eq!(bench.order()["source"]["inline"]["files"][0]["path"], "manifest.json");
}

#[tokio::test]
async fn a_build_that_ends_without_a_word_is_told_as_the_kubelet_tells_it() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    bench.build_pod(&[]);
    let pod = format!("{}-x", bench.job());
    bench.cluster.change("pods", &pod, |pod| {
        pod["status"]["phase"] = json!("Failed");
        pod["status"]["containerStatuses"] = json!([{
            "name": "build", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }]);
    });
    bench.settle().await;
    assert_eq!(bench.condition("Built").1, "BuildFailed");
    assert!(
        bench.message("Built").contains("its container build ended with status 137 (OOMKilled)")
    );
}

#[tokio::test]
async fn the_end_of_an_init_script_is_told_however_much_it_said() {
    for letter in ["a", "ä"] {
        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.settle().await;
        let said = format!("{} that is all", letter.repeat(2000 / letter.len()));
        bench.build_ends_saying(&revision('a'), &[], &said);
        bench.settle().await;
        let built = bench.message("Built");
        assert!(built.ends_with(&format!("{letter}{letter} that is all")), "{built}");
        let told = bench.told("RevisionBuilt");
        assert_eq!(told.len(), 1, "{told:?}");
        let beginning = format!("its init script said: …{letter}{letter}");
        assert!(told[0].contains(&beginning), "{told:?}");
        // An event counts bytes, a condition letters.
        assert_eq!(told[0] == built, letter == "a", "{told:?}");

        let bench = Bench::new();
        bench.plugin(json!({}));
        bench.settle().await;
        bench.build_fails("InitFailed", &format!("init.sh ended with exit code 1\n{said}"));
        bench.settle().await;
        let told = bench.told("InitFailed");
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("init.sh ended with exit code 1\n"), "{told:?}");
    }
}
