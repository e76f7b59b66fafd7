//! Bringing the schema up to date, and giving the app's role its rights on it.

use crate::{
    error::ConnectError,
    opening::{APP_ROLE, Role},
};
use sqlx::{
    Connection, Executor, PgConnection,
    error::DatabaseError,
    migrate::{Migrate, MigrateError, Migrator},
    postgres::PgQueryResult,
};
use std::borrow::Cow;

pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("./migrations");

/// Where the migrator keeps its record.
pub(crate) const RECORD: &str = "_sqlx_migrations";

/// Migrates, unless there is nothing to do: then nothing is locked and nothing written, so that
/// starts neither wait for each other nor for the disk.
///
/// The migrator's own advisory lock is off (the product takes none): concurrent starts are ordered
/// by a lock on a table of ours, which ends with its transaction.
pub(crate) async fn bring_up_to_date(
    conn: &mut PgConnection,
    role: Role,
) -> Result<(), ConnectError> {
    if is_current(conn, role).await? {
        return Ok(());
    }
    conn.execute(
        "create table if not exists famulus_start (one integer primary key check (one = 1))",
    )
    .await
    .or_else(|error| match code(&error).as_deref() {
        // Concurrent creation of the same table: the other one made it.
        Some("42P07" | "23505") => Ok(PgQueryResult::default()),
        _ => Err(ConnectError::Database(error)),
    })?;
    let mut tx = conn.begin().await.map_err(ConnectError::Database)?;
    tx.execute("lock table famulus_start in access exclusive mode")
        .await
        .map_err(ConnectError::Database)?;
    let mut migrator = Migrator { migrations: MIGRATIONS.migrations.clone(), ..Migrator::DEFAULT };
    migrator.set_locking(false);
    // A newer release may have been here: its migrations are such that this one can work on them.
    migrator.set_ignore_missing(true);
    // Not `run`, whose future can belong to no task that may change its thread.
    migrator.run_direct(None, &mut *tx, false).await.map_err(explained)?;
    if role == Role::Switch {
        tx.execute(
            "grant usage on schema public to famulus_app;
             grant select, insert, update, delete on all tables in schema public to famulus_app;
             grant usage, select on all sequences in schema public to famulus_app;
             revoke all on famulus_start from famulus_app;",
        )
        .await
        .map_err(ConnectError::Database)?;
    }
    tx.commit().await.map_err(ConnectError::Database)
}

/// Whether every migration of this release is there as it is here, and the role has its rights.
async fn is_current(conn: &mut PgConnection, role: Role) -> Result<bool, ConnectError> {
    let recorded: bool = sqlx::query_scalar("select to_regclass($1) is not null")
        .bind(RECORD)
        .fetch_one(&mut *conn)
        .await
        .map_err(ConnectError::Database)?;
    if !recorded {
        return Ok(false);
    }
    if conn.dirty_version(RECORD).await.map_err(ConnectError::Migrate)?.is_some() {
        return Ok(false);
    }
    let applied = conn.list_applied_migrations(RECORD).await.map_err(ConnectError::Migrate)?;
    let all = MIGRATIONS.iter().all(|ours| {
        applied.iter().any(|a| a.version == ours.version && a.checksum == ours.checksum)
    });
    Ok(all && (role == Role::AsConnected || has_its_rights(conn).await?))
}

/// Whether nothing is left to grant.
async fn has_its_rights(conn: &mut PgConnection) -> Result<bool, ConnectError> {
    sqlx::query_scalar(
        "select has_schema_privilege($1, 'public', 'usage') and not exists (
             select 1
             from pg_class
             where relnamespace = 'public'::regnamespace
               and case relkind
                   when 'S' then
                       not (has_sequence_privilege($1, oid, 'usage')
                            and has_sequence_privilege($1, oid, 'select'))
                   when 'r' then
                       relname <> 'famulus_start'
                       and not (has_table_privilege($1, oid, 'select')
                                and has_table_privilege($1, oid, 'insert')
                                and has_table_privilege($1, oid, 'update')
                                and has_table_privilege($1, oid, 'delete'))
                   else false
               end)",
    )
    .bind(APP_ROLE)
    .fetch_one(conn)
    .await
    .map_err(ConnectError::Database)
}

fn explained(error: MigrateError) -> ConnectError {
    if let MigrateError::VersionMismatch(version) = error {
        return ConnectError::Foreign(version);
    }
    if let MigrateError::ExecuteMigration(source, 1) = error {
        if lacks_vector(&source) {
            return ConnectError::NoVector(source);
        }
        return ConnectError::Migrate(MigrateError::ExecuteMigration(source, 1));
    }
    ConnectError::Migrate(error)
}

fn code(error: &sqlx::Error) -> Option<Cow<'_, str>> {
    error.as_database_error().and_then(DatabaseError::code)
}

fn lacks_vector(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|e| e.message().contains("vector"))
}
