//! From a new Plugin to calls, and back to rest.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, revision, wait};

#[tokio::test]
async fn a_new_plugin_is_built_and_then_idle() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "Building".into()));
    assert_eq!(
        bench.order()["source"],
        json!({"git": {"url": "git://git.example/weather.git", "ref": "main"}})
    );
    assert_eq!(bench.order()["rendered"], 1);
    assert_eq!(bench.runner()["replicas"], 0);

    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.ready(), ("True".into(), "Idle".into()));
    let built =
        "revision aaaaaaaaaaaa of commit c0ffeec0ff serves; its init script said: 0 notes are kept";
    assert_eq!(bench.whole_condition("Built"), ["True", "RevisionBuilt", built]);
    assert_eq!(bench.condition("NetworkIsolated").1, "NetworkClosed");
    assert_eq!(bench.condition("Confined").1, "AsAsked");
    let status = bench.status();
    assert_eq!(status["revision"], revision('a'));
    assert_eq!(status["tools"], json!(["look", "forecast"]));
    assert_eq!(status["rendered"], 2);
    assert_eq!(status["selector"], "famulus.dev/plugin=weather,famulus.dev/part=runner");
    let wanted: serde_json::Value = serde_json::from_str(&bench.mounted("wanted.json")).unwrap();
    let expected = json!({"plugin": "weather", "uid": "uid-weather", "rendered": 2, "revision": revision('a')});
    assert_eq!(wanted, expected);
    assert_eq!(bench.cluster.names("jobs"), [""; 0], "the Job has done its work");
    assert_eq!(bench.cluster.names("secrets"), ["weather-mounted"], "and its order is gone");
}

#[tokio::test]
async fn what_is_settled_is_not_written_again_also_after_a_restart() {
    let mut bench = Bench::new();
    bench.build(json!({"runner": {"replicas": 1, "max": 1, "resources": {"limits": {"cpu": "1000m", "memory": "1.5Gi"}}}})).await;
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    for restart in [false, true, false] {
        if restart {
            bench.restart();
        }
        wait(Duration::from_mins(10));
        bench.try_reconcile().await.unwrap();
        assert_eq!(bench.cluster.writes(), [""; 0]);
    }
}

#[tokio::test]
async fn a_scale_changes_the_number_of_runners_and_nothing_else() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    for (wanted, expected) in [(1, 1), (5, 1), (0, 0)] {
        bench.plugin(json!({"runner": {"replicas": wanted, "max": 1}}));
        bench.try_reconcile().await.unwrap();
        let writes = bench.cluster.writes();
        let runner = writes.iter().filter(|write| *write == "PATCH deployments/weather-runner");
        assert_eq!(runner.count(), usize::from(wanted != 5), "{writes:?}");
        assert!(writes.iter().all(|write| !write.contains("jobs") && !write.contains("secrets")));
        assert_eq!(bench.runner()["replicas"], expected);
        bench.settle().await;
    }
}

#[tokio::test]
async fn ephemeral_plugins_have_as_many_runners_as_they_may() {
    let bench = Bench::new();
    bench.plugin(json!({"state": "Ephemeral", "runner": {"replicas": 7, "max": 3}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 0, "nothing runs before it is built");
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 3);
    assert_eq!(bench.condition("StateKept").1, "StateEphemeral");
    assert_eq!(bench.cluster.names("persistentvolumeclaims"), [""; 0]);
    let wanted: serde_json::Value = serde_json::from_str(&bench.mounted("wanted.json")).unwrap();
    assert_eq!(wanted["revision"], revision('a'));
    let template = &bench.runner()["template"];
    assert_eq!(template["metadata"]["annotations"]["famulus.dev/revision"], revision('a'));
    assert_eq!(template["spec"].get("initContainers"), None, "it takes its revision itself");
}

#[tokio::test]
async fn a_suspended_plugin_runs_and_builds_nothing() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    bench.plugin(json!({"suspend": true}));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "Suspended".into()));
    assert_eq!(bench.cluster.names("jobs"), [""; 0]);
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.ready().1, "Building");
    bench.build_ends(&revision('a'), &[]);
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 1);
    bench.plugin(json!({"suspend": true, "runner": {"replicas": 1}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 0);
}

#[tokio::test]
async fn the_older_of_two_with_one_name_has_it() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.cluster.put("plugins", json!({
        "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
        "metadata": {"name": "first", "uid": "uid-first", "creationTimestamp": "2026-11-20T00:00:00Z"},
        "spec": {"name": "weather", "source": {"git": {"url": "git://h/a"}}},
    }));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "NameTaken".into()));
    assert!(bench.message("Ready").contains("the Plugin first is older"));
    assert_eq!(bench.cluster.names("deployments"), [""; 0]);
    bench.cluster.remove("plugins", "first");
    bench.settle().await;
    assert_eq!(bench.ready().1, "Building");
}

#[tokio::test]
async fn what_cannot_be_is_said_and_what_runs_goes_on() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"resources": {"requests": {"memory": "2Gi"}, "limits": {"memory": "1Gi"}}}}));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "SpecInvalid".into()));
    assert!(bench.message("Ready").contains("asks for 2Gi of memory and is limited to 1Gi"));
    assert_eq!(bench.condition("Built").1, "RevisionBuilt", "what was found out stays");
}

#[tokio::test]
async fn a_plugin_without_permitted_tools_is_not_ready_and_says_so() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    for (tools, reason) in [
        (json!([]), "NothingPermitted"),
        (json!(["fly"]), "NothingPermitted"),
        (json!(["look"]), "Idle"),
    ] {
        bench.plugin(json!({"permissions": {"tools": tools}}));
        bench.settle().await;
        assert_eq!(bench.ready().1, reason, "{tools}");
    }
}
