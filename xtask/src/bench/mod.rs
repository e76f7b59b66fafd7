//! `cargo xtask bench`: what the product costs, beside its floors and a peer, in one run.
//!
//! ```text
//! scratch Postgres ─► build ─► run 1 … n: floors, ours, peer, each in a database of its own
//!                                  └─► figures (over all runs) ─► table ─► docs/PERFORMANCE.md
//! ```
//!
//! What is measured is a list ([`plan`]), what is published of it another one ([`figures`]). A
//! measurement is a program that is given a database and writes JSON; one that lost or doubled
//! something fails, and so does the whole benchmark.

mod doc;
mod figures;
mod machine;
mod peer;
mod plan;
mod record;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::scratch::Scratch;
use crate::shell::{Shell, cargo, output_of};
use crate::workspace::{cache, root};

use peer::Peer;
use plan::{Measurement, Program};
use record::Record;

/// Runs of a full benchmark: the median of five is not moved by two bad ones.
const RUNS: u32 = 5;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these benchmarks, for example `q1 q2`
    names: Vec<String>,
    /// One short run, marked as such; it does not replace the figures of full ones
    #[arg(long)]
    quick: bool,
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let Args { names, quick } = args;
    let measurements = plan::chosen(&names)?;
    let programs = build(shell, &measurements).await?;
    let peer = Peer::obtain(shell).await?;
    let scratch = Scratch::start(shell).await?;
    let machine = machine::facts(&scratch, &peer)?;
    let record = measure(shell, &scratch, &measurements, &programs, &peer, quick).await;
    scratch.stop().await?;
    let record = record?;
    let table = figures::table(&record, &measurements, machine::today()?, quick);
    println!("{}", doc::render(&table));
    doc::write(&table, &machine, quick)?;
    for row in table.iter().filter(|row| row.needed_missed) {
        eprintln!("needed but missed: {} {}", row.id, row.what);
    }
    Ok(())
}

/// Builds what is measured and sets the programs aside, so that a build during the benchmark does
/// not change them.
async fn build(shell: &mut Shell, measurements: &[&Measurement]) -> Result<Programs> {
    let folder = tempfile::tempdir()?;
    for measurement in measurements {
        let Program::Bench { package, bench } = measurement.program else { continue };
        let place = folder.path().join(bench);
        if place.exists() {
            continue;
        }
        let arguments = ["bench", "--package", package, "--bench", bench, "--no-run"];
        shell.run(cargo(arguments)).await?;
        let messages = output_of(cargo(arguments).args(["--message-format", "json"]))?;
        let program = executable(&messages, bench)
            .with_context(|| format!("cargo names no program for the benchmark `{bench}`"))?;
        fs::copy(&program, &place)?;
    }
    Ok(Programs { folder })
}

/// The program of a bench target in what cargo says about a build.
fn executable(messages: &[u8], bench: &str) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(messages);
    let built = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = built.filter(|message| {
        message["target"]["name"] == bench && message["target"]["kind"][0] == "bench"
    });
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The programs, each under the name of its bench target.
struct Programs {
    folder: tempfile::TempDir,
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
        for measurement in measurements {
            let command = match measurement.program {
                Program::Bench { bench, .. } => Command::new(programs.folder.path().join(bench)),
                Program::Peer => match peer.command() {
                    Some(command) => command,
                    None => continue,
                },
            };
            eprintln!("run {run} of {runs}: {}", measurement.name);
            let result = in_own_database(shell, scratch, measurement, command, quick)
                .await
                .with_context(|| format!("run {run} of {} failed", measurement.name))?;
            record.add(run, measurement.name, result)?;
        }
    }
    Ok(record)
}

/// Runs a measurement in a fresh database, after what the one before left is on disk.
async fn in_own_database(
    shell: &mut Shell,
    scratch: &Scratch,
    measurement: &Measurement,
    mut command: Command,
    quick: bool,
) -> Result<Value> {
    const DATABASE: &str = "bench";
    let postgres = &scratch.postgres;
    postgres.run("postgres", &format!("DROP DATABASE IF EXISTS {DATABASE} WITH (FORCE)")).await?;
    postgres.run("postgres", &format!("CREATE DATABASE {DATABASE}")).await?;
    postgres.run("postgres", "CHECKPOINT").await?;
    let folder = tempfile::tempdir()?;
    let out = folder.path().join("result.json");
    let request = json!({
        "url": postgres.url_of(DATABASE),
        "seconds": if quick { measurement.seconds.1 } else { measurement.seconds.0 },
        "out": out,
        // On the same disk as the data of the server.
        "disk": cache().join("scratch"),
    });
    command.arg(measurement.asks).arg(request.to_string());
    shell.run(command).await?;
    serde_json::from_slice(&fs::read(&out)?).context("the result is not JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_program_of_a_bench_target() {
        let messages = br#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"durable"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"durable"},"executable":"/t/durable-1"}
not json"#;
        assert_eq!(executable(messages, "durable"), Some(PathBuf::from("/t/durable-1")));
        assert_eq!(executable(messages, "other"), None);
    }
}
