//! The tasks of the workspace: the one door for people and for CI.
//!
//! Each command is a file of its own and a line in the table below. Every command waits for this
//! crate to be built, so it stays light: no database client, no HTTP, no TLS.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

mod bench;
mod beside;
mod check;
mod cluster;
mod db;
mod deny;
mod digest;
mod images;
mod manifests;
mod programs;
mod report;
mod scratch;
mod shell;
mod space;
mod sqlx;
mod test;
mod tidy;
mod tree;
mod up;
mod wheel;
mod workspace;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::shell::Shell;

/// Tasks of the Famulus workspace.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Set up what is missing, build a release and run `famulus up`
    Up(up::Args),
    /// Run all tests and checks (what CI runs)
    Test(test::Args),
    /// Check format, lints and tidiness
    Check,
    /// Check crate edges, fences, sizes, names, licences and what the documents name
    Tidy,
    /// Build the container images, without a Docker daemon
    Images(images::Args),
    /// Check dependencies with cargo-deny
    Deny(deny::Args),
    /// Regenerate the offline query data, or check that they are fresh
    Sqlx(sqlx::Args),
    /// Render what is generated from the chart, or check that it is fresh
    Manifests(manifests::Args),
    /// Measure, beside the floors and a peer, and write the table of docs/PERFORMANCE.md
    Bench(bench::Args),
    /// Start, remove or check a real Kubernetes of one node for tests
    Cluster(cluster::Args),
    /// Start a migrated Postgres for development until Ctrl-C
    Db(db::Args),
    /// Fetch the Postgres that famulus runs where the machine has none
    Postgres,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    match run(task) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> Result<ExitCode> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async {
        let mut shell = Shell::new()?;
        match task {
            Task::Up(args) => up::run(&mut shell, args).await?,
            Task::Test(args) => test::run(&mut shell, args).await?,
            Task::Check => check::run(&mut shell).await?,
            Task::Tidy => tidy::run()?,
            Task::Deny(args) => deny::run(&mut shell, args).await?,
            Task::Sqlx(args) => sqlx::run(&mut shell, args).await?,
            Task::Manifests(args) => manifests::run(&mut shell, &args).await?,
            Task::Bench(args) => bench::run(&mut shell, args).await?,
            Task::Images(args) => images::run(&mut shell, args).await?,
            Task::Cluster(args) => cluster::run(&mut shell, args).await?,
            Task::Db(args) => db::run(&mut shell, args).await?,
            Task::Postgres => {
                let tree = tree::obtain(&mut shell).await?;
                println!("{}", tree.display());
            }
        }
        Ok(ExitCode::SUCCESS)
    })
}
