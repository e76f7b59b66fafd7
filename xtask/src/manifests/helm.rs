//! Helm, as far as it needs no cluster.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::workspace::{cache, root};

pub(super) struct Helm {
    program: PathBuf,
}

impl Helm {
    /// The program that `HELM` names, else the one that was built for the test cluster, else the
    /// machine's.
    pub(super) fn find() -> Result<Self> {
        let named = std::env::var_os("HELM").map(PathBuf::from);
        let built = || built(&cache().join("cluster-programs"));
        let Some(program) = named.or_else(built).or_else(|| on_path("helm")) else {
            bail!("helm is missing; build it with `cargo xtask cluster build`, or set HELM to one");
        };
        Ok(Self { program })
    }

    /// The manifests of a release, in one text.
    pub(super) fn render(&self, release: &str, namespace: &str, args: &[&str]) -> Result<String> {
        let output = self
            .command(["template", release, "charts/famulus", "--namespace", namespace])
            .args(args)
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        if !output.status.success() {
            bail!("helm template: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        String::from_utf8(output.stdout).context("helm template writes no text")
    }

    fn command<const N: usize>(&self, args: [&str; N]) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(root()).args(args).stdin(Stdio::null());
        // What a person has set for a cluster of theirs is nothing to a test.
        let own = |name: &OsStr| name.to_string_lossy().starts_with("HELM_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| own(name)) {
            command.env_remove(name);
        }
        command
    }
}

/// The last one that was built.
fn built(programs: &Path) -> Option<PathBuf> {
    let folders = fs::read_dir(programs).ok()?.flatten().map(|entry| entry.path());
    let helms = folders
        .filter(|folder| {
            folder.file_name().is_some_and(|n| n.to_string_lossy().starts_with("helm-"))
        })
        .map(|folder| folder.join("helm"));
    let age = |program: &PathBuf| fs::metadata(program).and_then(|meta| meta.modified()).ok();
    helms.filter(|program| program.exists()).max_by_key(age)
}

fn on_path(name: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|path| path.exists())
}
