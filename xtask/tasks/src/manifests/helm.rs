//! Helm, as far as it needs no cluster.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use xtask_shell::workspace::root;

pub(super) struct Helm {
    pub(super) program: PathBuf,
}

impl Helm {
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
