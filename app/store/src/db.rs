//! Opening the store: version, role, pools; and transactions that name whom they act for.

use crate::{
    accept::{self, AcceptBatches},
    error::{ConnectError, Error},
    events::EventWriter,
    finish::{self, Endings},
    gather::Gather,
    reach::Homes,
    schema,
    take_up::{self, Beginnings},
};
use famulus_core::ids::PersonId;
use famulus_queue::{Queue, hint::Hints};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, PgPool, Postgres, Transaction,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    fmt::Write as _,
    str::FromStr,
    sync::{Arc, OnceLock},
    time::Duration,
};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

/// The role that the app works under: no superuser, no way around row-level security.
pub(crate) const APP_ROLE: &str = "famulus_app";

/// A process that froze inside a transaction holds its locks no longer than this.
const FROZEN: &str = "15s";
/// Closing waits this long for sessions that still work.
const CLOSING: Duration = Duration::from_secs(5);
/// Between two tries to reach a database that starts.
const START_AGAIN: Duration = Duration::from_millis(500);

/// How the store is opened.
#[derive(Clone, Debug)]
pub struct Connect {
    /// `postgres://…`, which may hold a password: never logged.
    pub url: String,
    /// Sessions whose commits wait for the disk.
    pub durable_sessions: u32,
    /// Sessions whose commits do not.
    pub relaxed_sessions: u32,
    /// How long a lease lasts without a heartbeat.
    pub lease: Duration,
    /// How long a database that does not answer yet is waited for.
    pub patience: Duration,
}

impl Connect {
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            durable_sessions: 12,
            relaxed_sessions: 6,
            lease: Duration::from_secs(20),
            patience: Duration::ZERO,
        }
    }
}

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
    pub async fn ping(&self) -> Result<(), Error> {
        sqlx::query("select 1")
            .execute(&self.relaxed)
            .await
            .map(|_| ())
            .map_err(Error::on("answer"))
    }

    /// Closes all sessions, after what runs on them has ended, or after a few seconds: Postgres
    /// rolls back what was not committed.
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

/// Checks version and role, and migrates. Returns where, without credentials.
///
/// # Errors
/// [`ConnectError`] names what is wrong with the database and the remedy.
pub async fn migrate(connect: &Connect) -> Result<String, ConnectError> {
    let (options, _role) = prepare(connect).await?;
    Ok(target_of(&options))
}

/// A session as the URL has it, in the role that it names: for looking, before anything is opened.
pub(crate) async fn look(connect: &Connect) -> Result<PgConnection, ConnectError> {
    first_session(&options(connect)?, connect.patience).await
}

/// The same for a role that is subject to row-level security, as the owner of the tables is: it sees the
/// rows of all persons.
pub(crate) async fn look_at_all(connect: &Connect) -> Result<PgConnection, ConnectError> {
    let options = options(connect)?.options([("famulus.persons", "*")]);
    first_session(&options, connect.patience).await
}

fn options(connect: &Connect) -> Result<PgConnectOptions, ConnectError> {
    Ok(PgConnectOptions::from_str(&connect.url)
        .map_err(|e| ConnectError::Url(without_password(&connect.url), e))?
        .application_name("famulus")
        // What is there already when a start looks is no news to who reads the log.
        .options([("client_min_messages", "warning")]))
}

async fn prepare(connect: &Connect) -> Result<(PgConnectOptions, Role), ConnectError> {
    let options = options(connect)?;
    let mut first = first_session(&options, connect.patience).await?;
    check_version(&mut first, &target_of(&options)).await?;
    let role = prepare_role(&mut first).await?;
    schema::bring_up_to_date(&mut first, role).await?;
    first.close().await.map_err(ConnectError::Database)?;
    Ok((options, role))
}

/// Waits for a database that is about to be there; one that refuses is not asked again.
async fn first_session(
    options: &PgConnectOptions,
    patience: Duration,
) -> Result<PgConnection, ConnectError> {
    let until = Instant::now() + patience;
    let mut told = false;
    loop {
        let source = match PgConnection::connect_with(options).await {
            Ok(session) => return Ok(session),
            Err(source) => source,
        };
        if !is_starting(&source) || Instant::now() >= until {
            return Err(ConnectError::Unreachable { target: target_of(options), source });
        }
        if !told {
            tracing::info!(target = target_of(options), error = %source,
                "waiting for the database, which does not answer yet");
            told = true;
        }
        sleep(START_AGAIN).await;
    }
}

/// Whether nobody listens there, or a Postgres that says it is about to.
fn is_starting(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(sqlx::error::DatabaseError::code);
    matches!(error, sqlx::Error::Io(_)) || code.as_deref() == Some("57P03")
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

/// Whether sessions must switch to [`APP_ROLE`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    AsConnected,
    Switch,
}

