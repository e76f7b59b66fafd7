//! Runners that are replaced: a few at a time.

use serde_json::{Value, json};

use crate::bench::Bench;

/// Other Plugins whose runners are on the way to another shape.
pub(crate) fn being_replaced(bench: &Bench, names: &[&str]) {
    for name in names {
        bench.cluster.put(
            "deployments",
            json!({
                "metadata": {"name": name, "generation": 2, "labels": {"famulus.dev/plugin": name}},
                "spec": {"replicas": 1, "selector": {}, "template": {}},
                "status": {"observedGeneration": 2, "replicas": 1},
            }),
        );
    }
}

#[tokio::test]
async fn another_image_waits_while_others_are_replaced() {
    let mut bench = Bench::new();
    bench.build(json!({})).await;
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.runner_starts();
    bench.settle().await;
    being_replaced(&bench, &["a", "b", "c"]);
    bench.restart_with(&[("RUNNER_IMAGE", "localhost/famulus/runner:0.2.0-slim")]);
    let image =
        |bench: &Bench| bench.runner()["template"]["spec"]["containers"][0]["image"].clone();
    bench.settle().await;
    assert_eq!(image(&bench), "localhost/famulus/runner:0.1.0-slim");
    bench.cluster.remove("deployments", "b");
    bench.settle().await;
    assert_eq!(image(&bench), "localhost/famulus/runner:0.2.0-slim");
}

/// From the build on: what an init script leaves must fit what runs it.
#[tokio::test]
async fn a_plugin_is_built_and_run_in_the_flavour_that_it_names() {
    let images = [
        ("RUNNER_IMAGE", "runner:full"),
        ("RUNNER_IMAGE_SLIM", "runner:slim"),
        ("RUNNER_IMAGE_FULL", "runner:full"),
    ];
    for (asked, image) in [(json!({}), "full"), (json!({"flavour": "Slim"}), "slim")] {
        let bench = Bench::with(&images);
        let mut runner = asked;
        runner["replicas"] = json!(1);
        bench.plugin(json!({"runner": runner}));
        bench.settle().await;
        let job = bench.cluster.get("jobs", &bench.job()).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        for container in
            ["initContainers", "containers"].iter().flat_map(|kind| pod[*kind].as_array().unwrap())
        {
            assert_eq!(container["image"], format!("runner:{image}"), "{container}");
        }
        bench.build_ends(&crate::bench::revision('a'), &[]);
        bench.settle().await;
        let running = &bench.runner()["template"]["spec"]["containers"][0]["image"];
        assert_eq!(*running, format!("runner:{image}"));
    }
}

const NEW: &str = "localhost/famulus/runner:0.2.0-slim";

/// Copies of the Plugin `weather` and of all that was made for it.
fn copies(bench: &Bench, count: usize) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("copy-{number}")).collect();
    for resource in
        ["plugins", "serviceaccounts", "persistentvolumeclaims", "deployments", "secrets", "pods"]
    {
        for original in bench.cluster.names(resource) {
            let object = bench.cluster.get(resource, &original).unwrap().to_string();
            for name in &names {
                let copy: Value = serde_json::from_str(&object.replace("weather", name)).unwrap();
                bench.cluster.put(resource, copy);
            }
        }
    }
    names
}

/// Those whose runners have the new image.
fn replaced(bench: &Bench, names: &[String]) -> Vec<String> {
    let is_new = |name: &&String| {
        let runner = bench.cluster.get("deployments", &format!("{name}-runner")).unwrap();
        runner["spec"]["template"]["spec"]["containers"][0]["image"] == NEW
    };
    names.iter().filter(is_new).cloned().collect()
}

#[tokio::test]
async fn three_are_replaced_at_a_time_however_many_are_looked_at_at_once() {
    let mut bench = Bench::new();
    let source = json!({"git": {"url": "git://git.example/tools.git"}});
    bench.build(json!({"source": source})).await;
    bench.plugin(json!({"source": source, "runner": {"replicas": 1}}));
    bench.settle().await;
    bench.runner_starts();
    bench.settle().await;
    let names = copies(&bench, 8);
    bench.restart_with(&[("RUNNER_IMAGE", NEW)]);
    // Each looks at caches that know nothing yet of what the others write.
    bench.cluster.show(&bench.context);
    bench.reconcile_beside_each_other(&names).await;
    let first = replaced(&bench, &names);
    assert_eq!(first.len(), 3, "{first:?}");
    bench.reconcile_beside_each_other(&names).await;
    assert_eq!(replaced(&bench, &names), first, "the watches are late");
    bench.cluster.show(&bench.context);
    bench.reconcile_beside_each_other(&names).await;
    assert_eq!(replaced(&bench, &names), first, "none of them is up again");
    // One is, and makes way for another.
    bench.cluster.change("deployments", &format!("{}-runner", first[0]), |runner| {
        runner["status"]["observedGeneration"] = runner["metadata"]["generation"].clone();
    });
    bench.cluster.show(&bench.context);
    bench.reconcile_beside_each_other(&names).await;
    assert_eq!(replaced(&bench, &names).len(), 4);
}
