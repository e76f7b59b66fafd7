//! User namespaces: who refuses them, where a Pod goes then, and when it is tried again.

use std::time::Duration;

use serde_json::{Value, json};

use crate::bench::{Bench, probed, revision, wait};
use crate::replacement::being_replaced;

/// What a kubelet says whose runtime has none.
const REFUSED: &str = "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does \
                       not support user namespaces";

/// What it says of a network that fails, for the same reason.
const NO_NETWORK: &str = "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to \
                          setup network for sandbox \"7f\": plugin type=\"bridge\" failed (add)";

/// How the Pod of the build is asked for.
fn template(bench: &Bench) -> Value {
    let job = bench.cluster.get("jobs", &bench.job()).unwrap();
    job["spec"]["template"]["spec"].clone()
}

fn asks(bench: &Bench) -> bool {
    template(bench)["hostUsers"] == json!(false)
}

/// The nodes that the Pod of the build keeps to (`In`), or keeps away from (`NotIn`).
fn nodes(spec: &Value, operator: &str) -> Vec<String> {
    let required = &spec["affinity"]["nodeAffinity"];
    let terms = &required["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
    let fields = terms.as_array().into_iter().flatten().flat_map(|term| {
        assert_eq!(term.get("matchExpressions"), None);
        term["matchFields"].as_array().unwrap()
    });
    let named = fields.filter(|field| field["operator"] == operator).map(|field| {
        assert_eq!(
            (&field["key"], field["values"].as_array().unwrap().len()),
            (&json!("metadata.name"), 1)
        );
        field["values"][0].as_str().unwrap().to_owned()
    });
    named.collect()
}

/// The Pod of the build.
fn pod(bench: &Bench) -> String {
    format!("{}-x", bench.job())
}

/// The Pods of Jobs that are gone go, too.
async fn made_anew(bench: &Bench) {
    bench.try_reconcile().await.unwrap();
    for pod in bench.cluster.names("pods") {
        bench.cluster.remove("pods", &pod);
    }
    bench.settle().await;
}

/// `node-1` refuses the Pod of the build, and no other node takes it.
async fn runs_without(bench: &Bench) {
    bench.settle().await;
    bench.build_pod(&[]);
    bench.sandbox_fails(&pod(bench), REFUSED);
    made_anew(bench).await;
    assert!(asks(bench), "another node may have them");
    assert_eq!(nodes(&template(bench), "NotIn"), ["node-1"]);
    bench.build_pod(&[]);
    bench.no_node_takes(&pod(bench));
    made_anew(bench).await;
    assert!(!asks(bench));
    assert_eq!(nodes(&template(bench), "In"), ["node-1"], "and on that node alone");
}

/// A build whose Pod had no user namespace.
fn bare_build_ends(bench: &Bench) {
    bench.build_ends(&revision('a'), &[]);
    bench.cluster.change("pods", &pod(bench), |pod| {
        let said = probed("closed", false).to_string();
        pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"] = json!(said);
    });
}

#[tokio::test]
async fn a_node_that_refuses_is_left_and_where_no_other_takes_the_pod_it_runs_there_without() {
    let mut bench = Bench::new();
    bench.plugin(json!({"state": "Ephemeral"}));
    runs_without(&bench).await;
    let [status, reason, message] = bench.whole_condition("Confined");
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NoUserNamespace"));
    for word in ["node-1", "runtime does not support user namespaces", "famulus.dev/refresh"] {
        assert!(message.contains(word), "{word}: {message}");
    }
    bare_build_ends(&bench);
    bench.settle().await;
    assert_eq!(bench.ready().1, "Idle");
    let runner = bench.runner()["template"]["spec"].clone();
    assert_eq!(runner.get("hostUsers"), None);
    assert_eq!(nodes(&runner, "In"), ["node-1"]);
    assert_eq!(bench.status()["isolation"]["userNamespace"], false);
    bench.restart();
    bench.try_reconcile().await.unwrap();
    assert_eq!(bench.cluster.writes(), [""; 0], "it is remembered");
}

#[tokio::test]
async fn a_pod_that_is_slow_to_start_keeps_its_user_namespace() {
    for state in ["Persistent", "Ephemeral"] {
        let bench = Bench::new();
        bench.plugin(json!({"state": state}));
        bench.settle().await;
        bench.build_pod(&[]);
        // The image is on its way for ten minutes, and meanwhile the network fails, too.
        let job = bench.cluster.get("jobs", &bench.job()).unwrap();
        bench.cluster.change("pods", &pod(&bench), |pod| {
            pod["status"]["initContainerStatuses"] = json!([{
                "name": "probe", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": {"waiting": {"reason": "PodInitializing"}},
            }]);
        });
        for minute in 0..10 {
            if minute == 5 {
                bench.sandbox_fails(&pod(&bench), NO_NETWORK);
            }
            wait(Duration::from_mins(1));
            bench.settle().await;
            assert!(asks(&bench), "{state}, after {minute} minutes");
            assert_eq!(nodes(&template(&bench), "NotIn"), [""; 0]);
        }
        assert_ne!(bench.condition("Confined").1, "NoUserNamespace", "{state}");
        let now = bench.cluster.get("jobs", &bench.job()).unwrap();
        assert_eq!(now["metadata"]["uid"], job["metadata"]["uid"], "it is the Job of before");
        bench.build_ends(&revision('a'), &[]);
        bench.settle().await;
        assert_eq!(bench.condition("Confined"), ("True".into(), "AsAsked".into()), "{state}");
    }
}

#[tokio::test]
async fn a_refusal_holds_for_its_node_its_class_and_its_kind_of_volume() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    bench.build_pod(&[]);
    bench.sandbox_fails(&pod(&bench), REFUSED);
    made_anew(&bench).await;
    // Another node takes it, and has them.
    assert_eq!(nodes(&template(&bench), "NotIn"), ["node-1"]);
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.condition("Confined"), ("True".into(), "AsAsked".into()));
    assert_eq!(nodes(&bench.runner()["template"]["spec"], "NotIn"), ["node-1"]);
    // Of another class nothing is known, nor of another kind of volume.
    bench.plugin(json!({"runner": {"runtimeClassName": "kata"}}));
    bench.settle().await;
    assert_eq!(nodes(&bench.runner()["template"]["spec"], "NotIn"), [""; 0]);
    bench.plugin(json!({}));
    bench.cluster.change("persistentvolumeclaims", "weather-state", |claim| {
        claim["spec"]["storageClassName"] = json!("other");
    });
    bench.settle().await;
    assert_eq!(nodes(&bench.runner()["template"]["spec"], "NotIn"), [""; 0]);
}

