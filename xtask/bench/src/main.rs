//! `cargo xtask bench`: what the product costs, beside its floors and a peer, in one run.
//!
//! ```text
//! scratch Postgres ─► build ─► run 1 … n: floors, ours, peer, each in a database of its own
//!                                  └─► figures (over all runs) ─► table ─► docs/PERFORMANCE.md
//! ```
//!
//! What is measured is a list ([`plan`]), what is published of it another one ([`figures`]), and
//! [`judge`] holds the one against the other. A measurement is a program that is given a database
//! and writes JSON; one that lost or doubled something fails, and so does the whole benchmark.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool talks to its terminal"
)]

mod doc;
mod figures;
mod judge;
mod machine;
mod peer;
mod plan;
mod profile;
mod programs;
mod record;

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use serde_json::{Value, json};
use xtask_postgres::scratch::Scratch;
use xtask_shell::workspace::{cache, root};
use xtask_shell::{Shell, start};

use peer::Peer;
use plan::{Measurement, Program};
use programs::Programs;
use record::Record;

/// Runs of a full benchmark: the median of five is not moved by two bad ones.
const RUNS: u32 = 5;

#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Measure, beside the floors and a peer, and write the table of docs/PERFORMANCE.md
    Bench(Args),
}

#[derive(clap::Args)]
struct Args {
    /// Only these benchmarks, for example `q1 q2`
    names: Vec<String>,
    /// One short run, marked as such; it does not replace the figures of full ones
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let Task::Bench(args) = Cli::parse().task;
    start(async |shell| run(shell, args).await)
}

async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let Args { names, quick } = args;
    let measurements = plan::chosen(&names)?;
    let programs = Programs::build(shell, &measurements).await?;
    let peer = if measurements.iter().any(|one| one.program == Program::Peer) {
        Peer::obtain(shell).await?
    } else {
        Peer::aside()
    };
    let scratch = Scratch::start(shell).await?;
    let machine = machine::facts(&scratch, &peer)?;
    let record = measure(shell, &scratch, &measurements, &programs, &peer, quick).await;
    scratch.stop().await?;
    let record = record?;
    let today = machine::today()?;
    let parts = profile::list(&record, &measurements, &today, quick);
    let table = judge::table(figures::all(), &record, &measurements, today, quick);
    println!("{}", doc::render(&table));
    doc::write(&table, &parts, &machine, quick)?;
    for row in table.iter().filter(|row| row.needed_missed) {
        eprintln!("needed but missed: {} {}", row.id, row.what);
    }
    Ok(())
}

async fn measure(
    shell: &mut Shell,
    scratch: &Scratch,
    measurements: &[&Measurement],
    programs: &Programs,
    peer: &Peer,
    quick: bool,
) -> Result<Record> {
    let mut record = Record::new(&root().join("target/bench"))?;
    let runs = if quick { 1 } else { RUNS };
    for run in 1..=runs {
        for measurement in measurements.iter().filter(|one| one.is_in(run)) {
            let command = match measurement.program {
                Program::Bench(bench) => Some(Command::new(programs.path(bench.target))),
                Program::Peer => match peer.command() {
                    Some(command) => Some(command),
                    None => continue,
                },
                Program::CleanBuild => None,
            };
            eprintln!("run {run} of {runs}: {}", measurement.name);
            let result = match command {
                Some(command) => {
                    let asked = Asked { measurement, programs, quick };
                    in_own_database(shell, scratch, asked, command).await
                }
                None => programs::clean_build(shell).await,
            };
            let result =
                result.with_context(|| format!("run {run} of {} failed", measurement.name))?;
            record.add(run, measurement.name, result)?;
        }
    }
    Ok(record)
}

struct Asked<'a> {
    measurement: &'a Measurement,
    programs: &'a Programs,
    quick: bool,
}

/// Runs a measurement in a fresh database, after what the one before left is on disk.
async fn in_own_database(
    shell: &mut Shell,
    scratch: &Scratch,
    asked: Asked<'_>,
    mut command: Command,
) -> Result<Value> {
    const DATABASE: &str = "bench";
    let postgres = &scratch.postgres;
    postgres.run("postgres", &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    postgres.run("postgres", &format!("CREATE DATABASE {DATABASE}")).await?;
    postgres.run("postgres", "CHECKPOINT").await?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("result.json");
    let (unit, extent) = asked.measurement.extent.told(asked.quick);
    let request = json!({
        "url": postgres.url_of(DATABASE),
        unit: extent,
        "out": out,
        // On the same disk as the data of the server.
        "disk": cache().join("scratch"),
        "famulus": asked.programs.famulus(),
        "bin_dir": postgres.place().bin_dir,
    });
    command.arg(asked.measurement.asks).arg(request.to_string());
    shell.run(command).await?;
    serde_json::from_slice(&fs::read(&out)?).context("the result is not JSON")
}
