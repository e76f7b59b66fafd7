//! `famulus up` and `famulus serve`: from the configuration to a drained stop.

use crate::{
    app::{App, Parts, Sockets},
    args::ConfigCommand,
    backup,
    config::{self, KEYS, Takes},
    descriptors,
    paths::Paths,
    plugins::{Machine, Plugins, machine_settings},
    private,
    reload::{Reach, Reload},
    say,
    token::{self, FirstToken},
};
use anyhow::Context;
use famulus_api::Listeners;
use famulus_core::{clock::SystemClock, runner::Door};
use famulus_lifecycle::{OnExit, Signals, Tasks, memory};
use famulus_local::postgres::PrivatePostgres;
use famulus_models::Models;
use famulus_store::Connect;
use secrecy::ExposeSecret;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{net::TcpListener, sync::mpsc};

/// After a stop begins, everything has this long to end by itself.
const DRAIN: Duration = Duration::from_secs(20);
/// In a cluster, where the database starts beside this program, it is waited for so long.
const BESIDE: Duration = Duration::from_mins(1);

/// Where the database comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseSource {
    /// Started here, unless the configuration names another.
    Private,
    /// Must be named.
    External,
}

/// Starts the assistant and serves until a signal or the death of something it cannot do without.
pub async fn run(
    database: DatabaseSource,
    file: Option<PathBuf>,
    places: Paths,
) -> anyhow::Result<()> {
    let loaded = config::load(config_file(file.clone(), &places).as_deref())?;
    let telemetry = famulus_telemetry::init(&loaded.telemetry)?;
    let redactor = telemetry.redactor();
    let config = loaded.with_secrets(&redactor)?;
    let values = loaded.values()?;
    let data_dir = config.data_dir.clone().unwrap_or_else(|| places.data_dir.clone());
    descriptors::allow_all();
    let mut signals = Signals::install().context("signals cannot be received")?;
    let tasks = Tasks::new();

    // Ports first: a second start finds out before it touches anything.
    let public = bind("api.listen", config.api.listen).await?;
    let internal = bind("api.internal_listen", config.api.internal_listen).await?;
    let callback = bind_if("api.callback_listen", config.api.callback_listen).await?;
    let canary = bind_if("api.canary_listen", config.api.canary_listen).await?;
    let (plugins, doors) = plugins(&config, database, &data_dir, [&public, &internal])?;
    let sockets = Sockets { listeners: Listeners { public, internal, callback, doors }, canary };
    let demo = config.model.base_url.is_none();
    let model = Models::from_config(config.model.clone())?;
    let home = backup::Home::new(
        config.backup.clone(),
        data_dir.clone(),
        config_file(file.clone(), &places),
        backup::Where::of(config.cluster.as_ref(), &config.database, &config.plugins, &data_dir)?,
    )?;

    let postgres = match (&config.database.url, database) {
        (Some(_), _) => None,
        (None, DatabaseSource::External) => anyhow::bail!(
            "no database is named; set DATABASE_URL (postgres://user@host:5432/database), or use \
             `famulus up`, which starts a private one"
        ),
        (None, DatabaseSource::Private) => {
            Some(private::start(&config.database, &data_dir, &tasks).await?)
        }
    };
    let url = match (&config.database.url, &postgres) {
        (Some(url), _) => url.expose_secret().to_owned(),
        (None, Some(private)) => private.url(),
        (None, None) => String::new(),
    };

    let metrics = telemetry.metrics();
    let parts = Parts {
        connect: Connect {
            durable_sessions: config.database.durable_sessions,
            relaxed_sessions: config.database.relaxed_sessions,
            patience: if config.cluster.is_some() { BESIDE } else { Duration::ZERO },
            lease: Duration::try_from_secs_f64(config.queue.lease_seconds)
                .context("`queue.lease_seconds` must be a positive number of seconds")?,
            ..Connect::new(url)
        },
        config: config.clone(),
        model: model.clone(),
        plugins,
        extra_tools: Vec::new(),
        clock: Arc::new(SystemClock),
        metrics: Arc::new(move || metrics.text()),
    };
    let opened = backup::Opened { home, database: config.database.clone() };
    let started = async {
        if let Some(postgres) = &postgres {
            backup::before_migration(&opened.home, &postgres.place()).await?;
        }
        anyhow::Ok(App::start(parts, sockets, &tasks).await?)
    };
    let started = Box::pin(started).await;
    let app = match started {
        Ok(app) => app,
        Err(error) => {
            if tasks.drain(DRAIN).await.stragglers.is_empty() {
                tracing::debug!("everything that had started has ended");
            }
            if let Some(postgres) = postgres {
                postgres.stop().await;
            }
            return Err(error);
        }
    };
    let token_path = token::path(&data_dir);
    // A file that is there is told to the database again: the start that should have done so may
    // have died in between.
    let first = if database == DatabaseSource::Private || app.owner_is_new || token_path.exists() {
        token::ensure(&app.store, app.owner.id, &token_path).await?
    } else {
        FirstToken::Known
    };
    if let FirstToken::New(token) | FirstToken::Renewed(token) = &first {
        config::hide(&redactor, token.expose_secret());
    }
    let secret = config.cluster.as_ref().and_then(|cluster| cluster.token_secret.as_ref());
    if let FirstToken::Revoked(error) = &first {
        tracing::warn!(
            error = famulus_errors::chain(error),
            remedy = token::remedy(&token_path, secret),
            "the first token was revoked, and its file cannot be given a new one",
        );
    }
    let your_token = first.in_words(&token_path, secret);
    announce(&app, &token_path, &your_token, postgres.as_ref(), demo);
    if let Some(postgres) = &postgres {
        backup::schedule(
            opened,
            postgres.place(),
            app.backups.clone(),
            app.notices.clone(),
            &tasks,
        );
    } else if config.backup.overdue_hours > 0 {
        let (told, notices) = (app.backups.clone(), app.notices.clone());
        backup::watch(config.backup.overdue_hours, told, notices, &tasks);
    }
    let log = move |filter: &str| {
        if let Err(error) = telemetry.set_level(filter) {
            tracing::warn!(error = %error, "telemetry.log was not changed");
        }
    };
    let reach = Reach { model, redactor, log: Box::new(log) };
    let find = Box::new(move || config_file(file.clone(), &places));
    let reload = Reload::new(&app, find, values, reach);
    tasks.spawn("config.reload", OnExit::Log, reload.run(tasks.token()));
    tasks.spawn("memory", OnExit::Log, memory::give_back(tasks.token()));
    app.ready();

    let ended = tasks.token();
    tokio::select! {
        signal = signals.wait_for_signal() => {
            tracing::info!(?signal, "stopping: running turns may finish, others are handed over");
        }
        () = ended.cancelled() => {
            tracing::error!("something that the assistant cannot do without has ended; stopping");
        }
    }
    app.drain();
    let drained = tasks.drain_or(DRAIN, signals.wait_for_signal()).await;
    if !drained.stragglers.is_empty() {
        tracing::warn!(stragglers = ?drained.stragglers, "some work did not end in time");
    }
    app.store.close().await;
    if let Some(postgres) = postgres {
        let stopped = postgres.stop().await;
        tracing::info!(?stopped, "the private Postgres has stopped");
    }
    Ok(())
}