/// What every session begins with.
///
/// Sessions keep the plans that they make, also those of the first minute, when tables are empty and
/// have no statistics: reading a whole table looks cheap then, and is not when it has grown. Every
/// statement of the app has an index, so none is planned without one; and what is done for a batch
/// of ids is written as `id = any(array(…))`, because a join can begin at either end.
pub(crate) fn session_options(
    options: &PgConnectOptions,
    sync_commit: &'static str,
) -> PgConnectOptions {
    options.clone().options([
        ("synchronous_commit", sync_commit),
        ("idle_in_transaction_session_timeout", FROZEN),
        ("enable_seqscan", "off"),
        ("jit", "off"),
    ])
}

fn pool(
    options: &PgConnectOptions,
    sessions: u32,
    role: Role,
    sync_commit: &'static str,
) -> PgPool {
    let options = session_options(options, sync_commit);
    PgPoolOptions::new()
        .max_connections(sessions)
        .min_connections(0)
        .acquire_timeout(Duration::from_secs(10))
        .idle_timeout(Duration::from_mins(2))
        .test_before_acquire(false)
        .after_connect(move |conn, _| Box::pin(async move { take_role(conn, role).await }))
        .connect_lazy_with(options)
}

pub(crate) async fn take_role(conn: &mut PgConnection, role: Role) -> Result<(), sqlx::Error> {
    match role {
        Role::AsConnected => Ok(()),
        Role::Switch => conn.execute("set role famulus_app").await.map(|_| ()),
    }
}

async fn check_version(conn: &mut PgConnection, target: &str) -> Result<(), ConnectError> {
    let number: i32 = sqlx::query_scalar("select current_setting('server_version_num')::int")
        .fetch_one(&mut *conn)
        .await
        .map_err(ConnectError::Database)?;
    if number >= 150_000 {
        return Ok(());
    }
    let found: String = sqlx::query_scalar("show server_version")
        .fetch_one(conn)
        .await
        .map_err(ConnectError::Database)?;
    Err(ConnectError::TooOld { found, target: target.to_owned() })
}

/// A role that sees everything may migrate, but must not serve: a role without that power is made
/// (or was made before) and every session switches to it.
async fn prepare_role(conn: &mut PgConnection) -> Result<Role, ConnectError> {
    let (role, powerful): (String, bool) = sqlx::query_as(
        "select rolname::text, rolsuper or rolbypassrls from pg_roles where rolname = current_user",
    )
    .fetch_one(&mut *conn)
    .await
    .map_err(ConnectError::Database)?;
    if !powerful {
        return Ok(Role::AsConnected);
    }
    let refused = |reason: String| ConnectError::Role { role: role.clone(), reason };
    let exists: bool =
        sqlx::query_scalar("select exists (select 1 from pg_roles where rolname = $1)")
            .bind(APP_ROLE)
            .fetch_one(&mut *conn)
            .await
            .map_err(ConnectError::Database)?;
    if !exists && let Err(error) = conn.execute("create role famulus_app nologin nobypassrls").await
    {
        // Two processes may start at once: the other one's role is as good.
        let code = error
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .map(std::borrow::Cow::into_owned);
        if !matches!(code.as_deref(), Some("42710" | "23505")) {
            return Err(refused(error.to_string()));
        }
    }
    let powerful: bool =
        sqlx::query_scalar("select rolsuper or rolbypassrls from pg_roles where rolname = $1")
            .bind(APP_ROLE)
            .fetch_one(&mut *conn)
            .await
            .map_err(ConnectError::Database)?;
    if powerful {
        return Err(refused(format!("the role `{APP_ROLE}` exists but has the same powers")));
    }
    let mut trial = conn.begin().await.map_err(ConnectError::Database)?;
    trial.execute("set local role famulus_app").await.map_err(|e| refused(e.to_string()))?;
    trial.rollback().await.map_err(ConnectError::Database)?;
    Ok(Role::Switch)
}

fn target_of(options: &PgConnectOptions) -> String {
    let host = options.get_socket().map_or_else(
        || format!("{}:{}", options.get_host(), options.get_port()),
        |socket| socket.display().to_string(),
    );
    format!("{host}/{}", options.get_database().unwrap_or("postgres"))
}

/// An unreadable URL is shown without what may be its password.
fn without_password(url: &str) -> String {
    url.rsplit_once('@').map_or_else(|| "(no host)".to_owned(), |(_, host)| format!("…@{host}"))
}

#[cfg(test)]
mod tests {
    /// Else a URL that leaves it open would be followed in the clear.
    #[test]
    fn a_session_can_be_encrypted() {
        assert!(sqlx_core::net::tls::available());
    }
}
