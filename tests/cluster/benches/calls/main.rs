//! What a call of a plugin costs on a real node, beside a bare spawn of the same program in the same
//! run. Not a test: it prints a table and judges nothing. `cargo xtask cluster bench calls` runs it.
//!
//! Each figure is the median of five rounds, in each of which the spawns come first; its range is
//! that of the rounds.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench tells people"
)]
#![expect(clippy::disallowed_methods, reason = "the environment says which cluster it is")]

mod way;

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::future::join_all;
use jiff::Timestamp;
use serde_json::{Value, json};

use famulus_cluster_tests::figures::{self, percentile};
use famulus_cluster_tests::host::of_pod;
use famulus_cluster_tests::kubectl::{LONG, kubectl, objects, until};
use famulus_cluster_tests::release::{Release, inline};

use way::{Counted, Ways};

const ROUNDS: usize = 5;
const WARM: usize = 200;
const COLD: usize = 5;
const AT_ONCE: usize = 50;
/// A call from zero that took longer is told with what its Pod went through.
const ODD: Duration = Duration::from_secs(6);

/// Says when its first line ran.
const SCRIPT: &str =
    "#!/bin/bash\nat=$EPOCHREALTIME\ncat > /dev/null\necho \"{\\\"at\\\": \\\"$at\\\"}\"\n";

#[tokio::main]
async fn main() {
    let mut release = Release::open().await;
    release.directly().await;
    let kinds = [
        ("Persistent", "bench-persistent", ""),
        ("Ephemeral", "bench-ephemeral", "  state: Ephemeral\n"),
        ("gVisor", "bench-gvisor", "  runner: {runtimeClassName: gvisor}\n"),
    ];
    for (kind, plugin, more) in kinds {
        let mut times = Vec::new();
        for _ in 0..ROUNDS {
            let begun = Instant::now();
            release.apply(&manifest(plugin, more)).await;
            release.condition(plugin, "Ready=True").await;
            times.push(begun.elapsed());
            if times.len() < ROUNDS {
                release.delete(&[plugin]).await;
            }
        }
        told(&format!("{kind}: apply to Ready, the build included"), &mut [times]);
    }
    for (kind, plugin, _) in kinds {
        warm(&release, kind, plugin).await;
        waits(&release, kind, plugin).await;
        cold(&release, kind, plugin).await;
    }
    release.delete(&kinds.map(|(_, plugin, _)| plugin)).await;
}

/// Calls one after another, and many at once, of a runner that is there.
async fn warm(release: &Release, kind: &str, plugin: &str) {
    call(release, plugin).await;
    let (mut spawns, mut starts, mut whole) = (Vec::new(), Vec::new(), Vec::new());
    let mut at_once = Vec::new();
    let (before, mut parts) = (writes(), Vec::new());
    for _ in 0..ROUNDS {
        // One token may ask only so often in the long run.
        tokio::time::sleep(Duration::from_secs(4)).await;
        spawns.push((0..WARM).map(|_| spawn()).collect());
        let (mut start, mut end) = (Vec::new(), Vec::new());
        let counted = Counted::now(release).await;
        for _ in 0..WARM {
            let (started, ended) = call(release, plugin).await;
            start.push(started);
            end.push(ended);
        }
        parts.push(Counted::now(release).await.told_since(&counted));
        starts.push(start);
        whole.push(end);
        let calls = join_all((0..AT_ONCE).map(|_| call(release, plugin))).await;
        at_once.push(calls.into_iter().map(|(_, ended)| ended).collect());
    }
    let calls = ROUNDS * (WARM + AT_ONCE);
    told("bare spawn of the same script on the host", &mut spawns);
    told(&format!("{kind}: warm call, sent until its first line"), &mut starts);
    told(&format!("{kind}: warm call, whole"), &mut whole);
    told(&format!("{kind}: {AT_ONCE} calls at once of a concurrent tool, each"), &mut at_once);
    println!("{kind}, a warm call by its parts, means of each round:\n{}", parts.join("\n"));
    println!("| {kind}: API writes of the app in {calls} warm calls | {} |", writes() - before);
}

/// What all processes of its Pod share of memory while nobody calls it; the pause container is one of them.
async fn waits(release: &Release, kind: &str, plugin: &str) {
    tokio::time::sleep(Duration::from_secs(2)).await;
    let pods = objects(&release.sandbox, "pods", &runner_of(plugin)).await;
    let mut kib = 0;
    for pid in of_pod(&pods[0]) {
        let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        kib += line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap();
    }
    println!("| {kind}: memory of a runner that waits | {:.1} MiB |", kib as f64 / 1024.0);
}

