//! A restore into a database in use by nobody: begun, ended, or undone.
//!
//! Everything but its first and its last step happens in one transaction of `pg_restore`. A mark tells
//! what died in between from a database that somebody works with.

use crate::{
    db::{Connect, look},
    error::ConnectError,
};
use sqlx::{Connection, Executor, PgConnection};

/// The backup that this database was restored from; `None` where that was not done, or not to its end.
///
/// # Errors
/// The database cannot be reached.
pub async fn restored(connect: &Connect) -> Result<Option<String>, ConnectError> {
    let mut conn = look(connect).await?;
    let told: bool = sqlx::query_scalar("select to_regclass('backup_report') is not null")
        .fetch_one(&mut conn)
        .await
        .map_err(ConnectError::Database)?;
    if !told {
        return Ok(None);
    }
    let backup: Option<Option<String>> =
        sqlx::query_scalar("select backup from backup_report where kind = 'restored'")
            .fetch_optional(&mut conn)
            .await
            .map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(backup.flatten())
}

/// Whether a restore died here, or goes on.
///
/// # Errors
/// The database cannot be reached.
pub async fn restore_died(connect: &Connect) -> Result<bool, ConnectError> {
    let mut conn = look(connect).await?;
    let died = is_marked(&mut conn).await?;
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(died)
}

async fn is_marked(conn: &mut PgConnection) -> Result<bool, ConnectError> {
    sqlx::query_scalar("select to_regclass('famulus_restoring') is not null")
        .fetch_one(conn)
        .await
        .map_err(ConnectError::Database)
}

/// Marks a database as one that is being restored, after it has undone what a restore left that died.
///
/// # Errors
/// The database cannot be reached, or may not be written by this role.
pub async fn begin_restore(connect: &Connect) -> Result<(), ConnectError> {
    let mut conn = look(connect).await?;
    if is_marked(&mut conn).await? {
        drop_all(&mut conn).await?;
    }
    conn.execute("create table famulus_restoring ()").await.map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)
}

/// Takes the mark away.
///
/// # Errors
/// The database cannot be reached.
pub async fn end_restore(connect: &Connect) -> Result<(), ConnectError> {
    let mut conn = look(connect).await?;
    let done = conn.execute("drop table if exists famulus_restoring").await;
    done.map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)
}

/// Empties a database that was being restored.
///
/// # Errors
/// The database cannot be reached.
pub async fn undo_restore(connect: &Connect) -> Result<(), ConnectError> {
    let mut conn = look(connect).await?;
    drop_all(&mut conn).await?;
    conn.close().await.map_err(ConnectError::Database)
}

/// What an extension made stays, where it belongs to another role.
async fn drop_all(conn: &mut PgConnection) -> Result<(), ConnectError> {
    conn.execute("drop owned by current_user cascade")
        .await
        .map(drop)
        .map_err(ConnectError::Database)
}
