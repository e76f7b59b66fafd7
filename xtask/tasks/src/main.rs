//! The tasks of the workspace: the one door for people and for CI.
//!
//! Each command is a file of its own and a line in the table below, or belongs to another program,
//! to which it is handed over.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

mod binaries;
mod check;
mod db;
mod deny;
mod elsewhere;
mod kept;
mod manifests;
mod schemathesis;
mod soak;
mod sqlx;
mod test;
mod tidy;
mod up;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use xtask_postgres::tree;
use xtask_shell::{Shell, start};

use elsewhere::Other;

/// Tasks of the Famulus workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up what is missing, build for trying and run `famulus up`
    Up(up::Args),
    /// Run all tests and checks (what CI runs)
    Test(test::Args),
    /// Run whole what is large only for certainty; `test` runs a part of each
    Soak(soak::Args),
    /// Check format, lints and tidiness
    Check,
    /// Check crate edges, fences, sizes, names, licences and what the documents name
    Tidy,
    /// Build the container images, without a Docker daemon
    Images(Words),
    /// Check dependencies with cargo-deny
    Deny(deny::Args),
    /// Regenerate the offline query data, or check that they are fresh
    Sqlx(sqlx::Args),
    /// Render what is generated from the chart, or check that it is fresh
    Manifests(manifests::Args),
    /// Measure, beside the floors and a peer, and write the table of docs/PERFORMANCE.md
    Bench(Words),
    /// Start, remove or check a real Kubernetes of one node for tests
    Cluster(Words),
    /// Start a migrated Postgres for development until Ctrl-C
    Db(db::Args),
    /// Fetch the Postgres that famulus runs where the machine has none
    Postgres,
}

/// What only the other program understands.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

fn main() -> ExitCode {
    let words = words(std::env::args_os().skip(1).collect());
    let task = Cli::parse_from(std::iter::once("cargo xtask".into()).chain(words.clone())).task;
    start(async |shell| run(shell, task, &words).await)
}

/// What we were called with; a command is asked itself for its help.
fn words(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.len() > 1 && words[0] == "help" {
        words.remove(0);
        words.push("--help".into());
    }
    words
}

async fn run(shell: &mut Shell, task: Task, words: &[OsString]) -> Result<()> {
    match task {
        Task::Up(args) => up::run(shell, args).await,
        Task::Test(args) => test::run(shell, args).await,
        Task::Soak(args) => soak::run(shell, args).await,
        Task::Check => check::run(shell).await,
        Task::Tidy => tidy::run(),
        Task::Deny(args) => deny::run(shell, args).await,
        Task::Sqlx(args) => sqlx::run(shell, args).await,
        Task::Manifests(args) => manifests::run(shell, &args).await,
        Task::Images(_) | Task::Cluster(_) => Other::Cluster.become_it(words),
        Task::Bench(_) => Other::Bench.become_it(words),
        Task::Db(args) => db::run(shell, args).await,
        Task::Postgres => {
            println!("{}", tree::obtain(shell).await?.display());
            Ok(())
        }
    }
}
