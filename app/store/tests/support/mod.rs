//! A database of its own for every test, dropped when the test ends, however it ends.
//!
//! `FAMULUS_TEST_DATABASE_URL` names a superuser's database on a server with pgvector. Databases
//! are copied from a template, whose name says which migrations it holds: it is made when it is not
//! there and left for the next run.

use famulus_core::{ids::PersonId, person::Person};
use famulus_lifecycle::{OnExit, Tasks};
use famulus_store::{Connect, NewPerson, Store};
use futures::FutureExt;
use sha2::{Digest, Sha256};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, PgPool,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    str::FromStr,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// What a test works with.
pub(crate) struct World {
    pub(crate) store: Store,
    /// Sessions of the superuser in the test's database, to whom row-level security does not apply.
    pub(crate) admin: PgPool,
    /// Where the test's database is.
    pub(crate) url: String,
    tasks: Tasks,
}

/// Runs a test in a fresh database.
pub(crate) async fn with_store<T: AsyncFnOnce(&World)>(test: T) {
    let template = template(&server()).await;
    with_database(&format!("template {template}"), async |url| {
        let world = World::open(url).await;
        let outcome = AssertUnwindSafe(test(&world)).catch_unwind().await;
        world.close().await;
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
    })
    .await;
}

/// Runs a test with the URL of a database that is made for it: an empty one, or one like another.
async fn with_database<T: AsyncFnOnce(&str)>(like: &str, test: T) {
    let server = server();
    let name = unique("famulus_test");
    execute(&server, &format!("create database {name} {like}")).await;
    let outcome = AssertUnwindSafe(test(&url_of(&server, &name))).catch_unwind().await;
    execute(&server, &format!("drop database {name} with (force)")).await;
    if let Err(panic) = outcome {
        resume_unwind(panic);
    }
}

impl World {
    async fn open(url: &str) -> Self {
        let url = url.to_owned();
        let tasks = Tasks::new();
        let store = open(&url, &tasks, &[]).await;
        let admin = PgPoolOptions::new()
            .max_connections(3)
            .connect_lazy_with(PgConnectOptions::from_str(&url).unwrap());
        Self { store, admin, url, tasks }
    }

    /// Another process on the same database.
    pub(crate) async fn another_store(&self) -> Store {
        open(&self.url, &self.tasks, &[]).await
    }

    /// Another process whose announcements never arrive.
    pub(crate) async fn mute_store(&self) -> Store {
        open(&self.url, &self.tasks, &["queue.notifier"]).await
    }

    /// A new person in Berlin.
    pub(crate) async fn person(&self, name: &str) -> Person {
        let new = NewPerson {
            name: name.to_owned(),
            role: famulus_core::person::Role::Member,
            time_zone: "Europe/Berlin".to_owned(),
            language: "en".to_owned(),
        };
        self.store.create_person(new).await.unwrap()
    }

    /// One number, as the superuser sees it.
    pub(crate) async fn count(&self, query: &'static str, person: PersonId) -> i64 {
        sqlx::query_scalar(query).bind(person.0).fetch_one(&self.admin).await.unwrap()
    }

    async fn close(self) {
        self.tasks.shutdown();
        let _drained = self.tasks.drain(Duration::from_secs(5)).await;
        self.store.close().await;
        self.admin.close().await;
    }
}

async fn open(url: &str, tasks: &Tasks, without: &[&str]) -> Store {
    let connect =
        Connect { durable_sessions: 4, relaxed_sessions: 3, ..Connect::new(url.to_owned()) };
    let (store, background) = Store::connect(connect, tasks.token()).await.unwrap();
    for (name, task) in background.tasks {
        if without.contains(&name) {
            continue;
        }
        tasks.spawn(name, OnExit::Log, task);
    }
    store
}

fn server() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests read their one setting themselves")]
    let url = std::env::var("FAMULUS_TEST_DATABASE_URL");
    url.expect(
        "set FAMULUS_TEST_DATABASE_URL to a superuser's URL of a Postgres with pgvector, \
         or run the tests by `cargo xtask test`, which starts one",
    )
}

/// The template's name; made at most once by this process.
async fn template(server: &str) -> &'static str {
    static TEMPLATE: OnceCell<String> = OnceCell::const_new();
    TEMPLATE.get_or_init(|| make_template(server)).await
}

/// Made under a name of its own and then renamed, so that a template is whole or not there.
async fn make_template(server: &str) -> String {
    let name = format!("famulus_template_{}", digest_of_migrations());
    let exists: bool =
        sqlx::query_scalar("select exists (select 1 from pg_database where datname = $1)")
            .bind(&name)
            .fetch_one(&mut connect(server).await)
            .await
            .unwrap();
    if exists {
        return name;
    }
    let making = unique("famulus_making");
    execute(server, &format!("create database {making}")).await;
    let url = url_of(server, &making);
    let (store, background) =
        Store::connect(Connect::new(url), CancellationToken::new()).await.unwrap();
    drop(background);
    store.close().await;
    let renamed = connect(server)
        .await
        .execute(AssertSqlSafe(format!("alter database {making} rename to {name}")))
        .await;
    if let Err(error) = renamed {
        // Another process was faster: its template is as good.
        let code = error.as_database_error().and_then(DatabaseError::code);
        assert_eq!(code.as_deref(), Some("42P04"), "{error}");
        execute(server, &format!("drop database {making} with (force)")).await;
    }
    name
}

fn digest_of_migrations() -> String {
    let mut hash = Sha256::new();
    for migration in sqlx::migrate!("./migrations").iter() {
        hash.update(&migration.checksum);
    }
    hex::encode(&hash.finalize()[..6])
}

fn unique(prefix: &str) -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}_{}_{number}_{}", std::process::id(), Uuid::now_v7().simple())
}

/// The same server's URL for another database.
fn url_of(server: &str, database: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, ""), |(a, q)| (a, q));
    let scheme = address.find("://").map_or(0, |place| place + 3);
    let end = address[scheme..].find('/').map_or(address.len(), |place| scheme + place);
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{}/{database}{query}", &address[..end])
}

async fn connect(server: &str) -> PgConnection {
    PgConnection::connect(server).await.expect("FAMULUS_TEST_DATABASE_URL cannot be reached")
}

async fn execute(server: &str, statement: &str) {
    let mut conn = connect(server).await;
    conn.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    conn.close().await.unwrap();
}
