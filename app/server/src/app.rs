//! The running assistant: every component built with what it asks for, and every task named.

use crate::{
    channels::{self, ArrivalWorker, Growing, Intake},
    config::Config,
    deliveries::DeliveryWorker,
    notices::Notices,
    plugin_news,
    plugins::{Opened, Plugins, fixed_tokens},
    questions,
    queues::Queues,
    speech::Speech,
    sweeps::Sweeps,
    turns::TurnWorker,
    unknown,
};
use famulus_agent::{Driver, Limits, LiveTurns};
use famulus_api::{Api, Configured, Grantable, Listeners, Readiness, Standing};
use famulus_channels::http::outbound as http;
use famulus_core::{Clock, model::Model, person::Person};
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::{Class, hint::Topic};
use famulus_reception::{Arrivals, Reception};
use famulus_store::{Connect, ConnectError, Store};
use famulus_tools::{Catalogue, CatalogueError, PluginPorts, Ports, Tool};
use famulus_viewers::Hub;
use jiff::tz::TimeZone;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    sync::{Notify, watch},
};
use tokio_util::sync::CancellationToken;

/// Messages handed to channels at once.
const DELIVERIES: usize = 8;
/// Chats whose messages are taken in at once.
const ARRIVALS: usize = 8;

/// What an assistant is made of.
pub struct Parts {
    pub connect: Connect,
    pub config: Config,
    pub model: Arc<dyn Model>,
    /// Where plugins run.
    pub plugins: Plugins,
    /// Beside the built-in ones.
    pub extra_tools: Vec<Arc<dyn Tool>>,
    pub clock: Arc<dyn Clock>,
    /// Renders the metrics.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}

/// A started assistant. It runs in the tasks that it was given; ending them ends it.
pub struct App {
    pub store: Store,
    pub owner: Person,
    pub owner_is_new: bool,
    pub public: SocketAddr,
    pub internal: SocketAddr,
    /// For sandboxes, where there are some.
    pub callback: Option<SocketAddr>,
    /// The tools that can do something here.
    pub tool_names: Vec<String>,
    /// What people are told of the configuration.
    pub configured: watch::Sender<Configured>,
    /// How the backups stand, for whoever sees to them here.
    pub backups: watch::Sender<Option<Standing>>,
    /// The bounds of turns; sending new ones puts them in force.
    pub limits: watch::Sender<Limits>,
    /// For what the installation tells its owner by itself.
    pub notices: Notices,
    readiness: Readiness,
    /// Cancelled when requests are answered.
    open: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("the database failed while the assistant started")]
    Store(#[from] famulus_store::Error),
    #[error("the owner could not be made")]
    Owner(#[from] famulus_store::PersonError),
    #[error(transparent)]
    Speech(#[from] famulus_models::ConfigError),
    #[error(transparent)]
    Webhook(#[from] http::SetupError),
    #[error(transparent)]
    Tools(#[from] CatalogueError),
    #[error("plugins cannot be reached")]
    Plugins(#[from] crate::plugins::OpenError),
    #[error("an address that was bound cannot be read")]
    Address(#[source] std::io::Error),
    #[error("{0}")]
    Number(String),
}

/// The sockets that the assistant listens on.
#[derive(Debug)]
pub struct Sockets {
    pub listeners: Listeners,
    pub canary: Option<TcpListener>,
}

impl Sockets {
    /// Those of an assistant without sandboxes.
    pub fn front(public: TcpListener, internal: TcpListener) -> Self {
        Self {
            listeners: Listeners { public, internal, callback: None, doors: None },
            canary: None,
        }
    }
}

impl App {
    /// Connects, migrates, and starts every task.
    pub async fn start(parts: Parts, sockets: Sockets, tasks: &Tasks) -> Result<Self, StartError> {
        let Parts { connect, config, model, plugins, extra_tools, clock, metrics } = parts;
        let speech = Speech::of(&config)?;
        let grace = seconds("queue.grace_seconds", config.queue.grace_seconds)?;
        let shutdown = tasks.token();
        // The store outlives the shutdown's beginning, because what drains still needs it: it ends
        // when the last of those who hold `in_use` has ended.
        let store_end = CancellationToken::new();
        let in_use = Arc::new(store_end.clone().drop_guard());
        let (store, background) = Store::connect(connect, store_end).await?;
        for (name, task) in background.tasks {
            tasks.spawn(name, OnExit::ShutDown, task);
        }
        let queues =
            Queues { store: store.clone(), tasks, in_use, shutdown: shutdown.clone(), grace };
        let zone = config.owner.time_zone.clone().unwrap_or_else(machine_zone);
        let (owner, owner_is_new) = store.ensure_owner(&config.owner.name, &zone).await?;

        let everything = Arc::new(store.clone());
        let channels::All { channels, rules } =
            channels::all(&config.channels, everything.clone())?;
        let hearing: Vec<String> = rules.keys().cloned().collect();
        store.know_homes(channels::homes(&channels));
        let idle_tools = plugins.idle_tools();
        let Opened { ports: plugins, news } = plugins.open(&store, &clock, tasks).await?;
        let ports = Ports {
            clock: Arc::clone(&clock),
            knowledge: everything.clone(),
            schedules: everything.clone(),
            post: everything.clone(),
            ways: channels::ways(&channels),
            speaker: speech.speaker,
            plugins: PluginPorts {
                sandboxes: Arc::clone(&plugins.sandboxes),
                revisions: everything.clone(),
                late: everything.clone(),
                blobs: everything.clone(),
                managed: Arc::clone(&plugins.managed),
            },
        };
        let catalogue = Arc::new(Catalogue::with(&ports, extra_tools)?);
        let tools = catalogue.grantable().into_iter().map(|(tool, _)| tool);
        let tool_names = tools.filter(|tool| !idle_tools.contains(&tool.as_str())).collect();
        let configured = watch::Sender::new(Configured {
            model: Self::model_name(config.model.name.clone(), model.as_ref()),
            ..Configured::default()
        });

        let backups = watch::Sender::new(None);
        let hub = Hub::new(config.api.viewer_limit);
        tasks.spawn(
            "api.viewers",
            OnExit::ShutDown,
            Arc::clone(&hub).follow(
                everything.clone(),
                store.hints.subscribe(Topic::Event),
                shutdown.clone(),
            ),
        );
        let growing = Arc::new(Growing::new(hub.clone(), store.clone(), channels.clone()));
        let limits = watch::Sender::new(config.turns.limits());
        let live = LiveTurns::default();
        let driver = Driver {
            log: everything.clone(),
            events: everything.clone(),
            viewers: growing.clone(),
            model,
            transcriber: speech.transcriber,
            tools: catalogue.clone(),
            knowledge: everything.clone(),
            blobs: everything.clone(),
            clock: Arc::clone(&clock),
            channels: Arc::clone(&channels),
            limits: *limits.borrow(),
        };
        let notices = Notices {
            store: store.clone(),
            driver: driver.clone(),
            owner: owner.clone(),
            chats: hearing.clone(),
        };
        let turns = Arc::new(TurnWorker {
            driver,
            limits: limits.subscribe(),
            live: live.clone(),
            max_attempts: config.queue.max_attempts,
            growing,
        });
        tasks.spawn(
            "turns.stop",
            OnExit::ShutDown,
            live.watch(everything.clone(), store.hints.subscribe(Topic::Control), shutdown.clone()),
        );
        queues.work("queue.turns", Class::Turn, turns, config.turns.concurrency);
        if let Some(news) = news {
            let (notices, shutdown) = (notices.clone(), shutdown.clone());
            tasks.spawn_loop("plugins.news", OnExit::Restart, move || {
                plugin_news::tell(news.clone(), notices.clone(), shutdown.clone())
            });
        }
        let unknown = Arc::new(Notify::new());
        {
            let (notices, news, shutdown) = (notices.clone(), unknown.clone(), shutdown.clone());
            tasks.spawn_loop("deliveries.unknown", OnExit::Restart, move || {
                unknown::tell(notices.clone(), news.clone(), shutdown.clone())
            });
        }
        let deliveries =
            DeliveryWorker { store: store.clone(), channels: channels.clone(), unknown };
        queues.work("queue.deliveries", Class::Delivery, Arc::new(deliveries), DELIVERIES);
        let reception = Reception {
            desk: everything.clone(),
            viewers: hub.clone(),
            clock: Arc::clone(&clock),
            managed: Arc::clone(&plugins.managed),
        };
        let intake = Intake {
            arrivals: Arrivals {
                reception: reception.clone(),
                identities: everything.clone(),
                tell: everything.clone(),
            },
            rules,
            file_bytes: config.api.upload_bytes,
            day_bytes: config.channels.day_bytes,
        };
        for (name, channel) in channels.iter() {
            let Some(listener) = channel.listener() else { continue };
            let (store, name, shutdown) = (store.clone(), name.clone(), shutdown.clone());
            let intake = intake.clone();
            tasks.spawn_loop("channels.listener", OnExit::Restart, move || {
                let (store, name, listener) = (store.clone(), name.clone(), listener.clone());
                channels::listen(store, name, listener, intake.clone(), shutdown.clone())
            });
        }
        if !intake.rules.is_empty() {
            let worker = ArrivalWorker {
                store: store.clone(),
                channels: channels.clone(),
                intake,
                max_attempts: config.queue.max_attempts,
            };
            queues.work("queue.arrivals", Class::Arrival, Arc::new(worker), ARRIVALS);
        }
        {
            let (store, channels, shutdown) = (store.clone(), channels.clone(), shutdown.clone());
            tasks.spawn_loop("questions", OnExit::Restart, move || {
                questions::ask(store.clone(), channels.clone(), shutdown.clone())
            });
        }
        let sweeps = Sweeps {
            store: store.clone(),
            clock: Arc::clone(&clock),
            keep: config.retention,
            shutdown: shutdown.clone(),
        };
        sweeps.begin(tasks, plugins.installed.clone());

        let readiness = Readiness::default();
        let Sockets { listeners, canary } = sockets;
        let addresses = (
            listeners.public.local_addr().map_err(StartError::Address)?,
            listeners.internal.local_addr().map_err(StartError::Address)?,
        );
        let callback = listeners.callback.as_ref().map(TcpListener::local_addr).transpose();
        let callback = callback.map_err(StartError::Address)?;
        if let Some(canary) = canary {
            let greeting = famulus_api::canary(canary, shutdown.clone());
            tasks.spawn("api.canary", OnExit::ShutDown, greeting);
        }
        let api = Api {
            store: store.clone(),
            reception,
            hub,
            config: config.api,
            readiness: readiness.clone(),
            metrics,
            sandboxes: plugins.sandboxes,
            runners: plugins.runners,
            managed: plugins.managed,
            plugin_tokens: fixed_tokens(catalogue.as_ref()),
            catalogue: catalogue
                .grantable()
                .into_iter()
                .map(|(tool, actions)| Grantable { tool, actions })
                .collect(),
            started: clock.now(),
            clock,
            configured: configured.subscribe(),
            hearing,
            linkers: channels::linkers(&channels),
            backups: backups.subscribe(),
        };
        let open = CancellationToken::new();
        let opened = open.clone();
        let serving = async move {
            // Who came earlier waits at the socket: the token that they read may not be known yet.
            tokio::select! {
                () = opened.cancelled() => {}
                () = shutdown.cancelled() => {}
            }
            if let Err(error) = api.serve(listeners, shutdown).await {
                tracing::error!(error = %chain(&error), "the API has ended");
            }
        };
        queues.hold("api", serving);
        Ok(Self {
            store,
            owner,
            owner_is_new,
            public: addresses.0,
            internal: addresses.1,
            callback,
            tool_names,
            configured,
            backups,
            limits,
            notices,
            readiness,
            open,
        })
    }

    /// The model as people know it: as the configuration names it, else by its adapter.
    pub(crate) fn model_name(configured: Option<String>, model: &dyn Model) -> String {
        configured.unwrap_or_else(|| model.provider().to_owned())
    }

    /// Says that the assistant may be talked to: from now on requests are answered.
    pub fn ready(&self) {
        self.open.cancel();
        self.readiness.started();
    }

    /// Says that it is about to stop.
    pub fn drain(&self) {
        self.readiness.draining();
    }
}

fn seconds(key: &str, value: f64) -> Result<Duration, StartError> {
    Duration::try_from_secs_f64(value).map_err(|_| {
        StartError::Number(format!("`{key}` is {value}; write a positive number of seconds"))
    })
}

/// The machine's zone by its IANA name, or UTC when it has none.
fn machine_zone() -> String {
    TimeZone::system().iana_name().unwrap_or("UTC").to_owned()
}
