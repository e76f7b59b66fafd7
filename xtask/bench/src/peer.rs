//! The peer: graphile-worker in the pinned versions of `xtask/bench/package-lock.json`, kept in the
//! cache under the checksum of that file.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use xtask_shell::workspace::{cache, root};
use xtask_shell::{Shell, digest, output_of};

/// The oldest Node.js that the pinned versions are known to work with.
const NODE: u32 = 20;

/// The script and what npm needs.
const FILES: [&str; 3] = ["package.json", "package-lock.json", "peer.mjs"];

/// The installed peer, or why there is none.
pub(super) struct Peer {
    folder: Option<PathBuf>,
    /// For the list of what was measured with what, unless it has no part in it.
    pub(super) described: Option<String>,
}

impl Peer {
    /// Installs the peer if it is not in the cache. Without Node.js the benchmark goes on without
    /// it, and says so.
    pub(super) async fn obtain(shell: &mut Shell) -> Result<Self> {
        let Some(node) = node() else {
            let described = format!(
                "not run: Node.js {NODE} or newer with npm is missing (on Debian: \
                 apt-get install nodejs npm)"
            );
            eprintln!("the peer is {described}");
            return Ok(Self { folder: None, described: Some(described) });
        };
        let source = root().join("xtask/bench");
        let lock = fs::read(source.join("package-lock.json"))?;
        let folder = cache().join(format!("bench-peer-{}", &digest::sha256(&lock)[..8]));
        if !folder.is_dir() {
            install(shell, &source, &folder).await?;
        }
        // The script is not pinned: it is part of this tree.
        fs::copy(source.join("peer.mjs"), folder.join("peer.mjs"))?;
        let described = format!("graphile-worker {} on Node.js {node}", version(&folder)?);
        Ok(Self { folder: Some(folder), described: Some(described) })
    }

    /// For a benchmark that it has no part in.
    pub(super) fn aside() -> Self {
        Self { folder: None, described: None }
    }

    pub(super) fn command(&self) -> Option<Command> {
        let mut command = Command::new("node");
        command.arg(self.folder.as_ref()?.join("peer.mjs"));
        Some(command)
    }
}

/// The version of Node.js, if it is new enough and npm is there.
fn node() -> Option<String> {
    output_of(Command::new("npm").arg("--version")).ok()?;
    let version = output_of(Command::new("node").arg("--version")).ok()?;
    let version = String::from_utf8(version).ok()?.trim().trim_start_matches('v').to_owned();
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major >= NODE).then_some(version)
}

/// Appears under its name only when it is complete.
async fn install(shell: &mut Shell, source: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(cache())?;
    let work = tempfile::Builder::new().prefix(".fetching-").tempdir_in(cache())?;
    for file in FILES {
        fs::copy(source.join(file), work.path().join(file))?;
    }
    let mut npm = Command::new("npm");
    npm.current_dir(work.path())
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache"])
        .arg(cache().join("npm"));
    shell.run(npm).await.context("cannot fetch the peer; is there a way to the npm registry?")?;
    fs::rename(work.keep(), folder).context("cannot put the peer in its place")
}

fn version(folder: &Path) -> Result<String> {
    let manifest = folder.join("node_modules/graphile-worker/package.json");
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(&manifest)?)?;
    Ok(manifest["version"].as_str().unwrap_or("of an unknown version").to_owned())
}
