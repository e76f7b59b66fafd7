//! What many Plugins cost the operator, on an API server where nobody else acts. Not a test: it
//! prints a table and judges nothing.
//!
//! ```text
//! an API server alone ─► the operator, with no Plugin ─► N Plugins, whose builds are played
//!      ─► all Ready ─► memory ─► ended and begun anew ─► killed and begun anew
//! ```
//!
//! What the operator reads and writes is counted from the server's audit log, by its account. It is
//! run by `cargo xtask cluster bench plugins`, which passes the number of Plugins.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a bench tells people, and ends when something is wrong"
)]
#![expect(clippy::disallowed_methods, reason = "the environment says where the server is")]

mod audit;
mod kubelet;
mod place;
mod process;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use famulus_crds::plugin::{ConditionStatus, Plugin};
use futures::{StreamExt, stream};
use kube::Client;
use kube::api::{Api, PostParams};
use serde_json::json;

use audit::Audit;
use process::Operator;

/// Plugins that are created at the same time.
const AT_A_TIME: usize = 16;

/// Nothing was written for as long as this: all is settled.
const QUIET: Duration = Duration::from_secs(8);

/// From then until what a burst left behind was given back: two looks of `give_back`.
const GIVEN_BACK: Duration = Duration::from_secs(12);

/// Plugins of which each is measured from its creation to its first child.
const LATE: usize = 50;

/// Between two of those.
const APART: Duration = Duration::from_millis(250);

fn given(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")).into()
}

#[tokio::main]
async fn main() {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1_000);
    let program = given("FAMULUS_BENCH_OPERATOR");
    let audit = Audit::of(given("FAMULUS_BENCH_AUDIT"));
    let client = Client::try_default().await.unwrap();
    place::prepare(&client).await;
    kubelet::play(&client);

    let mut operator = Operator::start(&program, &client).await;
    operator.until_works().await;
    let empty = settled(&audit, &operator).await;
    row("memory without a Plugin", &kib(empty));

    let begun = Instant::now();
    create(&client, 0..count).await;
    until_ready(&client, count).await;
    row(&format!("{count} Plugins created until all are Ready"), &seconds(begun.elapsed()));
    let full = settled(&audit, &operator).await;
    row("memory with them", &format!("{} ({} a Plugin)", kib(full), kib((full - empty) / count)));

    for number in count..count + LATE {
        create(&client, number..number + 1).await;
        tokio::time::sleep(APART).await;
    }
    until_ready(&client, count + LATE).await;
    audit.until_quiet(QUIET).await;
    let mut delays = audit.first_children(&(count..count + LATE).map(name).collect());
    delays.sort_unstable();
    row(
        "a Plugin's creation was answered until its first child was asked for",
        &format!("p50 {:.1} ms, n={}", delays[delays.len() / 2].as_secs_f64() * 1e3, delays.len()),
    );

    for how in ["ended", "killed"] {
        let before = audit.writes();
        let mark = Instant::now();
        operator = match how {
            "ended" => operator.end().await,
            _ => operator.kill().await,
        };
        operator.until_looked_at(count + LATE).await;
        let took = mark.elapsed();
        let memory = settled(&audit, &operator).await;
        let written = audit.writes() - before;
        let told = format!(
            "all looked at after {} ({} of it until it leads), {written} writes, {}",
            seconds(took),
            seconds(operator.led_after()),
            kib(memory)
        );
        row(&format!("{how} and begun anew"), &told);
    }
    operator.end_for_good().await;
}

/// Its memory once nothing happens any more.
async fn settled(audit: &Audit, operator: &Operator) -> usize {
    audit.until_quiet(QUIET).await;
    tokio::time::sleep(GIVEN_BACK).await;
    operator.memory()
}

fn name(number: usize) -> String {
    format!("p{number:05}")
}

async fn create(client: &Client, numbers: std::ops::Range<usize>) {
    let api: Api<Plugin> = Api::namespaced(client.clone(), place::SANDBOX);
    let created = stream::iter(numbers).map(|number| {
        let (api, name) = (api.clone(), name(number));
        async move {
            let manifest = json!({"name": name, "description": "Says what it is told."});
            let tool = json!({
                "name": "say", "description": "Says it.", "entrypoint": "run.sh",
                "parameters": {"text": {"type": "string", "description": "What to say."}},
            });
            let plugin = json!({
                "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin", "metadata": {"name": name},
                "spec": {
                    "name": name, "permissions": {"tools": ["*"]},
                    "source": {"inline": {"files": [
                        {"path": "manifest.json", "content": manifest.to_string()},
                        {"path": "say/manifest.json", "content": tool.to_string()},
                        {"path": "say/run.sh", "content": "#!/bin/sh\ncat\n"},
                    ]}},
                },
            });
            let plugin: Plugin = serde_json::from_value(plugin).unwrap();
            api.create(&PostParams::default(), &plugin).await.unwrap();
        }
    });
    created.buffer_unordered(AT_A_TIME).for_each(|()| async {}).await;
}

async fn until_ready(client: &Client, count: usize) {
    let api: Api<Plugin> = Api::namespaced(client.clone(), place::SANDBOX);
    loop {
        let plugins = place::all(&api).await;
        let is_ready = |plugin: &&Plugin| {
            let conditions = plugin.status.iter().flat_map(|status| &status.conditions);
            conditions
                .into_iter()
                .any(|one| one.kind == "Ready" && one.status == ConditionStatus::True)
        };
        let ready = plugins.iter().filter(is_ready).count();
        if ready >= count {
            return;
        }
        eprintln!("{ready} of {count} are Ready");
        tokio::time::sleep(Duration::from_millis(if count < 2_000 { 500 } else { 5_000 })).await;
    }
}

fn row(what: &str, figure: &str) {
    println!("| {what} | {figure} |");
}

fn kib(kib: usize) -> String {
    if kib < 10_240 { format!("{kib} KiB") } else { format!("{:.1} MiB", kib as f64 / 1024.0) }
}

fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}
