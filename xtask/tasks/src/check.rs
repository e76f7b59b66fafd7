//! `cargo xtask check`: what needs no database and under a minute when warm.

use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask_shell::beside::{Beside, Share};
use xtask_shell::workspace::{FEATURES, root};
use xtask_shell::{Shell, cargo};

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

const CLIPPY: [&str; 8] =
    ["clippy", "--workspace", "--all-targets", "--features", FEATURES, "--", "--deny", "warnings"];

async fn lints(shell: &mut Shell) -> Result<()> {
    shell.run(cargo(CLIPPY)).await
}

/// What is looked at beside what mostly waits, each in a target folder of its own, since a build locks
/// its folder: the lints, and the freshness of `.sqlx`.
pub(crate) fn beside() -> Result<[Beside; 2]> {
    let mut lints = cargo(CLIPPY);
    lints.env("CARGO_TARGET_DIR", root().join("target/lints"));
    let mut queries = Command::new(std::env::current_exe()?);
    queries.args(["sqlx", "--check"]);
    Ok([
        Beside::start("lints", &lints, Share::Rest)?,
        Beside::start("sqlx", &queries, Share::Rest)?,
    ])
}
