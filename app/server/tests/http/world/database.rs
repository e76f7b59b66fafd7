//! A database of its own for every test, dropped when the test ends, however it ends.
//!
//! `FAMULUS_TEST_DATABASE_URL` names a superuser's database on a server with pgvector.

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct Database {
    server: String,
    name: String,
    pub(crate) url: String,
}

impl Database {
    pub(crate) async fn create() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        #[expect(clippy::disallowed_methods, reason = "tests read their one setting themselves")]
        let server = std::env::var("FAMULUS_TEST_DATABASE_URL").unwrap_or_else(|_| {
            panic!(
                "set FAMULUS_TEST_DATABASE_URL to a superuser's URL of a Postgres with pgvector, \
                 or run the tests by `cargo xtask test`, which starts one"
            )
        });
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("famulus_http_{}_{number}", std::process::id());
        // What a killed run with the same process id left behind.
        execute(&server, &format!("drop database if exists {name} with (force)")).await;
        execute(&server, &format!("create database {name}")).await;
        let url = url_of(&server, &name);
        Self { server, name, url }
    }

    /// Does something to the database that no caller can, as the superuser.
    pub(crate) async fn execute(&self, statement: &str) {
        execute(&self.url, statement).await;
    }

    /// One number, as the superuser sees it.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let mut session = connect(&self.url).await;
        let count = sqlx::query_scalar(query).fetch_one(&mut session).await.unwrap();
        session.close().await.unwrap();
        count
    }

    /// From now on every row that is written to any table is noted as text, also one that is deleted at once.
    pub(crate) async fn note_rows(&self) {
        self.execute(include_str!("note_rows.sql")).await;
    }

    /// The rows that were noted, one a line, with their tables before them.
    pub(crate) async fn noted_rows(&self) -> String {
        let mut session = connect(&self.url).await;
        let rows = "select coalesce(string_agg(line, E'\\n'), '') from noted_rows";
        let noted = sqlx::query_scalar(rows).fetch_one(&mut session).await.unwrap();
        session.close().await.unwrap();
        noted
    }

    pub(crate) async fn drop(self) {
        execute(&self.server, &format!("drop database {} with (force)", self.name)).await;
    }
}

async fn execute(url: &str, statement: &str) {
    let mut session = connect(url).await;
    session.execute(AssertSqlSafe(statement.to_owned())).await.unwrap();
    session.close().await.unwrap();
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap_or_else(|error| {
        panic!("the server of FAMULUS_TEST_DATABASE_URL cannot be reached: {error}")
    })
}

/// The same server's URL for another database.
fn url_of(server: &str, database: &str) -> String {
    let mut url: url::Url = server.parse().unwrap();
    url.set_path(database);
    url.into()
}
