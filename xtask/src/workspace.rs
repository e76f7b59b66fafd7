//! Where the workspace is and what cargo knows about it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::{cargo, output_of};

/// The folder of the root manifest.
pub(crate) fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest)
}

/// The cache for fetched things, as the program itself finds it.
pub(crate) fn cache() -> PathBuf {
    famulus_local::cache::folder(|name| std::env::var_os(name))
}

/// `cargo metadata` of the members alone.
pub(crate) fn members() -> Result<Value> {
    metadata(&["--no-deps"])
}

/// `cargo metadata` of everything that is built on this machine.
pub(crate) fn all_packages() -> Result<Value> {
    metadata(&["--locked", "--filter-platform", &host()?])
}

fn metadata(args: &[&str]) -> Result<Value> {
    let mut command = cargo(["metadata", "--format-version", "1"]);
    let output = output_of(command.args(args))?;
    serde_json::from_slice(&output).context("cargo metadata is not JSON")
}

fn host() -> Result<String> {
    let text = String::from_utf8(output_of(std::process::Command::new("rustc").arg("-vV"))?)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not name its host")?.to_owned())
}
