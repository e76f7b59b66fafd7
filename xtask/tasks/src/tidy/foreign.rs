//! The foreign crates that are really built, tests included, and those that must not be; and where
//! foreign crates come from.
//!
//! What is built is asked of `cargo tree`: the lock file, and `cargo metadata` with it, also list
//! optional crates that nothing turns on. Where they come from is asked of the lock file.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use xtask_shell::{cargo, output_of};

use super::Complaint;
use super::manifests::Member;

/// Each with its reason. The same list is in `deny.toml`.
const BANNED: [(&str, &str); 6] = [
    ("ring", "one TLS provider, aws-lc-rs: with two of them rustls panics at its first use"),
    ("openssl-sys", "TLS is rustls"),
    ("native-tls", "TLS is rustls"),
    ("cron", "it fires on the wrong weekday and skips or doubles jobs at a clock change: croner"),
    ("serde_yaml", "unmaintained: serde-saphyr"),
    ("async-std", "one runtime: tokio"),
];

/// A crate that is built for this machine.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Foreign {
    /// Name and version.
    pub(super) package: String,
    /// An SPDX expression, or nothing.
    pub(super) licence: String,
}

pub(super) fn built() -> Result<BTreeSet<Foreign>> {
    let mut tree = cargo(["tree", "--workspace", "--all-features", "--prefix", "none"]);
    let output = output_of(tree.args(["--format", "{p}|{l}"]))?;
    Ok(parse(&String::from_utf8(output).context("cargo tree is not text")?))
}

/// Lines such as `serde v1.0.0 (proc-macro)|MIT OR Apache-2.0 (*)`.
fn parse(tree: &str) -> BTreeSet<Foreign> {
    let foreign = |line: &str| {
        let (package, licence) = line.split_once('|')?;
        let package = package.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let licence = licence.trim_end_matches("(*)").trim().to_owned();
        Some(Foreign { package, licence })
    };
    tree.lines().filter_map(foreign).collect()
}

pub(super) fn check(built: &BTreeSet<Foreign>) -> Vec<Complaint> {
    let name_of = |foreign: &Foreign| foreign.package.split(' ').next().map(str::to_owned);
    let names: BTreeSet<String> = built.iter().filter_map(name_of).collect();
    let found = BANNED.iter().filter(|(name, _)| names.contains(*name));
    found.map(|(name, why)| format!("{name} is banned: {why}")).collect()
}

/// Every package of the lock file is a member or comes from the one registry.
pub(super) fn check_lock(lock: &toml::Value, members: &[Member]) -> Vec<Complaint> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let mut registries = BTreeSet::new();
    let mut complaints = Vec::new();
    for package in packages.into_iter().flatten() {
        let text = |key: &str| package.get(key).and_then(toml::Value::as_str);
        let name = text("name").unwrap_or_default();
        match text("source") {
            Some(source) if source.starts_with("registry+") => {
                registries.insert(source);
            }
            None if members.iter().any(|member| member.name == name) => {}
            source => {
                let source = source.unwrap_or("a folder that is no member");
                complaints.push(format!("{name} comes from {source}: take it from the registry"));
            }
        }
    }
    if registries.len() != 1 {
        complaints.push(format!(
            "Cargo.lock: dependencies come from one registry, not from {}: {registries:?}",
            registries.len()
        ));
    }
    complaints
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_crates_are_named_with_their_reason() {
        let built = parse(
            "famulus-core v0.1.0 (/here)|Apache-2.0\nserde v1.0.0|MIT OR Apache-2.0 (*)\n\
             ring v0.17.0|Apache-2.0 AND ISC\n\nserde v1.0.0|MIT OR Apache-2.0\n",
        );
        assert_eq!(built.len(), 3, "{built:?}");
        let complaints = check(&built);
        assert_eq!(complaints.len(), 1);
        assert!(complaints[0].starts_with("ring is banned: one TLS provider"));
    }

    #[test]
    fn a_crate_from_elsewhere_than_the_one_registry_is_a_complaint() {
        let ours = [Member { name: "ours".to_owned(), ..Member::default() }];
        let check = |packages: &[(&str, Option<&str>)]| {
            let line = |source: &str| format!("source = {source:?}\n");
            let package = |(name, source): &(&str, Option<&str>)| {
                format!("[[package]]\nname = {name:?}\n{}", source.map(line).unwrap_or_default())
            };
            let lock: String = packages.iter().map(package).collect();
            check_lock(&toml::from_str(&lock).unwrap(), &ours)
        };
        let good = [("ours", None), ("serde", Some("registry+one")), ("url", Some("registry+one"))];
        assert_eq!(check(&good), Vec::<Complaint>::new());

        let table = [
            (("url", Some("git+far#1")), "url comes from git+far#1: take it from the registry"),
            (("url", Some("sparse+far")), "url comes from sparse+far: take it from the registry"),
            (("url", None), "url comes from a folder that is no member: take it from the registry"),
            (
                ("url", Some("registry+two")),
                "Cargo.lock: dependencies come from one registry, not from 2: {\"registry+one\", \
                 \"registry+two\"}",
            ),
        ];
        for (package, complaint) in table {
            assert_eq!(check(&[good[0], good[1], package]), [complaint]);
        }
        assert_eq!(check(&[]), ["Cargo.lock: dependencies come from one registry, not from 0: {}"]);
    }
}
