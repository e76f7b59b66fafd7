//! The members of the workspace: their manifests and the first words of their roots.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use super::Complaint;

/// What tidy knows of a crate of ours.
#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) name: String,
    /// Ordinary and build dependencies, by the name of the package.
    pub(super) normal: BTreeSet<String>,
    pub(super) manifest: PathBuf,
    /// The root files of its libraries and programs.
    pub(super) roots: Vec<PathBuf>,
}

pub(super) fn members(metadata: &Value) -> Result<Vec<Member>> {
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(member).collect()
}

fn member(package: &Value) -> Result<Member> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = |key: &str| package[key].as_array().map_or(&[][..], Vec::as_slice);
    let is_root = |target: &&Value| {
        let kinds = target["kind"].as_array().map_or(&[][..], Vec::as_slice);
        kinds.iter().any(|kind| ["lib", "bin", "proc-macro"].contains(&kind.as_str().unwrap_or("")))
    };
    let roots = list("targets").iter().filter(is_root);
    let normal = list("dependencies").iter().filter(|dependency| dependency["kind"] != "dev");
    let fakes = only_fake(&package["features"]);
    let normal = normal.filter_map(|dependency| text(&dependency["name"]));
    Ok(Member {
        name: text(&package["name"]).context("a package has no name")?,
        normal: normal.filter(|name| !fakes.contains(name)).collect(),
        manifest: text(&package["manifest_path"]).context("a package has no manifest")?.into(),
        roots: roots.filter_map(|target| text(&target["src_path"])).map(PathBuf::from).collect(),
    })
}

/// Optional dependencies that nothing but the feature `fake` turns on: parts of a test.
fn only_fake(features: &Value) -> BTreeSet<String> {
    let turned_on = |is_fake: bool| {
        let features = features.as_object().into_iter().flatten();
        let wanted = features.filter(move |(name, _)| (name.as_str() == "fake") == is_fake);
        let parts = wanted.flat_map(|(_, parts)| parts.as_array().into_iter().flatten());
        let named = parts.filter_map(|part| part.as_str()?.strip_prefix("dep:").map(str::to_owned));
        named.collect::<BTreeSet<String>>()
    };
    &turned_on(true) - &turned_on(false)
}

pub(super) fn check(members: &[Member], workspace: &Path) -> Result<Vec<Complaint>> {
    let table = read(&workspace.join("Cargo.toml"))?;
    let table = table["workspace"]["dependencies"].as_table().cloned().unwrap_or_default();
    let mut unused: BTreeSet<String> = table.keys().cloned().collect();
    let mut complaints = Vec::new();
    for member in members {
        let manifest = read(&member.manifest)?;
        for (name, dependency) in dependencies(&manifest) {
            unused.remove(name);
            if dependency.get("workspace").and_then(toml::Value::as_bool) != Some(true) {
                complaints.push(format!(
                    "{}: {name} must come from the workspace table (`{name}.workspace = true`)",
                    member.name
                ));
            }
        }
        if manifest.get("lints").and_then(|lints| lints.get("workspace")).is_none() {
            complaints.push(format!("{}: must take the workspace's lints", member.name));
        }
        for root in &member.roots {
            if !fs::read_to_string(root)?.starts_with("//!") {
                let path = root.strip_prefix(workspace).unwrap_or(root).display();
                complaints
                    .push(format!("{path}: must begin with a module doc (`//!`): what it is for"));
            }
        }
    }
    // The table names every crate of ours; whether it is used is the business of the edges.
    unused.retain(|name| !members.iter().any(|member| member.name == *name));
    complaints.extend(
        unused
            .iter()
            .map(|name| format!("Cargo.toml: nobody uses {name}; remove it from the table")),
    );
    Ok(complaints)
}

/// All dependency tables of a manifest, those for tests and for single platforms included.
fn dependencies(manifest: &toml::Value) -> impl Iterator<Item = (&String, &toml::Value)> {
    const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];
    let platforms = manifest.get("target").and_then(toml::Value::as_table);
    let platforms = platforms.into_iter().flat_map(|table| table.values());
    let places = std::iter::once(manifest).chain(platforms);
    let tables = places.flat_map(|place| TABLES.iter().filter_map(|name| place.get(name)));
    tables.filter_map(toml::Value::as_table).flatten()
}

pub(super) fn read(path: &Path) -> Result<toml::Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    toml::from_str(&text).with_context(|| format!("{} is not TOML", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_the_fake_feature_turns_on_is_no_ordinary_dependency() {
        let package = serde_json::json!({
            "name": "ours",
            "manifest_path": "/ours/Cargo.toml",
            "targets": [],
            "dependencies": [
                {"name": "axum", "kind": null},
                {"name": "base64", "kind": null},
                {"name": "serde", "kind": null},
                {"name": "proptest", "kind": "dev"},
            ],
            "features": {"fake": ["dep:axum", "dep:base64"], "extra": ["dep:base64"]},
        });
        let normal: Vec<String> = member(&package).unwrap().normal.into_iter().collect();
        assert_eq!(normal, ["base64", "serde"]);
    }

    #[test]
    fn every_rule_of_a_manifest_has_its_complaint() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(folder.path().join(name), text).unwrap();
            folder.path().join(name)
        };
        write("Cargo.toml", "[workspace.dependencies]\nserde = \"1\"\nurl = \"2\"\nours = {}\n");
        let manifest = write(
            "member.toml",
            "[dependencies]\nserde.workspace = true\n[target.x.dev-dependencies]\nrand = \"1\"\n",
        );
        let root = write("lib.rs", "mod a;\n");
        let ours =
            Member { name: "ours".to_owned(), manifest, roots: vec![root], ..Member::default() };
        let complaints = check(&[ours], folder.path()).unwrap();
        assert_eq!(complaints.len(), 4, "{complaints:?}");
        assert!(complaints[0].contains("rand must come from the workspace table"));
        assert!(complaints[1].contains("must take the workspace's lints"));
        assert!(complaints[2].contains("lib.rs: must begin with a module doc"));
        assert!(complaints[3].contains("nobody uses url"));
    }
}
