//! The long runs of the crash harness, on a private Postgres of their own.
//!
//! ```text
//! cargo bench -p famulus-server --features harness --bench kills -- deaths --kills 10000
//! cargo bench -p famulus-server --features harness --bench kills -- streams --trials 1000
//! ```
//!
//! `cargo xtask bench kills` runs both, as `kills NAME REQUEST` like its other measurements. Prints
//! one line of JSON for each run, and one for every hundred kills before; fails when anything was
//! lost, doubled or out of order. The seed is printed first and may be given again.

#[path = "../tests/support/mod.rs"]
mod support;

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use famulus_lifecycle::Tasks;
use famulus_local::{
    cache,
    postgres::{self, PrivatePostgres},
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};
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
    /// A file for the line of JSON
    #[arg(long, global = true)]
    out: Option<PathBuf>,
    #[command(subcommand)]
    run: Run,
}

/// What `cargo xtask bench` asks.
#[derive(Deserialize)]
struct Request {
    /// A superuser's database; the run makes one of its own beside it.
    url: String,
    /// Of deaths or trials.
    count: u32,
    out: PathBuf,
}

impl Args {
    fn read() -> Result<Self> {
        let arguments: Vec<String> = std::env::args().collect();
        match arguments.as_slice() {
            [_, name, request] if request.starts_with('{') => Self::asked(name, request),
            _ => Ok(Self::parse()),
        }
    }

    fn asked(name: &str, request: &str) -> Result<Self> {
        let Request { url, count, out } =
            serde_json::from_str(request).context("cannot read the request")?;
        let count = count.to_string();
        let options: &[&str] = match name {
            "deaths" => &["deaths", "--kills", &count, "--gap-from", "50", "--gap-to", "200"],
            "streams" => &["streams", "--trials", &count],
            _ => bail!("there is no run called `{name}`; there are deaths and streams"),
        };
        let args = Self::try_parse_from(["kills"].iter().chain(options))?;
        Ok(Self { server: Some(url), out: Some(out), ..args })
    }
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
    runtime.block_on(run(Args::read()?))
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
    let result = outcome?;
    say(&result);
    if let Some(out) = args.out {
        fs::write(&out, serde_json::to_vec_pretty(&result)?)
            .with_context(|| format!("cannot write {}", out.display()))?;
    }
    Ok(())
}

/// What a run did; one that found a violation is an error, so that the counts of them are nought.
async fn one_run(server: String, run: Run, mut seed: Seed) -> Result<Value> {
    let settings = Settings { max_attempts: 1_000_000, ..Settings::new(server) };
    let begun = Instant::now();
    match run {
        Run::Deaths { kills, processes, clients, gap_from, gap_to } => {
            ensure!(gap_from < gap_to, "--gap-from is not below --gap-to");
            let tell = |kills| say(&json!({"kills": kills}));
            let storm = Storm { kills, processes, gap: gap_from..gap_to, guests: 0, tell };
            World::run(settings, async |world| {
                let done = storm.endure(world, clients, &mut seed).await?;
                world.check(Faults::Deaths).await?;
                Ok(json!({
                    "run": "deaths",
                    "kills": done.killed,
                    "processes_ended": done.ended,
                    "sessions_cut": done.cut,
                    "processes_frozen": done.frozen,
                    "messages": world.log.sent().len(),
                    "effects_counted": world.counter.requests().len(),
                    "deliveries": world.receiver.received().len(),
                    "lost": 0,
                    "doubled": 0,
                    "seconds": begun.elapsed().as_secs(),
                }))
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
                Ok(json!({
                    "run": "streams",
                    "trials": rounds as usize * viewers,
                    "connections": connected,
                    "lost": 0,
                    "doubled": 0,
                    "seconds": begun.elapsed().as_secs(),
                }))
            })
            .await
        }
    }
}

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn say(line: &Value) {
    println!("{line}");
}
