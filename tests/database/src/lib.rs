//! A database of its own for every test, on one server for all of them.
//!
//! `FAMULUS_TEST_DATABASE_URL` names a superuser's database on a server with pgvector. What begins with
//! all migrations is copied from a template, whose name says which these are: it is made when it is not
//! there and left for the next run.

mod template;

use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

/// It stays until it is dropped by [`Database::drop`].
pub struct Database {
    /// The superuser's.
    pub url: String,
    server: String,
    name: String,
}

impl Database {
    /// With nothing in it, as before the first start.
    ///
    /// # Errors
    /// The server cannot be reached, or makes none.
    pub async fn empty(server: &str) -> sqlx::Result<Self> {
        Self::create(server, "").await
    }

    /// As the first start leaves it before anybody is in it: with all migrations.
    ///
    /// # Errors
    /// The server cannot be reached, or makes none.
    ///
    /// # Panics
    /// The migrations fail.
    pub async fn migrated(server: &str) -> sqlx::Result<Self> {
        let template = template::name(server).await?;
        Self::create(server, &format!("template {template}")).await
    }

    async fn create(server: &str, like: &str) -> sqlx::Result<Self> {
        let name = unique("famulus_test");
        execute(server, &format!("create database {name} {like}")).await?;
        Ok(Self { url: url_of(server, &name), server: server.to_owned(), name })
    }

    /// # Errors
    /// The server cannot be reached, or has it no more.
    pub async fn drop(self) -> sqlx::Result<()> {
        execute(&self.server, &format!("drop database {} with (force)", self.name)).await
    }
}

/// The server for tests.
///
/// # Panics
/// None is named.
#[must_use]
pub fn server() -> String {
    #[expect(clippy::disallowed_methods, reason = "tests read their one setting themselves")]
    let url = std::env::var("FAMULUS_TEST_DATABASE_URL");
    #[expect(clippy::expect_used, reason = "a test without its server fails")]
    url.expect(
        "set FAMULUS_TEST_DATABASE_URL to a superuser's URL of a Postgres with pgvector, \
         or run the tests by `cargo xtask test`, which starts one",
    )
}

/// Does something by a session of its own.
///
/// # Errors
/// The database cannot be reached, or refuses it.
pub async fn execute(url: &str, statement: &str) -> sqlx::Result<()> {
    let mut session = PgConnection::connect(url).await?;
    session.execute(AssertSqlSafe(statement.to_owned())).await?;
    session.close().await
}

fn unique(prefix: &str) -> String {
    format!("{prefix}_{}_{}", std::process::id(), Uuid::now_v7().simple())
}

/// The same server's URL for another database.
fn url_of(server: &str, database: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, ""), |(a, q)| (a, q));
    let scheme = address.find("://").map_or(0, |place| place + 3);
    let end = address[scheme..].find('/').map_or(address.len(), |place| scheme + place);
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{}/{database}{query}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_of_the_same_server_is_asked_for_in_the_same_way() {
        let check = |server: &str, expected: &str| assert_eq!(url_of(server, "b"), expected);
        check(
            "postgres://me:word@here:5432/a?host=%2Frun",
            "postgres://me:word@here:5432/b?host=%2Frun",
        );
        check("postgres://here/a", "postgres://here/b");
        check("postgres://here", "postgres://here/b");
        check("postgres://here?sslmode=disable", "postgres://here/b?sslmode=disable");
    }
}
