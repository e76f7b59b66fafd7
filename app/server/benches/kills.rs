//! The long runs of the crash harness, on a private Postgres of their own.
//!
//! ```text
//! cargo bench -p famulus-server --features harness --bench kills -- deaths --kills 10000
//! cargo bench -p famulus-server --features harness --bench kills -- streams --trials 1000
//! ```
//!
//! `cargo xtask bench kills` runs both. Prints one line of JSON for each run; fails when anything
//! was lost, doubled or out of order. The seed is printed first and may be given again.

#[path = "../tests/support/mod.rs"]
mod support;

use anyhow::{Context, Result, ensure};
use clap::{Parser, Subcommand};
use famulus_lifecycle::Tasks;
use famulus_local::{
    cache,
    postgres::{self, PrivatePostgres},
};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt, time::Duration};
use support::{
    chaos::Storm,
    checker::Faults,
    seed::Seed,
    streams::{self, Trials},
    world::{Settings, World},
};
use tokio::time::Instant;

/// Everything that was begun ends in less once nothing dies any more.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Parser)]
struct Args {
    /// Given by `cargo bench` to every benchmark
    #[arg(long, hide = true, global = true)]
    bench: bool,
    /// Another Postgres than a private one, by a superuser's URL
    #[arg(long, global = true)]
    server: Option<String>,
    /// The seed of an earlier run
    #[arg(long, global = true)]
    seed: Option<u64>,
    #[command(subcommand)]
    run: Run,
}

#[derive(Subcommand)]
enum Run {
    /// Random deaths of processes and database sessions in the middle of work
    Deaths {
        #[arg(long, default_value_t = 10_000)]
        kills: u32,
        #[arg(long, default_value_t = 3)]
        processes: usize,
        #[arg(long, default_value_t = 12)]
        clients: usize,
        /// Milliseconds between two deaths, at least
        #[arg(long, default_value_t = 100)]
        gap_from: u64,
        /// Milliseconds between two deaths, at most
        #[arg(long, default_value_t = 400)]
        gap_to: u64,
    },
    /// Viewers who watch while processes die
    Streams {
        #[arg(long, default_value_t = 1_000)]
        trials: usize,
        #[arg(long, default_value_t = 3)]
        processes: usize,
        /// Viewers of one round
        #[arg(long, default_value_t = 10)]
        viewers: usize,
    },
}

fn main() -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(Args::parse()))
}

async fn run(args: Args) -> Result<()> {
    let seed = args.seed.unwrap_or_else(rand::random);
    say(&json!({"seed": seed}));
    // A folder that the server's unprivileged user can reach.
    let folder =
        tempfile::Builder::new().permissions(fs::Permissions::from_mode(0o755)).tempdir()?;
    let tasks = Tasks::new();
    let private = if args.server.is_none() {
        let settings = postgres::Settings {
            tree_dirs: vec![cache::folder(|name| std::env::var_os(name))],
            max_connections: 120,
            ..postgres::Settings::new(folder.path().join("data"))
        };
        Some(PrivatePostgres::start(settings, &tasks).await?)
    } else {
        None
    };
    let own = private.as_ref().map(|private| private.url_of("postgres"));
    let server = args.server.or(own).context("there is a server")?;
    let outcome = one_run(server, args.run, Seed::new(seed)).await;
    if let Some(private) = private {
        private.stop().await;
    }
    outcome
}

async fn one_run(server: String, run: Run, mut seed: Seed) -> Result<()> {
    let settings = Settings { max_attempts: 1_000_000, ..Settings::new(server) };
    let begun = Instant::now();
    match run {
        Run::Deaths { kills, processes, clients, gap_from, gap_to } => {
            ensure!(gap_from < gap_to, "--gap-from is not below --gap-to");
            let storm = Storm { kills, processes, gap: gap_from..gap_to };
            World::run(settings, async |world| {
                let done = storm.endure(world, clients, &mut seed).await?;
                world.check(Faults::Deaths).await?;
                say(&json!({
                    "run": "deaths",
                    "processes_killed": done.killed,
                    "processes_ended": done.ended,
                    "sessions_cut": done.cut,
                    "processes_frozen": done.frozen,
                    "messages": world.log.sent().len(),
                    "effects_counted": world.counter.requests().len(),
                    "deliveries": world.receiver.received().len(),
                    "violations": 0,
                    "seconds": begun.elapsed().as_secs(),
                }));
                Ok(())
            })
            .await
        }
        Run::Streams { trials, processes, viewers } => {
            let rounds = trials.div_ceil(viewers.max(1)) as u32;
            let settings = Settings { pace: Duration::from_millis(8), ..settings };
            World::run(settings, async |world| {
                let trials = Trials { rounds, viewers, processes };
                let connected = streams::run(world, trials, seed).await?;
                world.settle(PATIENCE).await?;
                world.check(Faults::Deaths).await?;
                say(&json!({
                    "run": "streams",
                    "trials": rounds as usize * viewers,
                    "connections": connected,
                    "violations": 0,
                    "seconds": begun.elapsed().as_secs(),
                }));
                Ok(())
            })
            .await
        }
    }
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn say(line: &serde_json::Value) {
    println!("{line}");
}
