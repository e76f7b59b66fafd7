//! What a call of a plugin costs on a real node, beside a bare spawn of the same program in the same
//! run. Not a test: it prints a table and judges nothing.
//!
//! ```text
//! cargo xtask cluster suite --keep --name bench --test cluster wrong_spec
//! cargo xtask cluster enter --name bench -- env FAMULUS_TEST_KUBECTL=…/kubectl FAMULUS_TEST_NODE=… \
//!     cargo bench -p famulus-cluster-tests --bench calls
//! ```

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a bench tells people")]
#![expect(clippy::disallowed_methods, reason = "the environment says which cluster it is")]

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::json;

use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, until};
use famulus_cluster_tests::release::{Release, inline};

const WARM: usize = 200;
const COLD: usize = 7;
const SCRIPT: &str = "#!/bin/sh\ncat > /dev/null\necho '{\"done\": true}'\n";

#[tokio::main]
async fn main() {
    let mut release = Release::open().await;
    release.directly().await;
    let begun = Instant::now();
    release.apply(&inline("bench", "try", SCRIPT, "  runner: {idleSeconds: 600}\n")).await;
    release.condition("bench", "Ready=True").await;
    told("apply to Ready, the build included", &mut [begun.elapsed()]);

    told("bare spawn on the host", &mut (0..WARM).map(|_| spawn()).collect::<Vec<_>>());
    let begun = Instant::now();
    run(&release, "bench", "try").await;
    told("first call, from zero", &mut [begun.elapsed()]);

    let before = writes();
    let mut warm = Vec::new();
    for _ in 0..WARM {
        let begun = Instant::now();
        run(&release, "bench", "try").await;
        warm.push(begun.elapsed());
    }
    let written = writes() - before;
    told("warm call, whole", &mut warm);
    println!("| API writes of the app in {WARM} warm calls | {written} | |");

    let mut cold = Vec::new();
    for _ in 0..COLD {
        to_zero(&release).await;
        let begun = Instant::now();
        run(&release, "bench", "try").await;
        cold.push(begun.elapsed());
    }
    told("call from zero, whole", &mut cold);
    release.delete(&["bench"]).await;
}

/// Runs a tool by hand, and waits for its end.
async fn run(release: &Release, plugin: &str, tool: &str) {
    let lines = release.run(plugin, tool, &json!({})).await;
    assert!(lines.contains("done"), "{lines}");
}

/// Ends the runner as the idle timer would, and waits until it is gone.
async fn to_zero(release: &Release) {
    kubectl(&["-n", &release.sandbox, "scale", "plugin", "bench", "--replicas=0"]).await;
    until("the runner has ended", LONG, async || {
        let selector = "famulus.dev/plugin=bench,famulus.dev/part=runner";
        let pods = objects(&release.sandbox, "pods", selector).await;
        if pods.is_empty() { Ok(()) } else { Err(format!("{} Pods", pods.len())) }
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
}

/// What a call costs without anything around it.
fn spawn() -> Duration {
    let begun = Instant::now();
    let mut child = Command::new("sh")
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(json!({}).to_string().as_bytes()).unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    begun.elapsed()
}

/// Requests of the app that change something, by the audit log.
fn writes() -> usize {
    let node = PathBuf::from(std::env::var("FAMULUS_TEST_NODE").unwrap());
    let log = std::fs::read_to_string(node.join("audit.log")).unwrap();
    let is_write = |line: &&str| {
        line.contains("system:serviceaccount:famulus:famulus-app")
            && ["create", "update", "patch", "delete"]
                .iter()
                .any(|verb| line.contains(&format!("\"verb\":\"{verb}\"")))
    };
    log.lines().filter(is_write).count()
}

fn told(what: &str, times: &mut [Duration]) {
    times.sort_unstable();
    let at = |part: f64| {
        let place = ((times.len() - 1) as f64 * part).round() as usize;
        times[place].as_secs_f64() * 1000.0
    };
    println!("| {what} | p50 {:.2} ms | p99 {:.2} ms, n={} |", at(0.5), at(0.99), times.len());
}
