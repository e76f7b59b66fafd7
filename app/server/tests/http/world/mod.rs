//! An assistant on a fresh database, and callers of it.

mod child;
pub(crate) mod client;
mod database;
mod documented;
mod logs;
mod puppet;
mod raw;
mod terminal;
pub(crate) mod watch;

pub(crate) use child::Child;
pub(crate) use client::Client;
pub(crate) use database::Database;
pub(crate) use logs::Logs;
pub(crate) use puppet::{Do, Puppet, Text, call, say};
pub(crate) use raw::Raw;
pub(crate) use terminal::Terminal;

use famulus_api::Listeners;
use famulus_core::{Clock, clock::SystemClock, model::Model, person::Scope};
use famulus_lifecycle::Tasks;
use famulus_models::Models;
use famulus_server::{
    app::{App, Parts, Sockets},
    config::Config,
    plugins::Plugins,
    token,
};
use famulus_store::Connect;
use famulus_tools::Tool;
use futures::FutureExt as _;
use parking_lot::Mutex;
use reqwest::{Method, RequestBuilder};
use secrecy::ExposeSecret as _;
use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::Arc,
    time::Duration,
};
use tokio::net::TcpListener;

/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_mins(1);

/// How an assistant is started.
pub(crate) struct Setup {
    pub(crate) config: Config,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) plugins: Plugins,
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Setup {
    /// With this model, and limits that a test does not meet by accident.
    pub(crate) fn new(model: Arc<dyn Model>) -> Self {
        let mut config = Config::default();
        config.owner.time_zone = Some("UTC".into());
        config.queue.grace_seconds = 0.1;
        config.api.requests_per_second = 1_000_000;
        config.api.requests_burst = 1_000_000;
        Self {
            config,
            model,
            plugins: Plugins::Disabled,
            tools: Vec::new(),
            clock: Arc::new(SystemClock),
        }
    }

    /// With whatever model the section `model` of the configuration describes.
    pub(crate) fn configured(model: famulus_models::Config) -> Self {
        install_tls();
        Self::new(Models::from_config(model).unwrap())
    }

    pub(crate) fn tool(mut self, tool: Arc<dyn Tool>) -> Self {
        self.tools.push(tool);
        self
    }

    pub(crate) fn set(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }
}

/// A database and the assistants on it.
pub(crate) struct World {
    pub(crate) database: Database,
    /// The first assistant's owner.
    pub(crate) owner: Client,
    token: String,
    running: Mutex<Vec<(Tasks, App)>>,
}

/// Runs a test with an assistant on a fresh database.
pub(crate) async fn run<T: AsyncFnOnce(&World)>(setup: Setup, test: T) {
    install_tls();
    let database = Database::create().await;
    let secret = token::fresh().expose_secret().to_owned();
    let tasks = Tasks::new();
    let app = start(setup, &database, &tasks).await;
    app.ready();
    app.store.create_token(app.owner.id, "test", Scope::Owner, token::hash(&secret)).await.unwrap();
    let owner = Client::new(app.public, &secret);
    let world = World { database, owner, token: secret, running: Mutex::new(vec![(tasks, app)]) };
    let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
    let World { database, running, .. } = world;
    for (tasks, app) in running.into_inner() {
        let _stragglers = tasks.drain(Duration::from_secs(5)).await;
        app.store.close().await;
    }
    database.drop().await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl World {
    /// A request at the first assistant's callback listener, with credentials that count in these tests.
    pub(crate) fn at_sandbox_door(&self, method: Method, path: &str) -> RequestBuilder {
        let address = self.running.lock()[0].1.callback.unwrap();
        self.owner
            .anybody(method, format!("http://{address}{path}"))
            .bearer_auth("yes")
            .header("famulus-plugin", "weather")
            .header("famulus-rendered", "1")
    }

    /// The first assistant.
    pub(crate) fn app<R>(&self, see: impl FnOnce(&App) -> R) -> R {
        see(&self.running.lock()[0].1)
    }

    /// Ends the first assistant.
    pub(crate) async fn end_first(&self) {
        let (tasks, app) = self.running.lock().remove(0);
        let _stragglers = tasks.drain(Duration::from_secs(5)).await;
        app.store.close().await;
    }

    /// Starts another assistant on the same database; its owner is the same.
    pub(crate) async fn another(&self, setup: Setup) -> Client {
        let owner = Box::pin(self.beginning(setup)).await;
        self.has_begun();
        owner
    }

    /// The same, which is not ready yet.
    pub(crate) async fn beginning(&self, setup: Setup) -> Client {
        let tasks = Tasks::new();
        let app = start(setup, &self.database, &tasks).await;
        let owner = Client::new(app.public, &self.token);
        self.running.lock().push((tasks, app));
        owner
    }

    /// The assistant that was started last is ready.
    pub(crate) fn has_begun(&self) {
        self.running.lock().last().unwrap().1.ready();
    }
}

async fn start(setup: Setup, database: &Database, tasks: &Tasks) -> App {
    let Setup { config, model, plugins, tools, clock } = setup;
    let parts = Parts {
        connect: Connect {
            durable_sessions: 4,
            relaxed_sessions: 3,
            ..Connect::new(database.url())
        },
        config,
        model,
        plugins,
        extra_tools: tools,
        clock,
        metrics: Arc::new(String::new),
    };
    let listeners = Listeners {
        public: listen().await,
        internal: listen().await,
        callback: Some(listen().await),
        doors: None,
    };
    let sockets = Sockets { listeners, canary: Some(listen().await) };
    Box::pin(App::start(parts, sockets, tasks)).await.unwrap()
}

async fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

pub(crate) fn install_tls() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let _other = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
}

/// Waits for what must happen, and says what did not.
pub(crate) async fn soon<T>(what: &str, happens: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, happens)
        .await
        .unwrap_or_else(|_| panic!("this did not happen within {PATIENCE:?}: {what}"))
}
