//! Classes, volumes and networks: what was asked for, what there is, and what is said.

use std::time::Duration;

use serde_json::json;

use crate::bench::{Bench, probed, revision, wait};
use crate::replacement::being_replaced;

#[tokio::test]
async fn a_class_with_a_kernel_of_its_own_uses_the_nodes_users() {
    let bench = Bench::with(&[("USER_NAMESPACES", "Required")]);
    bench.plugin(json!({"runner": {"runtimeClassName": "gvisor"}}));
    bench.settle().await;
    assert_eq!(bench.condition("Confined"), ("True".into(), "AsAsked".into()));
    let job = bench.cluster.get("jobs", &bench.job()).unwrap();
    assert_eq!(job["spec"]["template"]["spec"].get("hostUsers"), None);
    assert_eq!(job["spec"]["template"]["spec"]["runtimeClassName"], "gvisor");
}

#[tokio::test]
async fn a_class_that_does_not_exist_is_named() {
    let bench = Bench::new();
    bench.plugin(json!({"runner": {"runtimeClassName": "kata"}}));
    bench.settle().await;
    wait(Duration::from_secs(30));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "NoRuntimeClass".into()));
    assert!(bench.message("Ready").contains("the RuntimeClass kata does not exist"));
}

#[tokio::test]
async fn without_a_storage_class_a_plugin_works_and_says_what_it_loses() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.try_reconcile().await.unwrap();
    bench.cluster.change("persistentvolumeclaims", "weather-state", |claim| {
        claim["spec"]["storageClassName"] = json!("");
    });
    bench.settle().await;
    assert_eq!(bench.condition("StateKept"), ("False".into(), "NoStorageClass".into()));
    let job = bench.cluster.get("jobs", &bench.job()).unwrap();
    assert!(!job["spec"].to_string().contains("persistentVolumeClaim"));
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.ready().1, "Idle");

    // A default class comes: the volume is filled from what the app keeps.
    bench.cluster.change("persistentvolumeclaims", "weather-state", |claim| {
        claim["spec"]["storageClassName"] = json!("standard");
    });
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.build_ends(&revision('a'), &[]);
    bench.cluster.change("persistentvolumeclaims", "weather-state", |claim| {
        claim["status"] = json!({"phase": "Bound"});
    });
    bench.settle().await;
    assert_eq!(bench.condition("StateKept"), ("True".into(), "StateOnVolume".into()));
    assert_eq!(bench.runner()["strategy"]["type"], "Recreate");
}

#[tokio::test]
async fn a_network_that_is_not_closed_is_said() {
    let table = [
        ("closed", "false", "NetworkClosed", "Idle"),
        ("open", "false", "NetworkOpen", "NetworkOpen"),
        ("unknown", "false", "NetworkUnknown", "NetworkUnknown"),
        ("open", "true", "OpenNetworkAccepted", "Idle"),
    ];
    for (network, accept, isolated, ready) in table {
        let bench = Bench::with(&[("ACCEPT_OPEN_NETWORK", accept)]);
        bench.plugin(json!({}));
        bench.settle().await;
        bench.build_ends(&revision('a'), &[]);
        let pod = format!("{}-x", bench.job());
        bench.cluster.change("pods", &pod, |pod| {
            let said = probed(network, true).to_string();
            pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] =
                json!(said);
        });
        bench.settle().await;
        assert_eq!(bench.condition("NetworkIsolated").1, isolated);
        assert_eq!(bench.ready().1, ready, "{network} {accept}");
    }
}

#[tokio::test]
async fn a_node_that_answers_its_pod_is_said_and_calls_go_on() {
    let bench = Bench::new();
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.build_ends(&revision('a'), &[]);
    let pod = format!("{}-x", bench.job());
    bench.cluster.change("pods", &pod, |pod| {
        let mut said = probed("closed", true);
        said["node"] = json!("81.2.69.142:10250");
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] =
            json!(said.to_string());
    });
    bench.settle().await;
    let [status, reason, message] = bench.whole_condition("NetworkIsolated");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NodeReachable"));
    for word in ["81.2.69.142:10250", "network.clusterRanges"] {
        assert!(message.contains(word), "{message}");
    }
    assert_eq!(bench.told("NodeReachable"), [message]);
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    let runner = bench.runner()["template"]["spec"]["containers"][0]["env"].to_string();
    let field = r#""valueFrom":{"fieldRef":{"fieldPath":"status.hostIP"}}"#;
    assert!(runner.contains(field), "{runner}");
}

