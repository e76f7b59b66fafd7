//! Init scripts that reach what the tools reach.

use serde_json::{Value, json};

use crate::bench::{Bench, bundled, probed, revision};

fn apart() -> Value {
    json!({"egress": {"init": "AsTools"}})
}

fn is(reach: &str, containers: &[&str]) -> (String, Vec<String>) {
    (reach.to_owned(), containers.iter().map(ToString::to_string).collect())
}

const FIRST: [&str; 2] = ["probe", "bundle"];
const SECOND: [&str; 3] = ["probe", "bundle", "build"];

#[tokio::test]
async fn the_source_is_fetched_in_one_pod_and_init_runs_in_another_behind_the_class_of_the_tools() {
    let bench = Bench::new();
    bench.plugin(apart());
    bench.settle().await;
    assert_eq!(bench.reach(), is("internet", &FIRST));
    let first = bench.job();
    // It has nothing of the plugin's: neither its files nor its configuration.
    let volumes =
        bench.cluster.get("jobs", &first).unwrap()["spec"]["template"]["spec"]["volumes"].clone();
    let names = volumes.as_array().unwrap().iter().map(|volume| volume["name"].as_str().unwrap());
    assert_eq!(names.collect::<Vec<_>>(), ["order", "work", "tmp"]);
    bench.bundle_ends(&revision('a'));
    bench.settle().await;
    assert_eq!(bench.reach(), is("none", &SECOND));
    assert_ne!(bench.job(), first);
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    assert_eq!(bench.status()["revision"], Value::Null, "nothing serves yet");
    bench.restored_build_ends(&revision('a'));
    bench.settle().await;
    assert_eq!(bench.ready(), ("True".into(), "Idle".into()), "{}", bench.status());
    assert_eq!(bench.status()["revision"], revision('a'));
    assert_eq!(bench.status()["commit"], "c0ffee".repeat(6), "the first Pod said it");
    assert_eq!(bench.cluster.names("jobs"), [""; 0], "it is not built again");
}

#[tokio::test]
async fn who_reaches_the_internet_has_one_pod_for_all_of_it() {
    let bench = Bench::new();
    bench.plugin(json!({"egress": {"mode": "Internet", "init": "AsTools"}}));
    bench.settle().await;
    assert_eq!(bench.reach(), is("internet", &SECOND));
}

#[tokio::test]
async fn a_source_that_cannot_be_had_fails_as_ever() {
    let bench = Bench::new();
    bench.plugin(apart());
    bench.settle().await;
    bench.build_fails("RefNotFound", "there is no ref main");
    bench.settle().await;
    assert_eq!(bench.condition("Built"), ("False".into(), "RefNotFound".into()));
}

/// What an init script could not do behind its class may work with the internet, and the other way
/// round; the source is not asked for it.
#[tokio::test]
async fn a_change_of_mind_is_tried_at_once_with_the_bundle_that_there_is() {
    let bench = Bench::new();
    let failed = json!({"failed": {"reason": "InitFailed", "message": "no network"}});
    let closed = || Some(probed("closed", true));
    bench.plugin(apart());
    bench.settle().await;
    bench.bundle_ends(&revision('a'));
    bench.settle().await;
    let statuses = [
        ("probe", closed()),
        ("bundle", Some(bundled(&revision('a')))),
        ("build", Some(failed.clone())),
    ];
    bench.build_pod(&statuses);
    bench.settle().await;
    assert_eq!(bench.condition("Built"), ("False".into(), "InitFailed".into()));

    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.reach(), is("internet", &SECOND));
    assert_eq!(bench.order()["source"], json!({"revision": revision('a')}));
    bench.build_pod(&statuses);
    bench.settle().await;
    assert_eq!(bench.condition("Built"), ("False".into(), "InitFailed".into()));

    bench.plugin(apart());
    bench.settle().await;
    assert_eq!(bench.reach(), is("none", &SECOND), "and again");
}

/// A build that was begun with the internet is not the one that was asked for.
#[tokio::test]
async fn a_build_that_runs_is_begun_anew_when_its_init_script_is_to_reach_less() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(bench.reach(), is("internet", &SECOND));
    bench.build_pod(&[("probe", Some(probed("closed", true)))]);
    bench.plugin(apart());
    bench.settle().await;
    assert_eq!(bench.reach(), is("internet", &FIRST));
}
