//! Where builds have packages and private repositories from.

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

/// Whether a container is told of the credentials for private repositories, and what it mounts for them.
fn lent(container: &Value) -> (bool, Vec<&str>) {
    let mut variables = container["env"].as_array().unwrap().iter();
    let told = variables.any(|it| it["name"] == "FAMULUS_RUNNER_REPOSITORIES_CREDENTIALS");
    let mounts = container["volumeMounts"].as_array().unwrap().iter();
    let paths = mounts.map(|mount| mount["mountPath"].as_str().unwrap());
    let own = |path: &&str| path.ends_with("/repositories") || path.ends_with("/passwd");
    (told, paths.filter(own).collect())
}

/// No code of the plugin runs where they are, and what was written in the resource is fetched from nowhere.
#[tokio::test]
async fn the_bundling_alone_is_lent_the_credentials_for_repositories() {
    let git = json!({"git": {"url": "git@example.org:ada/weather.git", "ref": "main"}});
    let written = json!({"inline": {"files": [{"path": "manifest.json", "content": "{}"}]}});
    for (source, is_lent) in [(git, true), (written, false)] {
        let bench = Bench::with(&[("REPOSITORIES_SECRET", "deploy")]);
        bench.plugin(json!({ "source": source }));
        bench.settle().await;
        let job = bench.cluster.get("jobs", &bench.job()).unwrap();
        let pod = &job["spec"]["template"]["spec"];
        let volumes = pod["volumes"].as_array().unwrap();
        let volume = volumes.iter().find(|volume| volume["name"] == "repositories");
        // The bundling says it if the Secret is not there; a Pod that waits for one says nothing.
        let secret = json!({"secretName": "deploy", "optional": true, "defaultMode": 0o440});
        assert_eq!(volume.map(|it| &it["secret"]), is_lent.then_some(&secret), "{volumes:?}");
        let first = pod["initContainers"].as_array().unwrap();
        for container in first.iter().chain(pod["containers"].as_array().unwrap()) {
            let expected = match container["name"].as_str().unwrap() {
                "bundle" if is_lent => (true, vec!["/run/famulus/repositories", "/etc/passwd"]),
                "build" => (false, vec!["/etc/passwd"]),
                _ => (false, Vec::new()),
            };
            assert_eq!(lent(container), expected, "{container}");
        }
        bench.build_ends(&revision('a'), &[]);
        bench.settle().await;
        assert!(!bench.runner().to_string().contains("deploy"));
    }
}
