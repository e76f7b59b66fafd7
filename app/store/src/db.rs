//! The store, and transactions that name whom they act for.

use crate::{
    accept::{self, AcceptBatches},
    error::{ConnectError, Error},
    events::EventWriter,
    finish::{self, Endings},
    gather::Gather,
    opening::{Connect, pool, prepare, target_of},
    reach::Homes,
    take_up::{self, Beginnings},
};
use famulus_core::ids::PersonId;
use famulus_lifecycle::boxed;
use famulus_queue::{Queue, hint::Hints};
use sqlx::{
    AssertSqlSafe, Executor, PgConnection, PgPool, Postgres, Transaction,
    postgres::PgConnectOptions,
};
use std::{
    fmt::Write as _,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Closing waits this long for sessions that still work.
const CLOSING: Duration = Duration::from_secs(5);

/// The store. Cheap to clone.
#[derive(Clone)]
pub struct Store {
    pub(crate) durable: PgPool,
    pub(crate) relaxed: PgPool,
    pub(crate) accept_queue: Gather<AcceptBatches>,
    pub(crate) beginnings: Gather<Beginnings>,
    pub(crate) endings: Gather<Endings>,
    pub(crate) events: EventWriter,
    pub queue: Queue,
    pub hints: Hints,
    pub(crate) homes: Arc<OnceLock<Homes>>,
    options: Arc<PgConnectOptions>,
}

/// Work that the store does in the background; each future runs until the token ends, and is to be
/// spawned under its name.
pub struct Background {
    pub tasks: Vec<(&'static str, futures::future::BoxFuture<'static, ()>)>,
}

/// Whose rows a transaction may touch.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    Person(PersonId),
    Persons(&'a [PersonId]),
    /// Sweeps over everybody: schedules that fall due, deliveries, retention.
    System,
}

pub(crate) type Tx = Transaction<'static, Postgres>;

impl Store {
    /// Connects, checks version and role, migrates, and prepares the pools.
    ///
    /// # Errors
    /// [`ConnectError`] names what is wrong with the database and the remedy.
    #[boxed]
    pub async fn connect(
        connect: Connect,
        shutdown: CancellationToken,
    ) -> Result<(Self, Background), ConnectError> {
        let (options, role) = prepare(&connect).await?;

        let durable = pool(&options, connect.durable_sessions, role, "on");
        let relaxed = pool(&options, connect.relaxed_sessions, role, "off");
        let queue = Queue::new(relaxed.clone(), connect.lease);
        let hints = Hints::new(queue.worker);
        let accept_batches = AcceptBatches {
            sessions: std::array::from_fn(|_| pool(&options, 1, role, "on")),
            queue: queue.clone(),
            hints: hints.clone(),
        };
        let (accept_queue, accept_loop) =
            Gather::start(accept_batches, accept::BOUNDS, shutdown.clone());
        let beginnings = Beginnings { pool: relaxed.clone() };
        let (beginnings, beginning_loop) =
            Gather::start(beginnings, take_up::BOUNDS, shutdown.clone());
        let endings = Endings { pool: durable.clone(), hints: hints.clone() };
        let (endings, ending_loop) = Gather::start(endings, finish::BOUNDS, shutdown.clone());
        let (events, event_loop) =
            EventWriter::start(options.clone(), role, hints.clone(), shutdown.clone());
        let notifier = hints.clone().run_notifier(relaxed.clone(), shutdown.clone());
        let listener = hints.clone().run_listener(options.clone(), shutdown);
        let store = Self {
            durable,
            relaxed,
            accept_queue,
            beginnings,
            endings,
            events,
            queue,
            hints,
            homes: Arc::default(),
            options: Arc::new(options),
        };
        let tasks = vec![
            ("store.accept", accept_loop),
            ("store.take_up", beginning_loop),
            ("store.finish", ending_loop),
            ("store.events", event_loop),
            ("queue.notifier", Box::pin(notifier) as _),
            ("queue.listener", Box::pin(listener) as _),
        ];
        Ok((store, Background { tasks }))
    }

    /// Where the store is, without credentials.
    pub fn target(&self) -> String {
        target_of(&self.options)
    }

    /// Whether the database answers.
    #[boxed]
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("select 1")
            .execute(&self.relaxed)
            .await
            .map(|_| ())
            .map_err(Error::on("answer"))
    }

    /// Closes all sessions, after what runs on them has ended, or after a few seconds: Postgres
    /// rolls back what was not committed.
    #[boxed]
    pub async fn close(&self) {
        let closed = async {
            self.durable.close().await;
            self.relaxed.close().await;
        };
        if tokio::time::timeout(CLOSING, closed).await.is_err() {
            tracing::warn!("some database sessions were still at work and are cut");
        }
    }

    /// Begins a durable transaction that sees only the scope's rows.
    pub(crate) async fn begin(&self, scope: Scope<'_>) -> Result<Tx, Error> {
        begin(&self.durable, scope).await
    }

    /// Begins a transaction whose commit does not wait for the disk; also right for reads.
    pub(crate) async fn begin_relaxed(&self, scope: Scope<'_>) -> Result<Tx, Error> {
        begin(&self.relaxed, scope).await
    }
}

/// One round trip: opens the transaction and names the persons. The names are UUIDs, so the text
/// cannot be anything but SQL that was written here.
pub(crate) async fn begin(pool: &PgPool, scope: Scope<'_>) -> Result<Tx, Error> {
    let statement = format!("begin; set local famulus.persons = '{}'", persons(scope));
    pool.begin_with(AssertSqlSafe(statement)).await.map_err(Error::on("begin a transaction"))
}

/// Names other persons for the rest of a transaction.
pub(crate) async fn rename(conn: &mut PgConnection, scope: Scope<'_>) -> Result<(), Error> {
    let statement = format!("set local famulus.persons = '{}'", persons(scope));
    conn.execute(AssertSqlSafe(statement)).await.map(drop).map_err(Error::on("name a person"))
}

pub(crate) fn persons(scope: Scope<'_>) -> String {
    match scope {
        Scope::System => "*".to_owned(),
        Scope::Person(person) => person.to_string(),
        Scope::Persons(persons) => {
            let mut list = String::with_capacity(persons.len() * 37);
            for (place, person) in persons.iter().enumerate() {
                let comma = if place == 0 { "" } else { "," };
                // Writing to a String cannot fail.
                let _infallible = write!(list, "{comma}{person}");
            }
            list
        }
    }
}
