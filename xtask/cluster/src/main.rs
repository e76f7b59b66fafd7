//! The commands `cargo xtask cluster` and `cargo xtask images`: a real Kubernetes of one node for tests,
//! and the container images that run on it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

mod cluster;
mod images;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand, ValueEnum};
use xtask_shell::{Shell, start};

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the container images, without a Docker daemon
    Images(images::Args),
    /// Start, remove or check a real Kubernetes of one node for tests
    Cluster(cluster::Args),
    /// Say where a program is, for tasks that need no cluster and no image
    #[command(hide = true)]
    Path { of: Kept },
}

/// A program that is built or fetched when it is missing.
#[derive(Clone, Copy, ValueEnum)]
enum Kept {
    Helm,
    /// A server of it
    S3,
    /// The folder of it
    Uv,
}

fn main() -> ExitCode {
    let task = Cli::parse().task;
    start(async |shell| run(shell, task).await)
}

async fn run(shell: &mut Shell, task: Task) -> Result<()> {
    let path = match task {
        Task::Images(args) => return images::run(shell, args).await,
        Task::Cluster(args) => return cluster::run(shell, args).await,
        Task::Path { of: Kept::Helm } => cluster::helm(shell).await?,
        Task::Path { of: Kept::S3 } => cluster::s3(shell).await?,
        Task::Path { of: Kept::Uv } => images::uv(shell).await?,
    };
    println!("{}", path.display());
    Ok(())
}