/// Doors of plugins that were opened and wait to be served.
const DOORS: usize = 16;

/// Where plugins run, and the doors through which they call. On one machine that is this machine, where the
/// database is its own.
fn plugins(
    config: &config::Config,
    database: DatabaseSource,
    data_dir: &Path,
    listeners: [&TcpListener; 2],
) -> anyhow::Result<(Plugins, Option<mpsc::Receiver<Door>>)> {
    if let Some(cluster) = config.cluster.clone() {
        return Ok((Plugins::Cluster(cluster), None));
    }
    if database == DatabaseSource::External || config.database.url.is_some() {
        return Ok((Plugins::Disabled, None));
    }
    let mut settings = machine_settings(&config.plugins, data_dir)?;
    let denied = listeners.into_iter().map(TcpListener::local_addr);
    settings.denied = denied.collect::<Result<_, _>>().context("no address of its own")?;
    let (doors, opened) = mpsc::channel(DOORS);
    let allow_hosts = config.plugins.allow_hosts.clone();
    Ok((Plugins::Machine(Machine { settings, doors, allow_hosts }), Some(opened)))
}

/// `famulus migrate`: brings the database up to date, for those who may not do it themselves.
pub async fn migrate(file: Option<PathBuf>, places: Paths) -> anyhow::Result<()> {
    let loaded = config::load(config_file(file, &places).as_deref())?;
    let telemetry = famulus_telemetry::init(&loaded.telemetry)?;
    let Some(url) = loaded.database(&telemetry.redactor())?.url else {
        anyhow::bail!(
            "no database is named; set DATABASE_URL (postgres://user@host:5432/database) to the \
             one to bring up to date"
        )
    };
    let connect = Connect { patience: BESIDE, ..Connect::new(url.expose_secret()) };
    let target = famulus_store::migrate(&connect).await?;
    say::line(&format!("The database at {target} is up to date."));
    Ok(())
}

