//! `cargo xtask up`: from a fresh checkout to a running assistant.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use xtask_postgres::tree;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo, output_of, programs};

const PACKAGE: &str = "famulus-server";

/// In which plugins run.
const RUNNER: &str = "famulus-runner";

/// Where cargo puts the program that is built for trying.
const PROGRAM: &str = "target/trying/famulus";

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
    let program = root().join(PROGRAM);
    if !program.exists() {
        eprintln!(
            "compiling famulus, {} crates: 4 to 7 minutes on two cores, and only the first time",
            crates()?
        );
    }
    shell
        .run(cargo([
            "build",
            "--profile",
            "trying",
            "--package",
            PACKAGE,
            "--bin",
            "famulus",
            // It is looked for beside the program.
            "--package",
            RUNNER,
            "--bin",
            RUNNER,
        ]))
        .await?;
    let error =
        Command::new(&program).arg("up").args(args.args).env_remove("LD_LIBRARY_PATH").exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// How many crates the program is made of. Those that have to be fetched are fetched, and named.
fn crates() -> Result<usize> {
    let mut tree =
        cargo(["tree", "--package", PACKAGE, "--package", RUNNER, "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--format", "{p} "]).stderr(Stdio::inherit());
    let listed = String::from_utf8(output_of(&mut tree)?).context("cargo tree is not text")?;
    Ok(listed
        .lines()
        .map(|line| line.trim_end_matches("(*)").trim_end())
        .collect::<BTreeSet<_>>()
        .len())
}
