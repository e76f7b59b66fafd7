//! helm, as an owner uses it, on the release that is tested.

use std::env;
use std::process::Stdio;

use tokio::process::Command;

use crate::release::name;

/// The chart of this tree.
pub const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../charts/famulus");

/// What the tests install it with: two files.
pub const VALUES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../config/trial.yaml,",
    env!("CARGO_MANIFEST_DIR"),
    "/values.yaml"
);

/// `helm WORDS`, which must succeed; words that name no namespace are about that of the release.
/// Returns what it prints.
pub async fn helm(words: &[&str]) -> String {
    let program = env::var("FAMULUS_TEST_HELM").unwrap_or_else(|_| "helm".to_owned());
    let mut command = Command::new(program);
    command.args(words);
    if !words.contains(&"-n") {
        command.args(["-n", &name()]);
    }
    let output = command.stdin(Stdio::null()).output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {words:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// Upgrades the release to the chart of this tree with these values beside those it has, and waits
/// until all of it is ready.
pub async fn upgrade(values: &[&str]) {
    let name = name();
    let mut words = vec!["upgrade", &name, CHART, "--reuse-values", "--wait", "--timeout", "5m"];
    words.extend(values);
    helm(&words).await;
}
