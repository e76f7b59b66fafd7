//! `cargo xtask up`: from a fresh checkout to a running assistant.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use xtask_postgres::tree;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo, programs};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments for `famulus up`
    #[arg(last = true)]
    args: Vec<String>,
}

/// Becomes `famulus up`; returns only when something failed before.
pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    programs::ensure(shell, &programs::BUILD).await?;
    tree::obtain(shell).await?;
    shell
        .run(cargo(["build", "--release", "--package", "famulus-server", "--bin", "famulus"]))
        .await?;
    let program = root().join("target/release/famulus");
    let error =
        Command::new(&program).arg("up").args(args.args).env_remove("LD_LIBRARY_PATH").exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
