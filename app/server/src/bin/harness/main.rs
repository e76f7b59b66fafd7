//! famulus-harness: the whole assistant for the crash tests, with a model and tools whose every
//! effect can be counted from outside.
//!
//! It differs from the shipped binary in what it is built with (points at which it dies, switches
//! that take a safety out) and in what it is given: the model of [`model`], the tools of [`tools`],
//! ports of the system's choice, a short lease. Everything between is the product's own; with
//! `--plugins`, sandboxes are, too. Prints one line of JSON when it serves.

mod model;
mod sandboxes;
mod script;
mod tools;

use anyhow::Context;
use clap::Parser;
use famulus_api::Listeners;
use famulus_core::clock::SystemClock;
use famulus_lifecycle::{Signals, Tasks};
use famulus_server::{
    app::{App, Parts, Sockets},
    config::Config,
    token,
};
use famulus_store::Connect;
use std::{
    io::{self, Write},
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;
use url::Url;

/// Everything ends by itself in less; a test that stops a process politely waits for it.
const DRAIN: Duration = Duration::from_secs(10);
/// Signs deliveries; the receiver of a test does not check.
const WEBHOOK_SECRET: &str = "known to every crash test";
/// The bot of the scripted Telegram.
const TELEGRAM_TOKEN: &str = "99:known-to-every-crash-test";

#[derive(Parser)]
#[command(about = "The assistant as the crash tests run it")]
struct Args {
    /// The database, named by a superuser's URL
    #[arg(long)]
    database: String,
    /// Where the owner's token is kept
    #[arg(long)]
    token_file: PathBuf,
    /// The service at which the tools count
    #[arg(long)]
    counter: SocketAddr,
    /// Where replies are delivered
    #[arg(long)]
    webhook: Url,
    /// The scripted Telegram whose bot it is
    #[arg(long)]
    telegram: Option<Url>,
    /// The scripted daemon of signal-cli, whose account is its own
    #[arg(long)]
    signal: Option<Url>,
    /// Who listens to recordings
    #[arg(long)]
    listener: Url,
    /// How long a lease lasts without a heartbeat
    #[arg(long, default_value_t = 1000)]
    lease_ms: u64,
    /// Pause before each piece of what the model says
    #[arg(long, default_value_t = 5)]
    pace_ms: u64,
    /// Deaths in a row after which a turn is buried
    #[arg(long, default_value_t = 5)]
    max_attempts: i32,
    /// Where plugins of this machine have their folders; without it the counter plays a sandbox
    #[arg(long)]
    plugins: Option<PathBuf>,
    /// Log filter
    #[arg(long, default_value = "warn")]
    log: String,
}

fn main() -> ExitCode {
    match run(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody is left to tell when standard error is gone.
            let _gone = writeln!(io::stderr(), "famulus-harness: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: Args) -> anyhow::Result<()> {
    anyhow::ensure!(
        rustls::crypto::aws_lc_rs::default_provider().install_default().is_ok(),
        "a TLS provider is installed already"
    );
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?
        .block_on(serve(args))
}

async fn serve(args: Args) -> anyhow::Result<()> {
    let config = config(&args);
    let telemetry = famulus_telemetry::init(&config.telemetry)?;
    let metrics = telemetry.metrics();
    let mut signals = Signals::install()?;
    let tasks = Tasks::new();
    let anywhere = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
    let (public, internal) = (anywhere().await?, anywhere().await?);
    let (plugins, doors) = match &args.plugins {
        Some(folder) => sandboxes::of_this_machine(folder, [&public, &internal])?,
        None => (sandboxes::counting(args.counter), None),
    };
    let parts = Parts {
        connect: Connect {
            // Many processes share one test server, which plans every statement anew for each session.
            durable_sessions: 3,
            relaxed_sessions: 2,
            lease: Duration::from_millis(args.lease_ms),
            ..Connect::new(args.database)
        },
        config,
        model: Arc::new(model::Scripted { pace: Duration::from_millis(args.pace_ms) }),
        plugins,
        extra_tools: tools::all(args.counter),
        clock: Arc::new(SystemClock),
        metrics: Arc::new(move || metrics.text()),
    };
    let listeners = Listeners { public, internal, callback: None, doors };
    let sockets = Sockets { listeners, canary: None };
    let app = Box::pin(App::start(parts, sockets, &tasks))
        .await
        .context("the assistant did not start")?;
    if args.plugins.is_none() {
        sandboxes::describe(&app.store).await?;
    }
    token::ensure(&app.store, app.owner.id, &args.token_file).await?;
    app.ready();
    let ready = serde_json::json!({
        "public": app.public,
        "internal": app.internal,
        "worker": app.store.queue.worker,
    });
    writeln!(io::stdout(), "{ready}")?;

    let shutdown = tasks.token();
    tokio::select! {
        _signal = signals.wait_for_signal() => {}
        () = shutdown.cancelled() => {
            tracing::error!("something that the assistant cannot do without has ended");
        }
    }
    app.drain();
    let drained = tasks.drain(DRAIN).await;
    app.store.close().await;
    anyhow::ensure!(drained.stragglers.is_empty(), "still running: {:?}", drained.stragglers);
    Ok(())
}

fn config(args: &Args) -> Config {
    let mut config = Config::default();
    config.owner.time_zone = Some("UTC".to_owned());
    config.channels.http.webhook_url = Some(args.webhook.clone());
    config.channels.http.webhook_secret = Some(WEBHOOK_SECRET.into());
    config.channels.telegram.token =
        args.telegram.as_ref().map(|_there_is_one| TELEGRAM_TOKEN.into());
    config.channels.telegram.base_url.clone_from(&args.telegram);
    config.channels.signal.url.clone_from(&args.signal);
    config.channels.signal.serves_everybody = true;
    config.transcription.base_url = Some(args.listener.clone());
    config.transcription.name = Some("scripted".to_owned());
    config.queue.max_attempts = args.max_attempts;
    config.queue.lease_seconds = args.lease_ms as f64 / 1000.0;
    config.queue.grace_seconds = 0.2;
    // A question stays open until the test answers it, however slow the machine.
    config.turns.approval_seconds = 600;
    config.turns.concurrency = 32;
    // The client of a test repeats what was not answered, with one token, as fast as it can.
    config.api.requests_per_second = 100_000;
    config.api.requests_burst = 100_000;
    config.telemetry.log.clone_from(&args.log);
    config
}