#[tokio::test]
async fn a_refusal_is_forgotten_after_a_day_and_when_the_owner_asks_for_a_build() {
    for remedy in ["a day", "refresh"] {
        let bench = Bench::new();
        let up = json!({"runner": {"replicas": 1}});
        bench.plugin(up.clone());
        runs_without(&bench).await;
        bare_build_ends(&bench);
        bench.settle().await;
        bench.runner_starts();
        bench.settle().await;
        assert_eq!(bench.ready().1, "Running");
        wait(Duration::from_hours(23));
        bench.settle().await;
        assert_eq!(bench.condition("Confined").1, "NoUserNamespace", "{remedy}");
        match remedy {
            "refresh" => {
                bench.cluster.change("plugins", "weather", |plugin| {
                    plugin["metadata"]["annotations"] = json!({"famulus.dev/refresh": "now"});
                });
                bench.settle().await;
                assert!(asks(&bench));
                bench.build_ends(&revision('b'), &[]);
            }
            _ => wait(Duration::from_hours(2)),
        }
        bench.settle().await;
        let spec = bench.runner()["template"]["spec"].clone();
        assert_eq!(spec["hostUsers"], json!(false), "{remedy}");
        assert_eq!((nodes(&spec, "In"), nodes(&spec, "NotIn")), (vec![], vec![]), "{remedy}");
        // The node was mended: the runner starts, and is said to have one.
        bench.runner_starts();
        bench.settle().await;
        assert_eq!(bench.condition("Confined"), ("True".into(), "AsAsked".into()), "{remedy}");
        assert_eq!(bench.status()["isolation"]["userNamespace"], true, "{remedy}");
    }
}

#[tokio::test]
async fn where_those_nodes_take_it_no_more_it_is_asked_for_again() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    runs_without(&bench).await;
    bench.build_pod(&[]);
    bench.no_node_takes(&pod(&bench));
    made_anew(&bench).await;
    assert!(asks(&bench));
    assert_eq!(nodes(&template(&bench), "NotIn"), [""; 0]);
}

#[tokio::test]
async fn a_runner_whose_volume_maps_no_ids_is_moved_although_others_are_replaced() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.runner_is_made();
    being_replaced(&bench, &["a", "b", "c"]);
    bench.cluster.change("pods", "weather-runner-x", |pod| {
        let said = "failed to create containerd task: OCI runtime create failed: failed to set \
                    MOUNT_ATTR_IDMAP on /var/lib/kubelet/x: invalid argument";
        pod["status"]["containerStatuses"] = json!([{
            "name": "runner", "image": "i", "imageID": "i", "ready": false, "restartCount": 1,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 128, "reason": "StartError", "message": said}},
        }]);
    });
    bench.settle().await;
    assert_eq!(nodes(&bench.runner()["template"]["spec"], "NotIn"), ["node-1"]);
}

#[tokio::test]
async fn where_one_is_required_nothing_starts_without() {
    let bench = Bench::with(&[("USER_NAMESPACES", "Required")]);
    bench.plugin(json!({}));
    bench.settle().await;
    bench.build_pod(&[]);
    wait(Duration::from_secs(100));
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "RunnerFailing".into()), "it may be slow");
    bench.sandbox_fails(&pod(&bench), REFUSED);
    bench.settle().await;
    assert!(asks(&bench));
    assert_eq!(nodes(&template(&bench), "NotIn"), [""; 0]);
    assert_eq!(bench.ready(), ("False".into(), "NoUserNamespace".into()));
    assert!(bench.message("Ready").contains("runtime does not support user namespaces"));

    let bench = Bench::with(&[("USER_NAMESPACES", "Required")]);
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.build_pod(&[("probe", Some(probed("closed", false)))]);
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "NoUserNamespace".into()));
    assert_eq!(bench.runner()["replicas"], 0);
    assert_eq!(bench.cluster.names("secrets"), ["weather-mounted"], "its order is taken away");
}
