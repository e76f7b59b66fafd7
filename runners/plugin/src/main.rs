//! famulus-runner: runs the tools of one plugin for the app, and makes it ready before.
//!
//! ```text
//! famulus-runner            serves
//! famulus-runner probe      looks at the network of the Pod
//! famulus-runner bundle     makes a revision of a source and hands it to the app
//! famulus-runner build      makes a tree of a revision on the plugin's volume
//! famulus-runner await      waits until the one that serves beside it listens
//! famulus-runner check      tries what holds a call, on one machine
//! famulus-runner give       writes what the plugin keeps to standard output, for a backup of one machine
//! famulus-runner take       puts it back beside a tree that was built
//! famulus-runner launch     makes a sandbox of one machine, and runs a program in it
//! ```
//!
//! All settings are variables of its environment (`FAMULUS_RUNNER_…`). The same program is also the
//! supervisor of a call and the last step before the tool.

mod step;

use std::env;
use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use famulus_errors::chain;
use famulus_launcher::Asked;
use famulus_lifecycle::{OnExit, Signals, Tasks};
use famulus_runner::follow::{Follower, watch_network};
use famulus_runner::settings::{Cluster, Settings, SettingsError};
use famulus_runner::{Keeping, Plugin, lead, listen};
use famulus_runner_harness::supervisor::{Stage, Supervisor, SupervisorError};
use famulus_runner_harness::{
    Bearer, Endpoint, HardenError, Harness, HarnessError, Listener, Mount, Parts, harden,
};
use famulus_telemetry::{Config, Format, Redactor};

use step::Step;

/// How long tasks get to end when the calls have ended.
const LAST: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Telemetry(#[from] famulus_telemetry::Error),
    #[error(transparent)]
    Harden(#[from] HardenError),
    #[error(transparent)]
    Supervisor(#[from] SupervisorError),
    #[error("the bearer cannot be read from {path}; mount the Secret that holds it")]
    Bearer { path: PathBuf, source: io::Error },
    #[error("the folder {path} cannot be made; give the runner's user the folder above it")]
    Folder { path: PathBuf, source: io::Error },
    #[error("the runner cannot listen on {at}; see who uses it")]
    Listen { at: Endpoint, source: io::Error },
    #[error(transparent)]
    Harness(#[from] HarnessError),
    #[error("the report cannot be written to {path}; set FAMULUS_RUNNER_TERMINATION_LOG to a file")]
    Report { path: PathBuf, source: io::Error },
    #[error("the operating system refused to start threads, or to pass on signals")]
    System(#[source] io::Error),
}

fn main() -> ExitCode {
    let arguments: Vec<_> = env::args_os().skip(1).collect();
    if let Some(asked) = Asked::of(&arguments) {
        return asked.run();
    }
    if let Some(stage) = Stage::of(arguments.iter().cloned()) {
        return stage.run();
    }
    let step = match Step::of(&arguments) {
        Ok(step) => step,
        Err(unknown) => return say(&unknown),
    };
    // Two threads: the work is waiting for other processes.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(Failed::System).and_then(|runtime| {
        runtime.block_on(async {
            match step {
                Some(step) => step.take().await,
                None => run().await.map(|()| ExitCode::SUCCESS),
            }
        })
    });
    match done {
        Ok(code) => code,
        Err(error) => say(&chain(&error)),
    }
}

async fn run() -> Result<(), Failed> {
    // First of all: the first process of a container does not hear what comes before.
    let mut signals = Signals::install().map_err(Failed::System)?;
    let settings = Settings::read(env::vars_os())?;
    harden()?;
    let format = if settings.json { Format::Json } else { Format::Text };
    let telemetry =
        famulus_telemetry::init(&Config { log: settings.log, format, ..Config::default() })?;
    let mount = settings.cluster.as_ref().map(|cluster| Mount::new(cluster.mounted.clone()));
    let bearer = match &mount {
        Some(mount) => Bearer::mounted(mount.clone()),
        None => Bearer::new(settings.bearer.clone()),
    };
    let secret = bearer.read();
    let secret =
        secret.map_err(|source| Failed::Bearer { path: settings.bearer.clone(), source })?;
    if telemetry.redactor().add(&secret.bearer).is_err() {
        tracing::warn!("the bearer is so short that it cannot be kept out of the log");
    }
    let cache = &settings.sandbox.environment.cache;
    for folder in [cache.join("uv"), cache.join("home")] {
        make(folder)?;
    }

    let supervisor = Supervisor::new()?;
    let at = settings.listen;
    let listener = match listen(&at).await {
        Ok(listener) => listener,
        Err(source) => return Err(Failed::Listen { at, source }),
    };
    match &listener {
        Listener::Tcp(bound) => {
            if let Ok(address) = bound.local_addr() {
                tracing::info!(%address, "the runner listens");
            }
        }
        Listener::Unix(_) => tracing::info!(socket = %at, "the runner listens"),
    }
    let mut hidden = vec![settings.bearer];
    hidden.extend(settings.sandbox.packages.files());
    let keeping = mount.as_ref().zip(settings.cluster.as_ref());
    let keeping = keeping.map(|(mount, cluster)| Keeping::new(mount, cluster, &settings.sandbox));
    let plugin = Plugin::new(settings.sandbox, hidden, keeping);
    let tasks = Tasks::new();
    tasks.spawn("runner.budget", OnExit::ShutDown, plugin.clone().keep_budget(tasks.token()));
    if let (Some(mount), Some(cluster)) = (mount, settings.cluster) {
        let redactor = telemetry.redactor();
        follow(plugin.clone(), mount, cluster, supervisor.clone(), redactor, &tasks)?;
    }
    let watched = plugin.clone();
    let parts = Parts {
        work: Arc::new(plugin),
        listener,
        bearer,
        kept: settings.kept,
        supervisor,
        limits: settings.limits,
        retry: settings.retry,
    };
    let harness = Harness::start(parts, &tasks)?;

    let ended = tasks.token();
    tokio::select! {
        signal = signals.wait_for_signal() => tracing::info!(?signal, "the runner drains"),
        () = ended.cancelled() => {}
    }
    // In an open network nobody runs on.
    let patience = if watched.is_isolated() { settings.drain } else { Duration::ZERO };
    tokio::select! {
        () = harness.drain(patience) => {}
        _now = signals.wait_for_signal() => {}
    }
    let drained = tasks.drain(LAST).await;
    if !drained.stragglers.is_empty() {
        tracing::warn!(tasks = ?drained.stragglers, "tasks were ended by force");
    }
    Ok(())
}

/// Keeps the runner with what the operator wants.
fn follow(
    plugin: Plugin,
    mount: Mount,
    cluster: Cluster,
    supervisor: Supervisor,
    redactor: Redactor,
    tasks: &Tasks,
) -> Result<(), Failed> {
    let link = plugin.path().to_owned();
    let led = lead(&link, &cluster.volume.join("active"));
    led.map_err(|source| Failed::Folder { path: link, source })?;
    let watch = watch_network(plugin.clone(), cluster.clone(), tasks.token());
    let follower = Follower::new(plugin, mount, &cluster, supervisor, redactor);
    tasks.spawn("runner.network", OnExit::ShutDown, watch);
    tasks.spawn("runner.follow", OnExit::ShutDown, follower.run(tasks.token()));
    Ok(())
}

fn make(path: PathBuf) -> Result<(), Failed> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|source| Failed::Folder { path, source })
}

fn say(message: &str) -> ExitCode {
    // Nobody is left to tell when standard error is gone.
    let _gone = writeln!(io::stderr(), "famulus-runner: {message}");
    ExitCode::FAILURE
}
