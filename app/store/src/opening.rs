//! The way to the database: its version, its roles, and what sessions begin with.

use crate::{error::ConnectError, schema};
use famulus_lifecycle::boxed;
use sqlx::{
    ConnectOptions, Connection, Executor, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{str::FromStr, time::Duration};
use tokio::time::{Instant, sleep};

/// The role that the app works under: no superuser, no way around row-level security.
pub(crate) const APP_ROLE: &str = "famulus_app";

/// A process that froze inside a transaction holds its locks no longer than this.
const FROZEN: &str = "15s";
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

/// Checks version and role, and migrates. Returns where, without credentials.
///
/// # Errors
/// [`ConnectError`] names what is wrong with the database and the remedy.
#[boxed]
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

pub(crate) async fn prepare(connect: &Connect) -> Result<(PgConnectOptions, Role), ConnectError> {
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
    // A migration may well be slow, and its text is no news to who reads the log.
    let quiet = options.clone().disable_statement_logging();
    let until = Instant::now() + patience;
    let mut told = false;
    loop {
        let source = match PgConnection::connect_with(&quiet).await {
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

pub(crate) fn pool(
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

pub(crate) fn target_of(options: &PgConnectOptions) -> String {
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
