//! `cargo xtask check`: what needs no database and under a minute when warm.

use anyhow::Result;
use std::path::Path;
use std::process::Command;

use crate::beside::Beside;
use crate::shell::{Shell, cargo};
use crate::tidy;

pub(crate) async fn run(shell: &mut Shell) -> Result<()> {
    format(shell).await?;
    tidy::run()?;
    lints(shell).await
}

/// Every tracked Rust file, also those that a macro names and `cargo fmt` therefore does not find.
pub(crate) async fn format(shell: &mut Shell) -> Result<()> {
    let listed = Command::new("git").args(["ls-files", "*.rs"]).output()?;
    anyhow::ensure!(listed.status.success(), "git cannot list the files; is this a clone?");
    let mut rustfmt = Command::new("rustfmt");
    rustfmt.args(["--check", "--edition", "2024"]);
    rustfmt.args(String::from_utf8(listed.stdout)?.lines().filter(|file| Path::new(file).exists()));
    shell.run(rustfmt).await
}

const CLIPPY: [&str; 8] = [
    "clippy",
    "--workspace",
    "--all-targets",
    "--features",
    "famulus-cluster-tests/installed",
    "--",
    "--deny",
    "warnings",
];

async fn lints(shell: &mut Shell) -> Result<()> {
    shell.run(cargo(CLIPPY)).await
}

/// The same, beside what mostly waits.
pub(crate) fn lints_beside() -> Result<Beside> {
    Beside::cargo("lints", &CLIPPY)
}
