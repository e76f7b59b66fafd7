//! A restore into a database in use by nobody: begun, ended, or undone.
//!
//! ```text
//! begin (mark, held) ─► pg_restore, one transaction ─► made sound ─► end (mark gone: it is restored)
//! ```
//!
//! The mark tells what died in between from a database that somebody works with. Who restores holds it
//! by a lock, which ends with its session, so that two at once do not undo each other.

use crate::{
    error::ConnectError,
    opening::{Connect, look},
};
use famulus_lifecycle::boxed;
use sqlx::{Connection, Executor, PgConnection, error::DatabaseError};

/// The backup that this database was restored from; `None` where that was not done, or not to its end.
/// A backup of a restored database says so, too, and counts for nothing while the mark is there.
///
/// # Errors
/// The database cannot be reached.
#[boxed]
pub async fn restored(connect: &Connect) -> Result<Option<String>, ConnectError> {
    let mut conn = look(connect).await?;
    let told: bool = sqlx::query_scalar(
        "select to_regclass('backup_report') is not null
             and to_regclass('famulus_restoring') is null",
    )
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
#[boxed]
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

/// A restore under way.
#[derive(Debug)]
pub struct Restoring {
    /// Holds the mark.
    held: PgConnection,
}

impl Restoring {
    /// Marks a database as one that is being restored, after it has undone what a restore left that
    /// died. `None` where another one is at work.
    ///
    /// # Errors
    /// The database cannot be reached, or may not be written by this role.
    #[boxed]
    pub async fn begin(connect: &Connect) -> Result<Option<Self>, ConnectError> {
        let mut held = look(connect).await?;
        if is_marked(&mut held).await? {
            if !hold(&mut held).await? {
                return Ok(None);
            }
            held.execute("commit").await.map_err(ConnectError::Database)?;
            drop_all(&mut held).await?;
        }
        held.execute("create table famulus_restoring ()").await.map_err(ConnectError::Database)?;
        Ok(hold(&mut held).await?.then_some(Self { held }))
    }

    /// Takes the mark away: from now on the database is restored.
    ///
    /// # Errors
    /// The database cannot be reached. What is there counts for nothing, and is begun anew.
    #[boxed]
    pub async fn end(mut self) -> Result<(), ConnectError> {
        let done = self.held.execute("drop table famulus_restoring; commit").await;
        done.map_err(ConnectError::Database)?;
        self.held.close().await.map_err(ConnectError::Database)
    }

    /// Empties the database again.
    ///
    /// # Errors
    /// The database cannot be reached. What is there counts for nothing, and is begun anew.
    #[boxed]
    pub async fn undo(mut self) -> Result<(), ConnectError> {
        drop_all(&mut self.held).await?;
        self.held.execute("commit").await.map_err(ConnectError::Database)?;
        self.held.close().await.map_err(ConnectError::Database)
    }
}

/// Begins a transaction that has the mark to itself for as long as it takes; false where another one
/// has it.
async fn hold(conn: &mut PgConnection) -> Result<bool, ConnectError> {
    let locked = conn
        .execute(
            "set idle_in_transaction_session_timeout = 0; begin;
             lock table famulus_restoring in share update exclusive mode nowait",
        )
        .await;
    match locked {
        Ok(_) => Ok(true),
        Err(error) => {
            let code = error.as_database_error().and_then(DatabaseError::code);
            // Locked; or gone, since the other one has ended.
            if matches!(code.as_deref(), Some("55P03" | "42P01")) {
                return Ok(false);
            }
            Err(ConnectError::Database(error))
        }
    }
}

/// What an extension made stays, where it belongs to another role.
async fn drop_all(conn: &mut PgConnection) -> Result<(), ConnectError> {
    conn.execute("drop owned by current_user cascade")
        .await
        .map(drop)
        .map_err(ConnectError::Database)
}
