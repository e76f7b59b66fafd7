//! famulus-operator: makes Pods of Plugins.
//!
//! All of its settings are variables of its environment (`FAMULUS_OPERATOR_…`).

use std::env;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Signals, Tasks, memory};
use famulus_operator::context::Context;
use famulus_operator::controller;
use famulus_operator::health::{self, Health};
use famulus_operator::leading;
use famulus_operator::lease::Candidate;
use famulus_operator::settings::Settings;
use famulus_operator::setup;
use famulus_telemetry::Format;
use kube::Client;
use tokio::net::TcpListener;

/// How long the tasks of the process get to end.
const LAST: Duration = Duration::from_secs(1);

/// For one request of the writing client. A watch may be silent for longer.
const ANSWER: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Settings(#[from] famulus_settings::Error),
    #[error(transparent)]
    Telemetry(#[from] famulus_telemetry::Error),
    #[error("the {what} cannot be read from {path}; mount the Secret that the installation made")]
    Key { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the {what} in {path} has less than 32 bytes; let the installation make it anew")]
    ShortKey { what: &'static str, path: PathBuf },
    #[error("nothing says where the API server is; run it in a cluster, or set KUBECONFIG")]
    NoCluster(#[source] kube::config::InferConfigError),
    #[error("a client of the API server cannot be made")]
    Client(#[source] kube::Error),
    #[error("the operator cannot listen on {address}; see who uses it")]
    Listen { address: SocketAddr, source: io::Error },
    #[error(transparent)]
    Bootstrap(#[from] setup::bootstrap::Error),
    #[error(transparent)]
    Retire(#[from] setup::retire::Error),
    #[error("the operating system refused to start threads, or to pass on signals")]
    System(#[source] io::Error),
}

fn main() -> ExitCode {
    let job = match env::args_os().nth(1).as_ref().map(|word| word.to_str()) {
        None => None,
        Some(Some("bootstrap")) => Some(Job::Bootstrap),
        Some(Some("retire")) => Some(Job::Retire),
        Some(_) => {
            return say(
                "it takes no argument, or one of bootstrap and retire, which the chart's Jobs \
                 pass; its settings are variables of its environment",
            );
        }
    };
    // Two threads: the work is waiting for the API server.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failed::System).and_then(|runtime| {
        runtime.block_on(async {
            match job {
                Some(job) => job.run().await,
                None => run().await,
            }
        })
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => say(&chain(&error)),
    }
}

/// What is done once, before the operator or after it.
#[derive(Clone, Copy)]
enum Job {
    Bootstrap,
    Retire,
}

impl Job {
    async fn run(self) -> Result<(), Failed> {
        let config = famulus_telemetry::Config { format: Format::Json, ..Default::default() };
        let _telemetry = famulus_telemetry::init(&config)?;
        let (_watching, client) = clients(&cluster().await?)?;
        let environment = |name: &str| env::var_os(name).and_then(|value| value.into_string().ok());
        match self {
            Self::Bootstrap => setup::bootstrap::run(client, &environment).await?,
            Self::Retire => setup::retire::run(client, &environment).await?,
        }
        Ok(())
    }
}

async fn run() -> Result<(), Failed> {
    let settings = Settings::read(env::vars_os())?;
    let telemetry = famulus_telemetry::init(&famulus_telemetry::Config {
        log: settings.log.clone(),
        format: if settings.log_json { Format::Json } else { Format::Text },
        otlp_endpoint: settings.otlp_endpoint.clone(),
    })?;
    let root_key = key("root key", settings.root_key_file.clone())?;
    let keeper_key = settings.keeper_key_file.clone();
    let keeper_key = keeper_key.map(|path| key("key of backups", path)).transpose()?;
    let mut signals = Signals::install().map_err(Failed::System)?;
    let tasks = Tasks::new();
    tasks.spawn("memory", OnExit::Log, memory::give_back(tasks.token()));
    let health = Health::default();
    let listener = listen(settings.listen).await?;
    health::serve(listener, health.clone(), telemetry.metrics(), &tasks);

    let config = cluster().await?;
    let (_watching, client) = clients(&config)?;
    let lease = format!("{}-operator", settings.release);
    let candidate =
        Candidate::new(client, &settings.system_namespace, lease, settings.identity.clone());
    let asked = async || {
        tokio::select! {
            signal = signals.wait_for_signal() => tracing::info!(?signal, "the operator ends"),
            () = tasks.token().cancelled_owned() => {}
        }
    };
    leading::lead(&candidate, &health, asked, |tasks, stop| {
        // Connections of its own: what was asked over others is not asked any more.
        let (watching, writing) = clients(&config)?;
        let (namespace, pods) = (settings.sandbox_namespace.clone(), settings.pods.clone());
        let context = Context::new(writing, namespace, pods, root_key.clone());
        let context = Arc::new(context.with_keeper_key(keeper_key.clone()));
        Ok::<_, Failed>(controller::run(context, watching, tasks, stop))
    })
    .await?;
    // Whoever is left is named in the log.
    let _left = tasks.drain(LAST).await;
    Ok(())
}

fn key(what: &'static str, path: PathBuf) -> Result<Vec<u8>, Failed> {
    match std::fs::read(&path) {
        Ok(key) if key.len() < 32 => Err(Failed::ShortKey { what, path }),
        Ok(key) => Ok(key),
        Err(source) => Err(Failed::Key { what, path, source }),
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, Failed> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|source| Failed::Listen { address, source })?;
    if let Ok(address) = listener.local_addr() {
        tracing::info!(%address, "health and metrics are served");
    }
    Ok(listener)
}

async fn cluster() -> Result<kube::Config, Failed> {
    // Whoever was first to install one has installed the same.
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    kube::Config::infer().await.map_err(Failed::NoCluster)
}

/// One for watches and one for the rest, each with connections of its own: neither waits for the
/// other. The operator itself decides when a refused write is tried again.
fn clients(config: &kube::Config) -> Result<(Client, Client), Failed> {
    let watching = Client::try_from(config.clone()).map_err(Failed::Client)?;
    let mut config = config.clone();
    config.read_timeout = Some(ANSWER);
    config.default_retry = false;
    let writing = Client::try_from(config).map_err(Failed::Client)?;
    Ok((watching, writing))
}

fn say(message: &str) -> ExitCode {
    // Nobody is left to tell when standard error is gone.
    let _gone = writeln!(io::stderr(), "famulus-operator: {message}");
    ExitCode::FAILURE
}