async fn cold(release: &Release, kind: &str, plugin: &str) {
    let (mut rounds, mut ways) = (Vec::new(), Ways::default());
    for _ in 0..ROUNDS {
        let mut times = Vec::new();
        for _ in 0..COLD {
            to_zero(release, plugin).await;
            let (counted, sent) = (Counted::now(release).await, now());
            let took = call(release, plugin).await.1;
            let ended = now();
            let [found, ..] = Counted::now(release).await.since(&counted);
            let way = ways.add(plugin, sent, found, ended);
            if took > ODD {
                eprintln!("{way}");
                tell_of(release, plugin, took).await;
            }
            times.push(took);
        }
        rounds.push(times);
    }
    told(&format!("{kind}: call from zero, whole"), &mut rounds);
    println!("{kind}, a call from zero by its way, medians:\n{}", ways.told());
}

fn manifest(plugin: &str, more: &str) -> String {
    let runner = if more.contains("runner: {") {
        more.replace("runner: {", "runner: {idleSeconds: 3600, ")
    } else {
        format!("{more}  runner: {{idleSeconds: 3600}}\n")
    };
    inline(plugin, "try", SCRIPT, &runner)
        .replace("\\\"entrypoint\\\":", "\\\"concurrent\\\":true,\\\"entrypoint\\\":")
}

/// Runs the tool by hand: the time until its first line ran, and until its result was there.
async fn call(release: &Release, plugin: &str) -> (Duration, Duration) {
    let (sent, begun) = (SystemTime::now(), Instant::now());
    let lines = release.run(plugin, "try", &json!({})).await;
    let ended = begun.elapsed();
    // It stands in a text of the answer.
    let at = lines.split("at\\\"").nth(1).unwrap_or_else(|| panic!("{lines}"));
    let at: String = at
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| *c == '.' || c.is_ascii_digit())
        .collect();
    let at = Duration::from_secs_f64(at.parse().unwrap());
    (at.saturating_sub(sent.duration_since(UNIX_EPOCH).unwrap()), ended)
}

/// Ends the runner as the idle timer would, and waits until it is gone.
async fn to_zero(release: &Release, plugin: &str) {
    kubectl(&["-n", &release.sandbox, "scale", "plugin", plugin, "--replicas=0"]).await;
    until("the runner has ended", LONG, async || {
        let pods = objects(&release.sandbox, "pods", &runner_of(plugin)).await;
        if pods.is_empty() { Ok(()) } else { Err(format!("{} Pods", pods.len())) }
    })
    .await;
    // Nobody asks for a runner again within five seconds, unless the app itself let it end.
    tokio::time::sleep(Duration::from_secs(4)).await;
}

/// When its Pod became what, and what was said of it.
async fn tell_of(release: &Release, plugin: &str, took: Duration) {
    eprintln!("{plugin}: a call from zero took {took:?}, until {}", now());
    for pod in objects(&release.sandbox, "pods", &runner_of(plugin)).await {
        eprintln!("made {}: {}", pod["metadata"]["creationTimestamp"], pod["status"]);
    }
    let sandbox = &release.sandbox;
    eprintln!("{}", kubectl(&["-n", sandbox, "get", "events", "--sort-by=.lastTimestamp"]).await);
}

fn now() -> Timestamp {
    SystemTime::now().try_into().unwrap()
}

fn runner_of(plugin: &str) -> String {
    format!("famulus.dev/plugin={plugin},famulus.dev/part=runner")
}

/// What a call costs without anything around it.
fn spawn() -> Duration {
    let begun = Instant::now();
    let mut child = Command::new("bash")
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
    let log = fs::read_to_string(node.join("audit.log")).unwrap();
    let entries = log.lines().filter(|line| line.contains("famulus:famulus-app"));
    let entries = entries.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let is_write = |entry: &Value| {
        ["create", "update", "patch", "delete"].iter().any(|verb| entry["verb"] == *verb)
    };
    entries.filter(is_write).count()
}

/// The median over the rounds of their p50 and of their p99, each with its range.
fn told(what: &str, rounds: &mut [Vec<Duration>]) {
    let mut of = |part: f64| {
        figures::told(
            rounds.iter_mut().map(|it| percentile(it, part).as_secs_f64() * 1e3).collect(),
        )
    };
    let (half, nearly) = (of(0.5), of(0.99));
    let count: usize = rounds.iter().map(Vec::len).sum();
    println!("| {what} | {half} ms | {nearly} ms | {count} |");
}
