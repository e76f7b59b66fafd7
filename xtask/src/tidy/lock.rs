//! Foreign crates that must not even be in the lock file.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Complaint;

/// Each with its reason.
const BANNED: [(&str, &str); 6] = [
    ("ring", "one TLS provider, aws-lc-rs: with two of them rustls panics at its first use"),
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("cron", "it fires on the wrong weekday and skips or doubles jobs at a clock change: croner"),
    ("serde_yaml", "unmaintained: serde-saphyr"),
    ("async-std", "one runtime: tokio"),
];

pub(super) fn check(workspace: &Path) -> Result<Vec<Complaint>> {
    let text =
        fs::read_to_string(workspace.join("Cargo.lock")).context("cannot read Cargo.lock")?;
    let lock: toml::Value = text.parse().context("Cargo.lock is not TOML")?;
    Ok(banned_in(&lock))
}

fn banned_in(lock: &toml::Value) -> Vec<Complaint> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let names: Vec<&str> = packages
        .into_iter()
        .flatten()
        .filter_map(|package| package.get("name")?.as_str())
        .collect();
    let found = BANNED.iter().filter(|(name, _)| names.contains(name));
    found.map(|(name, why)| format!("Cargo.lock: {name} is banned: {why}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_crates_are_named_with_their_reason() {
        let lock = "[[package]]\nname = \"serde\"\n[[package]]\nname = \"ring\"\n".parse().unwrap();
        let complaints = banned_in(&lock);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("Cargo.lock: ring is banned: one TLS provider"));
    }
}
