//! helm, as an owner uses it.

use std::env;
use std::process::Stdio;

use tokio::process::Command;

/// What it says; it must succeed.
pub async fn helm(args: &[&str]) -> String {
    let program = env::var("FAMULUS_TEST_HELM").unwrap_or_else(|_| "helm".to_owned());
    let mut command = Command::new(program);
    let output = command.args(args).stdin(Stdio::null()).output().await.unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "helm {args:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}
