//! `cargo xtask cluster bench`: what Famulus costs on a cluster, with the images and programs of a
//! release. It prints tables and judges nothing; docs/PERFORMANCE.md holds what was published.

use anyhow::Result;
use clap::Subcommand;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo};

use crate::images;

use super::place::Place;
use super::variant::Variant;
use super::{down, enter, release, up};

/// The name of the cluster.
const NAME: &str = "bench";

#[derive(Subcommand)]
pub(super) enum Bench {
    /// What a neighbour and the app notice of a plugin that takes all there is, on a node
    Attacks,
    /// Calls of plugins, warm and from zero, on a node
    Calls,
    /// From a bare node with images to the first reply, and to the first call of a plugin
    First,
    /// A rolling upgrade of app and operator under 50 messages a second, on a node
    Upgrade,
    /// The operator with many Plugins, on an API server where nobody else acts
    Plugins {
        #[arg(long, default_value_t = 10_000)]
        count: u32,
    },
}

pub(super) async fn run(shell: &mut Shell, bench: &Bench) -> Result<()> {
    let place = Place::new(NAME)?;
    down::run(shell, &place).await?;
    let outcome = match bench {
        Bench::Attacks => on_a_node(shell, &place, "attacks").await,
        Bench::Calls => on_a_node(shell, &place, "calls").await,
        Bench::First => on_a_node(shell, &place, "first").await,
        Bench::Upgrade => on_a_node(shell, &place, "upgrade").await,
        Bench::Plugins { count } => on_an_api_server(shell, &place, *count).await,
    };
    down::run(shell, &place).await?;
    outcome
}

async fn on_a_node(shell: &mut Shell, place: &Place, target: &str) -> Result<()> {
    let folder = root().join("target/images/release");
    let archives = images::released(shell, &release::IMAGES, &folder).await?;
    let mut build = vec!["bench", "-p", "famulus-cluster-tests", "--bench", target];
    build.push("--no-run");
    shell.run(cargo(&build)).await?;
    build.pop();
    up::run(shell, place, Variant::WHOLE).await?;
    release::install(shell, place, &archives, &[]).await?;
    let looking = release::looked_at(shell, place, &cargo(&build)).await?;
    shell.run(looking).await
}

async fn on_an_api_server(shell: &mut Shell, place: &Place, count: u32) -> Result<()> {
    shell.run(cargo(["build", "--release", "-p", "famulus-operator"])).await?;
    // What measures needs no optimiser; what is measured is a process of its own.
    let build = ["bench", "--profile", "dev", "-p", "famulus-operator", "--bench", "many"];
    shell.run(cargo(build.iter().chain(&["--no-run"]))).await?;
    up::run(shell, place, Variant::API_SERVER).await?;
    let count = count.to_string();
    let measuring = cargo(build.iter().chain(&["--", &count]));
    let mut inside = enter::as_inside(place, &measuring)?;
    inside.env("FAMULUS_BENCH_OPERATOR", root().join("target/release/famulus-operator"));
    inside.env("FAMULUS_BENCH_AUDIT", place.at("audit.log"));
    shell.run(inside).await
}
