//! A database of its own for every run, dropped afterwards.

use anyhow::{Context, Result};
use sqlx::{
    AssertSqlSafe, Connection, Executor, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use std::str::FromStr;
use uuid::Uuid;

pub(crate) struct Database {
    pub(crate) url: String,
    /// Sessions of the superuser, to whom row-level security does not apply.
    pub(crate) admin: PgPool,
    server: String,
    name: String,
}

impl Database {
    pub(crate) async fn create(server: &str) -> Result<Self> {
        let name = format!("famulus_crash_{}_{}", std::process::id(), Uuid::now_v7().simple());
        execute(server, &format!("create database {name}")).await?;
        let url = url_of(server, &name);
        let options = PgConnectOptions::from_str(&url)?.application_name("checker");
        let admin = PgPoolOptions::new().max_connections(3).connect_lazy_with(options);
        Ok(Self { url, admin, server: server.to_owned(), name })
    }

    pub(crate) async fn remove(self) -> Result<()> {
        self.admin.close().await;
        execute(&self.server, &format!("drop database {} with (force)", self.name)).await
    }
}

async fn execute(server: &str, statement: &str) -> Result<()> {
    let mut conn = PgConnection::connect(server).await.context("the server cannot be reached")?;
    conn.execute(AssertSqlSafe(statement.to_owned())).await?;
    Ok(conn.close().await?)
}

/// The same server's URL for another database.
fn url_of(server: &str, database: &str) -> String {
    let (address, query) = server.split_once('?').map_or((server, ""), |(a, q)| (a, q));
    let scheme = address.find("://").map_or(0, |place| place + 3);
    let end = address[scheme..].find('/').map_or(address.len(), |place| scheme + place);
    let query = if query.is_empty() { String::new() } else { format!("?{query}") };
    format!("{}/{database}{query}", &address[..end])
}