/// Prints the first token to a person, and to nobody else.
pub fn show_token(file: Option<PathBuf>, places: Paths) -> anyhow::Result<()> {
    let data_dir = data_dir(file, places)?;
    let token = token::read(&token::path(&data_dir))?;
    anyhow::ensure!(
        say::is_to_a_person(),
        "the token is printed only to a terminal; read the file {} instead",
        token::path(&data_dir).display()
    );
    say::line(token.expose_secret());
    Ok(())
}

/// `famulus config`.
pub fn config(command: ConfigCommand, file: Option<PathBuf>, places: Paths) -> anyhow::Result<()> {
    match command {
        ConfigCommand::Keys => {
            for key in KEYS {
                let takes = match key.takes {
                    Takes::Live => "live",
                    Takes::Restart => "restart",
                };
                say::line(&format!("{:<36} {takes:<8} {}", key.path, key.meaning));
            }
        }
        ConfigCommand::Check => {
            let file = config_file(file, &places);
            config::load(file.as_deref())?;
            let from = file.map_or_else(|| "defaults".to_owned(), |f| f.display().to_string());
            say::line(&format!("The configuration is good ({from})."));
        }
    }
    Ok(())
}

/// The data directory in force.
pub fn data_dir(file: Option<PathBuf>, places: Paths) -> anyhow::Result<PathBuf> {
    let loaded = config::load(config_file(file, &places).as_deref())?;
    Ok(loaded.data_dir.unwrap_or(places.data_dir))
}

pub(crate) fn config_file(given: Option<PathBuf>, places: &Paths) -> Option<PathBuf> {
    given.or_else(|| places.config.exists().then(|| places.config.clone()))
}

async fn bind_if(
    key: &str,
    address: Option<std::net::SocketAddr>,
) -> anyhow::Result<Option<TcpListener>> {
    match address {
        Some(address) => bind(key, address).await.map(Some),
        None => Ok(None),
    }
}

async fn bind(key: &str, address: std::net::SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.with_context(|| {
        format!(
            "`{key}` is {address}, where this program may not listen: another one does already (is \
             Famulus running?), or the address is not this machine's; stop the other, or set \
             `{key}` to another address"
        )
    })
}

/// A few lines for the person: where it listens, how to talk to it, what it can do.
fn announce(
    app: &App,
    token_path: &Path,
    your_token: &str,
    postgres: Option<&PrivatePostgres>,
    demo: bool,
) {
    let url = format!("http://{}", app.public);
    let database = postgres.map_or_else(
        || app.store.target(),
        |private| format!("private Postgres {}", private.version()),
    );
    let port = app.public.port();
    let elsewhere = if port == 3000 { String::new() } else { format!(" --url {url}") };
    say::line(&format!("Famulus listens on {url} ({database})."));
    say::line(&format!("  Talk to it:  famulus chat{elsewhere}"));
    say::line(&format!(
        "  or:          curl -u :\"$(cat {})\" -H 'content-type: application/json' \\\n                 -d '{{\"message\":\"Remember that my cat is called Miso. What time is it?\"}}' {url}/chat",
        token_path.display()
    ));
    say::line(&format!("  Your token:  {your_token}"));
    say::line(&format!("  It can:      {}", app.tool_names.join(", ")));
    if demo {
        say::line(
            "  Model:       demo, built in: it really uses the tools. For a real one set model.base_url,\n               model.name and model.api_key (`famulus config keys`).",
        );
    } else {
        say::line(&format!("  Model:       {}", app.configured.borrow().model));
    }
    say::line("  Stop it:     Ctrl-C");
}
