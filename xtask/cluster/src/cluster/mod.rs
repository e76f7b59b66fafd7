//! `cargo xtask cluster`: a real Kubernetes of one node for tests, without Docker and without
//! pulling an image.
//!
//! ```text
//! packages ─► programs (built once, cached) ─┐
//! keys, images, configuration ───────────────┴─► namespaces ─► etcd ─► API server ─► controllers
//!                                                     containerd ─► kubelet ─► network ─► Ready
//! ```
//!
//! Everything of a cluster runs in namespaces of its own for processes, mounts and the network, so
//! several stand side by side with the same addresses, and nothing of them can reach or be reached
//! from outside. When the first process of the namespace ends, the kernel ends all others and drops
//! the mounts, pins and interfaces; only the control groups and the work folder are left to remove.

mod bench;
mod build;
mod cgroups;
mod control_plane;
mod dns;
mod down;
mod enter;
mod images;
mod internet;
mod keys;
mod kubectl;
mod load;
mod namespace;
mod network;
mod node;
mod packages;
mod pins;
mod place;
mod processes;
mod release;
mod residue;
mod restart;
mod ssh;
mod status;
mod storage;
mod suite;
mod sysctls;
mod tar;
mod truth;
mod up;
mod variant;
mod wait;

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args as Arguments, Subcommand};
use xtask_shell::Shell;

use kubectl::Kubectl;
use network::Network;
use place::Place;
use variant::Variant;

#[derive(Arguments)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build what a cluster is made of, without starting one
    Build,
    /// Start a cluster; what is missing is built and installed before
    Up {
        #[command(flatten)]
        which: Which,
        #[command(flatten)]
        variant: Variant,
    },
    /// Remove a cluster, and check that nothing of it is left
    Down {
        #[command(flatten)]
        which: Which,
    },
    /// Switch a node off and on, or start programs of it anew: `restart kubelet`
    Restart {
        #[command(flatten)]
        which: Which,
        parts: Vec<String>,
    },
    /// Say what runs
    Status {
        #[command(flatten)]
        which: Which,
    },
    /// Hand archives of images (OCI or Docker) to a running cluster
    Load {
        #[command(flatten)]
        which: Which,
        #[arg(required = true)]
        archives: Vec<PathBuf>,
    },
    /// Run kubectl against a cluster: `kubectl -- get pods -A`
    Kubectl {
        #[command(flatten)]
        which: Which,
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run helm against a cluster: `helm -- list -A`
    Helm {
        #[command(flatten)]
        which: Which,
        #[arg(last = true)]
        args: Vec<String>,
    },
    /// Run a program of the machine in a cluster's network, with KUBECONFIG set
    Enter {
        #[command(flatten)]
        which: Which,
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
    /// Make volumes for claims: a part of a running cluster
    #[command(hide = true)]
    Provision {
        #[command(flatten)]
        which: Which,
        #[arg(long)]
        kubectl: PathBuf,
    },
    /// Start two clusters, check that they are what they claim to be, and remove them
    Test,
    /// Measure a release on a cluster of its own
    Bench {
        #[command(subcommand)]
        bench: bench::Bench,
    },
    /// Install Famulus on a cluster and run the tests of a whole installation there
    Suite {
        /// The name of the cluster
        #[arg(long, default_value = "suite")]
        name: String,
        #[command(flatten)]
        wanted: suite::Wanted,
    },
}

#[derive(Arguments)]
struct Which {
    /// The name of the cluster; several stand side by side
    #[arg(long, default_value = "famulus")]
    name: String,
}

/// Helm, which is built when it is not there yet. It needs no cluster to render a chart.
pub(crate) async fn helm(shell: &mut Shell) -> Result<PathBuf> {
    build::Programs::obtain(shell, &[&pins::HELM]).await?.path("helm")
}

/// A server that speaks S3.
pub(crate) async fn s3(shell: &mut Shell) -> Result<PathBuf> {
    build::Programs::obtain(shell, &[&pins::VERSITYGW]).await?.path("versitygw")
}

/// What a cluster is made of.
pub(crate) async fn build(shell: &mut Shell) -> Result<()> {
    packages::ensure(shell, Network::Cilium).await?;
    build::Programs::obtain(shell, &pins::ALL).await.map(drop)
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    match args.task {
        Task::Build => build(shell).await,
        Task::Up { which, variant } => {
            up::run(shell, &Place::new(&which.name)?, variant).await?;
            // What is done next there: once, it takes minutes.
            helm(shell).await.map(drop)
        }
        Task::Down { which } => down::run(shell, &Place::new(&which.name)?).await,
        Task::Restart { which, parts } => {
            restart::run(shell, &Place::new(&which.name)?, &parts).await
        }
        Task::Status { which } => status::run(&Place::new(&which.name)?),
        Task::Load { which, archives } => {
            load::run(shell, &Place::new(&which.name)?, &archives).await
        }
        Task::Kubectl { which, args } => enter::kubectl(&Place::new(&which.name)?, &args),
        Task::Helm { which, args } => enter::helm(shell, &Place::new(&which.name)?, &args).await,
        Task::Enter { which, command } => enter::run(&Place::new(&which.name)?, &command),
        Task::Provision { which, kubectl } => {
            let place = Place::new(&which.name)?;
            storage::run(shell, &place, &Kubectl::inside(&place, kubectl)).await
        }
        Task::Test => truth::run(shell).await,
        Task::Bench { bench } => bench::run(shell, &bench).await,
        Task::Suite { name, wanted } => suite::run(shell, &name, &wanted).await,
    }
}
