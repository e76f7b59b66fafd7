//! Where the workspace is and what cargo knows about it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::shell::{cargo, output_of};

/// The folder of the root manifest, two above the one of this crate.
pub fn root() -> &'static Path {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest)
}

/// The cache for fetched things, as the program itself finds it.
pub fn cache() -> PathBuf {
    famulus_local::cache::folder(|name| std::env::var_os(name))
}

/// The features with which everything is tested and looked at: one set, so that nothing is built twice.
pub const FEATURES: &str =
    "famulus-cluster-tests/installed,famulus-cluster/node,famulus-server/harness";

/// `cargo metadata` of the members alone.
pub fn members() -> Result<Value> {
    let output = output_of(&mut cargo(["metadata", "--format-version", "1", "--no-deps"]))?;
    serde_json::from_slice(&output).context("cargo metadata is not JSON")
}
