//! The database of a test, as the superuser sees it.

use famulus_test_database::{execute, server};
use sqlx::{Connection, PgConnection};

/// Dropped when the test ends, however it ends.
pub(crate) struct Database(famulus_test_database::Database);

impl Database {
    /// With the schema.
    pub(crate) async fn create() -> Self {
        Self(famulus_test_database::Database::migrated(&server()).await.unwrap())
    }

    /// With nothing in it.
    pub(crate) async fn empty() -> Self {
        Self(famulus_test_database::Database::empty(&server()).await.unwrap())
    }

    pub(crate) fn url(&self) -> &str {
        &self.0.url
    }

    /// Does something to the database that no caller can, as the superuser.
    pub(crate) async fn execute(&self, statement: &str) {
        execute(self.url(), statement).await.unwrap();
    }

    /// One number, as the superuser sees it.
    pub(crate) async fn count(&self, query: &'static str) -> i64 {
        let mut session = PgConnection::connect(self.url()).await.unwrap();
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
        let mut session = PgConnection::connect(self.url()).await.unwrap();
        let rows = "select coalesce(string_agg(line, E'\\n'), '') from noted_rows";
        let noted = sqlx::query_scalar(rows).fetch_one(&mut session).await.unwrap();
        session.close().await.unwrap();
        noted
    }

    pub(crate) async fn drop(self) {
        self.0.drop().await.unwrap();
    }
}
