//! The commands `cargo xtask cluster` and `cargo xtask images`: a real Kubernetes of one node for tests,
//! and the container images that run on it.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

mod cluster;
mod images;

use std::path::PathBuf;
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
    /// Build or fetch what is missing of these, while its user does something else
    #[command(hide = true)]
    Programs {
        /// What a cluster is made of, too
        #[arg(long)]
        of_clusters: bool,
    },
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
        Task::Path { of } => path(shell, of).await?,
        Task::Programs { of_clusters } => {
            for of in [Kept::Helm, Kept::S3, Kept::Uv] {
                path(shell, of).await?;
            }
            return if of_clusters { cluster::build(shell).await } else { Ok(()) };
        }
    };
    println!("{}", path.display());
    Ok(())
}

async fn path(shell: &mut Shell, of: Kept) -> Result<PathBuf> {
    match of {
        Kept::Helm => cluster::helm(shell).await,
        Kept::S3 => cluster::s3(shell).await,
        Kept::Uv => images::uv(shell).await,
    }
}
