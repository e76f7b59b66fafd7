//! Where builds have packages from.

use serde_json::{Value, json};

use crate::bench::{Bench, revision};

const SETTINGS: [(&str, &str); 3] = [
    ("PACKAGES_PYTHON", "https://pypi.home.example/simple/"),
    ("PACKAGES_NPM", "https://npm.home.example/"),
    ("PACKAGES_SECRET", "mirror"),
];

/// What a container is told of packages, and whether it has the credentials.
fn told(container: &Value) -> (Vec<(&str, &str)>, bool) {
    let variables = container["env"].as_array().unwrap().iter();
    let told = variables.filter_map(|variable| {
        let name = variable["name"].as_str().unwrap().strip_prefix("FAMULUS_RUNNER_PACKAGES_")?;
        Some((name, variable["value"].as_str().unwrap()))
    });
    let mut mounts = container["volumeMounts"].as_array().unwrap().iter();
    (told.collect(), mounts.any(|mount| mount["name"] == "packages"))
}

fn all() -> (Vec<(&'static str, &'static str)>, bool) {
    let told = [
        ("PYTHON", "https://pypi.home.example/simple/"),
        ("NPM", "https://npm.home.example/"),
        ("CREDENTIALS", "/run/famulus/packages"),
    ];
    (told.into(), true)
}

fn nothing() -> (Vec<(&'static str, &'static str)>, bool) {
    (Vec::new(), false)
}

#[tokio::test]
async fn a_build_is_told_of_the_index_and_nobody_else() {
    let bench = Bench::with(&SETTINGS);
    bench.plugin(json!({}));
    bench.settle().await;
    let job = bench.cluster.get("jobs", &bench.job()).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(told(&pod["containers"][0]), all());
    for container in pod["initContainers"].as_array().unwrap() {
        assert_eq!(told(container), nothing(), "{container}");
    }
    let volumes = pod["volumes"].as_array().unwrap();
    let volume = volumes.iter().find(|volume| volume["name"] == "packages").unwrap();
    // The build says it if the Secret is not there; a Pod that waits for one says nothing.
    let secret = json!({"secretName": "mirror", "optional": true, "defaultMode": 0o440});
    assert_eq!(volume["secret"], secret);

    bench.build_ends(&revision('a'), &[]);
    bench.settle().await;
    let runner = &bench.runner()["template"]["spec"];
    assert_eq!(told(&runner["containers"][0]), nothing());
    assert!(!runner.to_string().contains("mirror"));
}

/// Without a volume that stays the runner is where the build runs; where it reaches no index, it is
/// given none.
#[tokio::test]
async fn a_runner_that_builds_is_told_of_an_index_that_it_reaches() {
    for (class, expected) in [("Internet", all()), ("None", nothing())] {
        let bench = Bench::with(&SETTINGS);
        bench.plugin(json!({"state": "Ephemeral", "egress": {"mode": class}}));
        bench.settle().await;
        bench.build_ends(&revision('a'), &[]);
        bench.settle().await;
        let runner = bench.runner();
        assert_eq!(told(&runner["template"]["spec"]["containers"][0]), expected, "{class}");
    }
}

#[tokio::test]
async fn without_an_index_nobody_is_told_of_one() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.settle().await;
    let job = bench.cluster.get("jobs", &bench.job()).unwrap();
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(told(&pod["containers"][0]), nothing());
    assert!(!pod["volumes"].to_string().contains("packages"));
}
