//! From a node with images and nothing of ours to the first reply, and to the first call of a
//! plugin, stage by stage. Not a test: it prints a table and judges nothing.
//!
//! It is run by `cargo xtask cluster bench first`, on a node where the release was installed once:
//! each run removes the release with all that it kept, and installs it anew.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench tells people")]

use std::time::{Duration, Instant};

use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::kubectl::{kubectl, ready_pod, tried};
use famulus_cluster_tests::release::{Release, name};

const RUNS: usize = 5;

const STAGES: [&str; 6] = [
    "helm install has returned",
    "Postgres is ready",
    "the app is ready",
    "first reply",
    "a Plugin that was applied then is Ready",
    "first reply with its tool's result, from zero",
];

#[tokio::main]
async fn main() {
    let mut runs: Vec<[Duration; STAGES.len()]> = Vec::new();
    for _ in 0..RUNS {
        remove().await;
        runs.push(measured().await);
    }
    for (at, stage) in STAGES.iter().enumerate() {
        let mut times: Vec<Duration> = runs.iter().map(|run| run[at]).collect();
        times.sort_unstable();
        let [least, median, most] =
            [0, times.len() / 2, times.len() - 1].map(|place| times[place].as_secs_f64());
        println!("| {stage} | {median:.1} s | {least:.1} to {most:.1} s, n={RUNS} |");
    }
}

async fn measured() -> [Duration; STAGES.len()] {
    let begun = Instant::now();
    let mut times = Vec::new();
    helm(&["install", &name(), CHART, "-f", VALUES, "--create-namespace"]).await;
    times.push(begun.elapsed());
    for part in ["postgres", "app"] {
        ready_pod(&name(), &format!("app.kubernetes.io/component={part}")).await;
        times.push(begun.elapsed());
    }
    let mut release = Release::open().await;
    release.directly().await;
    let reply = release.chat("What time is it?").await;
    assert!(reply.contains("It is"), "{reply}");
    times.push(begun.elapsed());
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples/plugin-inline.yaml");
    release.apply(&std::fs::read_to_string(sample).unwrap()).await;
    release.condition("dice", "Ready=True").await;
    times.push(begun.elapsed());
    let reply = release.chat("Throw the die.").await;
    assert!(reply.contains("\"thrown\""), "{reply}");
    times.push(begun.elapsed());
    times.try_into().unwrap()
}

/// Takes away the release and all that it keeps, its definitions aside.
async fn remove() {
    let sandbox = format!("{}-sandbox", name());
    let _none = tried(&["-n", &sandbox, "delete", "plugins", "--all", "--wait"]).await;
    helm(&["uninstall", &name(), "--wait", "--ignore-not-found"]).await;
    for namespace in [&sandbox, &name()] {
        kubectl(&["delete", "namespace", namespace, "--ignore-not-found", "--wait"]).await;
    }
}
