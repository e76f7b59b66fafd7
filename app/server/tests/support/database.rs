//! A database of its own for every run, dropped afterwards.

use anyhow::Result;
use sqlx::{
    PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::str::FromStr;

pub(crate) struct Database {
    pub(crate) url: String,
    /// Sessions of the superuser, to whom row-level security does not apply.
    pub(crate) admin: PgPool,
    inner: famulus_test_database::Database,
}

impl Database {
    /// An empty one: the first start brings the schema, and may be killed meanwhile.
    pub(crate) async fn create(server: &str) -> Result<Self> {
        let inner = famulus_test_database::Database::empty(server).await?;
        let options = PgConnectOptions::from_str(&inner.url)?.application_name("checker");
        let admin = PgPoolOptions::new().max_connections(3).connect_lazy_with(options);
        Ok(Self { url: inner.url.clone(), admin, inner })
    }

    pub(crate) async fn remove(self) -> Result<()> {
        self.admin.close().await;
        Ok(self.inner.drop().await?)
    }
}
