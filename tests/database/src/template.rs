//! What databases with all migrations are copied from.

use famulus_store::{Connect, Store};
use sha2::{Digest, Sha256};
use sqlx::error::DatabaseError;
use sqlx::{Connection, PgConnection};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use crate::{execute, unique, url_of};

/// Another process made a database of that name.
const IS_THERE: &str = "42P04";

fn digest_of_migrations() -> String {
    let mut hash = Sha256::new();
    for migration in sqlx::migrate!("../../app/store/migrations").iter() {
        hash.update(&migration.checksum);
    }
    hex::encode(&hash.finalize()[..6])
}

/// The template's name; made at most once by this process.
pub(crate) async fn name(server: &str) -> sqlx::Result<&'static str> {
    static NAME: OnceCell<String> = OnceCell::const_new();
    NAME.get_or_try_init(|| make(server)).await.map(String::as_str)
}

/// Made under a name of its own and then renamed, so that a template is whole or not there.
async fn make(server: &str) -> sqlx::Result<String> {
    let name = format!("famulus_template_{}", digest_of_migrations());
    let mut session = PgConnection::connect(server).await?;
    let exists: bool =
        sqlx::query_scalar("select exists (select 1 from pg_database where datname = $1)")
            .bind(&name)
            .fetch_one(&mut session)
            .await?;
    session.close().await?;
    if exists {
        return Ok(name);
    }
    let making = unique("famulus_making");
    execute(server, &format!("create database {making}")).await?;
    let connect = Connect::new(url_of(server, &making));
    #[expect(clippy::unwrap_used, reason = "where migrations fail every test does")]
    let (store, background) = Store::connect(connect, CancellationToken::new()).await.unwrap();
    drop(background);
    store.close().await;
    let renamed = execute(server, &format!("alter database {making} rename to {name}")).await;
    if let Err(error) = renamed {
        // Another process was faster: its template is as good.
        let code = error.as_database_error().and_then(DatabaseError::code);
        if code.as_deref() != Some(IS_THERE) {
            return Err(error);
        }
        execute(server, &format!("drop database {making} with (force)")).await?;
    }
    Ok(name)
}
