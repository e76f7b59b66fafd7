//! Children are lost and edited, and come back.

use proptest::prelude::*;
use serde_json::json;

use crate::bench::{Bench, revision};

#[derive(Clone, Copy, Debug)]
enum Blow {
    Lose(&'static str, &'static str),
    EmptyVolume,
    EditImage,
    EditReplicas,
    EditBearer,
    EditLabels,
    Restart,
    Forget,
}

const BLOWS: [Blow; 11] = [
    Blow::Lose("serviceaccounts", "weather-identity"),
    Blow::Lose("secrets", "weather-mounted"),
    Blow::Lose("persistentvolumeclaims", "weather-state"),
    Blow::Lose("deployments", "weather-runner"),
    Blow::EmptyVolume,
    Blow::EditImage,
    Blow::EditReplicas,
    Blow::EditBearer,
    Blow::EditLabels,
    Blow::Restart,
    Blow::Forget,
];

impl Blow {
    async fn strike(self, bench: &mut Bench) {
        let cluster = bench.cluster.clone();
        let has = |kind: &str, name: &str| cluster.get(kind, name).is_some();
        match self {
            Self::Lose(kind, name) => cluster.remove(kind, name),
            Self::EmptyVolume => empty_volume(bench).await,
            Self::EditImage if has("deployments", "weather-runner") => {
                cluster.change("deployments", "weather-runner", |runner| {
                    runner["spec"]["template"]["spec"]["containers"][0]["image"] = json!("evil");
                });
            }
            Self::EditReplicas if has("deployments", "weather-runner") => {
                cluster.change("deployments", "weather-runner", |runner| {
                    runner["spec"]["replicas"] = json!(9);
                });
            }
            Self::EditBearer if has("secrets", "weather-mounted") => {
                cluster.change("secrets", "weather-mounted", |secret| {
                    secret["data"]["bearer"] = json!("ZXZpbA==");
                });
            }
            Self::EditLabels if has("deployments", "weather-runner") => {
                cluster.change("deployments", "weather-runner", |runner| {
                    let labels = &mut runner["spec"]["template"]["metadata"]["labels"];
                    labels["famulus.dev/egress"] = json!("internet");
                });
            }
            Self::Restart => bench.restart(),
            Self::Forget if has("plugins", "weather") => {
                cluster.change("plugins", "weather", |plugin| plugin["status"] = json!(null));
            }
            Self::EditImage
            | Self::EditReplicas
            | Self::EditBearer
            | Self::EditLabels
            | Self::Forget => {}
        }
    }
}

/// `kubectl delete pvc`: it goes when nothing holds it.
async fn empty_volume(bench: &Bench) {
    let volume = ("persistentvolumeclaims", "weather-state");
    if bench.cluster.get(volume.0, volume.1).is_none() {
        return;
    }
    bench.cluster.change(volume.0, volume.1, |claim| {
        claim["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    });
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 0, "nothing begins on a volume that is about to go");
    assert!(bench.cluster.names("jobs").is_empty(), "nothing is built there");
    bench.cluster.remove(volume.0, volume.1);
}

/// What there should be in the end, whatever happened.
async fn comes_right(blows: &[Blow]) {
    let mut bench = Bench::new();
    bench.build(json!({})).await;
    for blow in blows {
        blow.strike(&mut bench).await;
        bench.cluster.writes();
        bench.settle().await;
        if !bench.cluster.names("jobs").is_empty() {
            bench.build_ends(&revision('a'), &[]);
            bench.settle().await;
        }
    }
    assert_eq!(bench.ready(), ("True".into(), "Idle".into()), "{blows:?}");
    assert_eq!(bench.status()["revision"], revision('a'));
    let runner = bench.runner();
    let pod = &runner["template"];
    assert_eq!(runner["replicas"], 0, "{blows:?}");
    assert_eq!(pod["spec"]["containers"][0]["image"], "localhost/famulus/runner:0.1.0-slim");
    assert_eq!(pod["metadata"]["labels"]["famulus.dev/egress"], "none");
    let rendered = bench.status()["rendered"].as_i64().unwrap();
    let bearer = famulus_crds::bearer::runner(crate::bench::ROOT_KEY, "uid-weather", rendered);
    assert_eq!(bench.mounted("bearer"), bearer, "{blows:?}");
    assert_eq!(bench.cluster.names("secrets"), ["weather-mounted"]);
    assert_eq!(bench.cluster.names("persistentvolumeclaims"), ["weather-state"]);
}

#[tokio::test]
async fn every_loss_and_every_edit_is_made_good() {
    for blow in BLOWS {
        comes_right(&[blow]).await;
    }
}

#[tokio::test]
async fn the_number_never_goes_back_when_the_record_is_lost() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    let before = bench.status()["rendered"].as_i64().unwrap();
    bench.cluster.remove("secrets", "weather-mounted");
    bench.settle().await;
    assert!(bench.order()["rendered"].as_i64().unwrap() > before);
}

#[tokio::test]
async fn a_lost_volume_is_filled_from_what_the_app_keeps() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.cluster.remove("persistentvolumeclaims", "weather-state");
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    assert_eq!(bench.runner()["replicas"], 0, "nothing runs on an empty volume");
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 1);
}

#[tokio::test]
async fn whoever_deletes_the_volume_gets_an_empty_one_while_the_plugin_is_used() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 1);
    bench.runner_starts();
    empty_volume(&bench).await;
    for (kind, reason) in [("StateKept", "VolumePending"), ("Ready", "Building")] {
        let [_, why, message] = bench.whole_condition(kind);
        assert_eq!(why, reason, "{message}");
        let holders = message.split("which hold it: ").nth(1);
        assert!(holders.is_some_and(|pods| pods.contains("weather-runner-x")), "{message}");
    }
    bench.cluster.remove("pods", "weather-runner-x");
    bench.settle().await;
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    assert_eq!(bench.runner()["replicas"], 1);
}

#[tokio::test]
async fn a_pod_that_was_evicted_does_not_hold_a_volume_that_is_deleted() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.runner_starts();
    bench.cluster.change("pods", "weather-runner-x", |pod| {
        pod["status"] = json!({"phase": "Failed", "reason": "Evicted"});
    });
    let is_there = || bench.cluster.get("pods", "weather-runner-x").is_some();
    bench.settle().await;
    assert!(is_there(), "it tells the owner why it ended");
    empty_volume(&bench).await;
    assert!(!is_there());
    let [_, why, message] = bench.whole_condition("StateKept");
    assert_eq!((&*why, message.contains("runner")), ("VolumePending", false), "{message}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn losses_and_edits_in_any_order_converge(blows in blows()) {
        converge(&blows);
    }
}

mod soak {
    use super::{blows, converge};
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]

        #[test]
        fn losses_and_edits_in_a_thousand_orders_converge(blows in blows()) {
            converge(&blows);
        }
    }
}

fn blows() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(0..BLOWS.len(), 1..12)
}

fn converge(blows: &[usize]) {
    let blows: Vec<Blow> = blows.iter().map(|place| BLOWS[*place]).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(comes_right(&blows));
}
