//! What the store and the queue cost on a real Postgres.
//!
//! One measurement per process, started by `cargo xtask bench`, which brings the database, runs the
//! floors and the peer beside it and judges the figures: `durable NAME REQUEST`, where REQUEST is
//! the JSON of [`request::Request`]. The result is JSON in the file that the request names.
//!
//! Every measurement goes through the product's own doors (`Store::accept`, the queue's claim and
//! settle); only what stands in for the work of a turn is made here. Each run proves at its end that
//! nothing was lost and nothing happened twice: a run that cannot is an error, not a figure.

#![expect(clippy::print_stderr, reason = "a measurement talks to its terminal")]

mod fairness;
mod floor;
mod idle;
mod latency;
mod lifecycles;
mod messages;
mod pace;
mod parts;
mod pickup;
mod proof;
mod request;
mod sessions;
mod settle;
mod timed;
mod turns;
mod world;

use anyhow::{Context, Result, bail};
use request::Request;
use serde_json::Value;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [name, request] = arguments.as_slice() else {
        eprintln!("measurements are run by `cargo xtask bench`");
        return ExitCode::SUCCESS;
    };
    match run(name, request) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, request: &str) -> Result<()> {
    let request: Request = serde_json::from_str(request).context("cannot read the request")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(measure(name, &request))?;
    std::fs::write(&request.out, serde_json::to_vec_pretty(&result)?)
        .with_context(|| format!("cannot write {}", request.out.display()))
}

async fn measure(name: &str, request: &Request) -> Result<Value> {
    match name {
        "floor" => floor::measure(request).await,
        "pickup" => pickup::measure(request, pickup::Worker::Here).await,
        "pickup-elsewhere" => pickup::measure(request, pickup::Worker::Elsewhere).await,
        "lifecycles" => lifecycles::measure(request).await,
        "turns" => turns::measure(request).await,
        "idle" => idle::measure(request).await,
        "fairness" => fairness::measure(request).await,
        _ => bail!("there is no measurement of this name"),
    }
}
