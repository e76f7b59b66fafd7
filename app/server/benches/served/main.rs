//! What the shipped program costs: memory, size, start, viewers, backups, plugins, and how soon a stop takes
//! effect.
//!
//! One measurement per process, started by `cargo xtask bench` as `served NAME REQUEST`, where
//! REQUEST is the JSON of [`request::Request`]. The result is JSON in the file that the request
//! names.
//!
//! ```text
//! model (here) ◄── famulus serve (its own process, as released) ──► Postgres
//! crowd (here) ◄──────┘      memory, processor time: /proc
//! ```
//!
//! Everything is looked at from outside: over HTTP, in the tables, in `/proc`. Model and viewers run
//! in this process and share the machine with the server.

#![expect(clippy::print_stderr, reason = "a measurement talks to its terminal")]

mod backup;
mod caller;
mod chat;
mod crowd;
mod footprint;
mod home;
mod latency;
mod load;
mod memory;
mod model;
mod plugins;
mod pulse;
mod request;
mod seed;
mod server;
mod size;
mod start;
mod stop;
mod stuck;
mod token;
mod used;
mod viewers;

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
        "stop" => stop::measure(request).await,
        "viewers" => viewers::measure(request).await,
        "token" => token::measure(request).await,
        "stuck" => stuck::measure(request).await,
        "footprint" => footprint::measure(request).await,
        "used" => used::measure(request).await,
        "chat" => chat::measure(request).await,
        "start" => start::measure(request).await,
        "backup" => backup::measure(request).await,
        "plugins" => plugins::measure(request).await,
        "size" => size::measure(request),
        _ => bail!("there is no measurement of this name"),
    }
}
