//! `cargo xtask check`: what needs no database and under a minute when warm.

use anyhow::Result;
use std::path::Path;
use std::process::Command;
use xtask_shell::beside::{Beside, Share};
use xtask_shell::workspace::FEATURES;
use xtask_shell::{Shell, cargo, own_program};

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

/// In the folder of the build, which has made all that is run while something is compiled.
pub(crate) async fn lints(shell: &mut Shell) -> Result<()> {
    shell.run(cargo(CLIPPY)).await
}

/// The freshness of `.sqlx`, looked at beside what mostly waits, in a target folder of its own, since a build
/// locks its folder.
pub(crate) fn beside() -> Result<Beside> {
    let mut queries = Command::new(own_program()?);
    queries.args(["sqlx", "--check"]);
    Beside::start("sqlx", &queries, Share::Rest)
}
