//! What an uninstall leaves, what is found again when Famulus is installed over it, and how the rest
//! is removed. It needs a node of `cargo xtask cluster` that is given up afterwards.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod left;

use std::fs;

use serde_json::Value;

use famulus_cluster_tests::beside::node;
use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::kubectl::{kubectl, object};
use famulus_cluster_tests::release::{Release, inline, name};

use left::Left;

const PLUGIN: &str = "keeper";

/// Counts its calls on its volume.
const COUNT: &str = "#!/bin/sh\necho >>../calls\nprintf '{\"calls\": %d}\\n' $(wc -l <../calls)\n";

const FACT: &str = "my ship is called Argo";

#[tokio::test]
async fn an_uninstall_leaves_what_cannot_be_had_again_and_an_install_finds_it() {
    let release = Release::open().await;
    release.apply(&inline(PLUGIN, "count", COUNT, "")).await;
    release.condition(PLUGIN, "Ready=True").await;
    release.chat(&format!("remember that {FACT}")).await;
    let called = calls(&release).await;
    let before = object(&release.sandbox, "plugin", PLUGIN).await.unwrap();
    let plugins = kubectl(&["-n", &release.sandbox, "get", "plugins", "-o", "name"]).await;
    drop(release);

    uninstall().await;
    let left = Left::find().await;
    left.is_data_alone(plugins.lines().count());

    let builds = builds();
    install().await;
    let release = Release::open().await;
    let ready = release.condition(PLUGIN, "Ready=True").await;
    assert_eq!(ready["status"]["revision"], before["status"]["revision"]);
    assert_eq!(calls(&release).await, called + 1, "its volume is the one of before");
    let reply = release.chat("what is my ship called?").await;
    assert!(reply.contains(FACT), "{reply}");
    assert_eq!(self::builds(), builds, "nothing was built again");
    drop(release);

    uninstall().await;
    for command in commands() {
        kubectl(&command.iter().map(String::as_str).collect::<Vec<_>>()).await;
    }
    Left::find().await.is_nothing();
}

/// Calls the plugin, which says how often that was.
async fn calls(release: &Release) -> u64 {
    let told = release.told(&format!("run count of {PLUGIN}")).await;
    told["calls"].as_u64().unwrap_or_else(|| panic!("{told}"))
}

async fn uninstall() {
    helm(&["uninstall", &name(), "--wait", "--timeout", "10m"]).await;
}

async fn install() {
    helm(&["install", &name(), CHART, "-f", VALUES, "--wait", "--timeout", "5m"]).await;
}

/// How many Jobs the API server was asked to make for Plugins.
fn builds() -> usize {
    let log = fs::read_to_string(node().join("audit.log")).unwrap();
    let is_build = |line: &&str| {
        let event: Value = serde_json::from_str(line).unwrap_or_default();
        let of = &event["objectRef"];
        of["resource"] == "jobs"
            && of["namespace"].as_str().is_some_and(|it| it.ends_with("-sandbox"))
            && ["create", "patch"].iter().any(|verb| event["verb"] == *verb)
    };
    log.lines().filter(is_build).count()
}

/// The words of the commands by which docs/OPERATIONS.md removes what stays.
fn commands() -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/OPERATIONS.md");
    let text = fs::read_to_string(path).unwrap();
    let (_, section) = text.split_once("\n## Uninstall\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|'));
    let commands = rows.filter_map(|row| row.split("`kubectl ").nth(1)?.split('`').next());
    let words = |command: &str| command.split(' ').map(str::to_owned).collect();
    let commands: Vec<Vec<String>> = commands.map(words).collect();
    assert_eq!(commands.len(), 5, "{commands:?}");
    commands
}
