//! `cargo xtask check`: what needs no database and under a minute when warm.

use anyhow::Result;

use crate::shell::{Shell, cargo};
use crate::tidy;

pub(crate) async fn run(shell: &mut Shell) -> Result<()> {
    shell.run(cargo(["fmt", "--all", "--check"])).await?;
    tidy::run()?;
    lints(shell).await
}

pub(crate) async fn lints(shell: &mut Shell) -> Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"];
    shell.run(cargo(clippy)).await
}