#[tokio::test]
async fn a_node_that_an_open_network_let_answer_is_forgotten_once_it_is_closed() {
    let bench = Bench::new();
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.build_ends(&revision('a'), &[]);
    let pod = format!("{}-x", bench.job());
    bench.cluster.change("pods", &pod, |pod| {
        let mut said = probed("open", true);
        said["node"] = json!("81.2.69.142:10250");
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] =
            json!(said.to_string());
    });
    bench.settle().await;
    assert_eq!(bench.condition("NetworkIsolated").1, "NetworkOpen");
    // The runner takes calls, so it found the network closed.
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.condition("NetworkIsolated").0, "True");
}

#[tokio::test]
async fn runners_of_an_open_network_end_first_once_it_is_no_longer_accepted() {
    for state in ["Persistent", "Ephemeral"] {
        let mut bench = Bench::with(&[("ACCEPT_OPEN_NETWORK", "true")]);
        bench.build(json!({"state": state})).await;
        bench.plugin(json!({"state": state, "runner": {"replicas": 1}}));
        bench.settle().await;
        bench.runner_starts();
        bench.settle().await;
        assert_eq!(bench.ready().1, "Running");
        // So many are replaced at a time that another would wait.
        being_replaced(&bench, &["a", "b", "c"]);
        bench.restart_with(&[("ACCEPT_OPEN_NETWORK", "false")]);
        bench.settle().await;
        let runner = bench.runner();
        assert_eq!(runner["strategy"]["type"], "Recreate", "{state}");
        let environment = runner["template"]["spec"]["containers"][0]["env"].to_string();
        let refuses = r#"{"name":"FAMULUS_RUNNER_ACCEPT_OPEN_NETWORK","value":"false"}"#;
        assert!(environment.contains(refuses), "{state}: {environment}");

        // It takes calls until it ends, which says nothing of the network; its successor knows it.
        let mut next = bench.cluster.get("pods", "weather-runner-x").unwrap();
        next["metadata"]["name"] = json!("weather-runner-y");
        next["metadata"]["uid"] = json!("y");
        next["metadata"]["creationTimestamp"] = json!("2100-01-01T00:00:00Z");
        next["spec"] = runner["template"]["spec"].clone();
        next["status"]["conditions"] = json!([]);
        next["status"]["containerStatuses"] = json!([{
            "name": "runner", "image": "i", "imageID": "i", "ready": false, "restartCount": 1,
            "state": {"terminated": {"exitCode": 0, "message": probed("open", true).to_string()}},
        }]);
        bench.cluster.put("pods", next);
        bench.settle().await;
        assert_eq!(bench.condition("NetworkIsolated").1, "NetworkOpen", "{state}");
        assert_eq!(bench.ready().1, "NetworkOpen", "{state}");
        bench.cluster.remove("pods", "weather-runner-x");
        bench.settle().await;
        let kind = if state == "Persistent" { "Recreate" } else { "RollingUpdate" };
        assert_eq!(bench.runner()["strategy"]["type"], kind, "as it was");
    }
}

#[tokio::test]
async fn a_runner_of_another_class_tells_by_taking_calls() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1, "runtimeClassName": "kata"}}));
    bench.settle().await;
    assert_eq!(bench.condition("NetworkIsolated").1, "NetworkNotProbed", "of this class");
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.condition("NetworkIsolated").1, "NetworkClosed");
    let expected = json!({"network": "Closed", "userNamespace": true, "runtimeClassName": "kata"});
    assert_eq!(bench.status()["isolation"], expected);
}
