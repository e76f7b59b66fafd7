//! How the backups of a database stand that somebody else takes: told by them, read by the app.

use crate::{
    db::{Scope, Store},
    error::{ConnectError, Error},
    opening::{Connect, look},
};
use famulus_lifecycle::boxed;
use famulus_queue::instant::Instant;
use jiff::Timestamp;
use sqlx::Connection;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportKind {
    /// At the time of its beginning.
    Taken,
    NotTaken,
    Verified,
    NotVerified,
    /// This database comes from a backup.
    Restored,
}

impl ReportKind {
    const ALL: [Self; 5] =
        [Self::Taken, Self::NotTaken, Self::Verified, Self::NotVerified, Self::Restored];

    fn name(self) -> &'static str {
        match self {
            Self::Taken => "taken",
            Self::NotTaken => "not taken",
            Self::Verified => "verified",
            Self::NotVerified => "not verified",
            Self::Restored => "restored",
        }
    }
}

/// The last one of its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub kind: ReportKind,
    pub backup: Option<String>,
    pub at: Timestamp,
    pub reason: Option<String>,
}

/// A role, as far as it matters to who backs a database up, and the server.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Reader {
    pub role: String,
    /// Whether row-level security hides no row from it.
    pub sees_all: bool,
    /// The server's version, such as `17.5`.
    pub version: String,
    /// Its first number.
    pub major: i32,
}

/// Looks at the role and the server of a URL.
///
/// # Errors
/// The database cannot be reached.
#[boxed]
pub async fn reader(connect: &Connect) -> Result<Reader, ConnectError> {
    let mut conn = look(connect).await?;
    let reader: Reader = sqlx::query_as(
        "select rolname::text as role, rolsuper or rolbypassrls as sees_all,
                split_part(current_setting('server_version'), ' ', 1) as version,
                current_setting('server_version_num')::int / 10000 as major
         from pg_roles where rolname = current_user",
    )
    .fetch_one(&mut conn)
    .await
    .map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)?;
    Ok(reader)
}

/// Tells what became of a backup.
///
/// # Errors
/// The database cannot be reached, or is older than this release.
#[boxed]
pub async fn report_backup(connect: &Connect, report: &Report) -> Result<(), ConnectError> {
    let mut conn = look(connect).await?;
    sqlx::query("select report_backup($1, $2, $3, $4)")
        .bind(report.kind.name())
        .bind(&report.backup)
        .bind(Instant(report.at))
        .bind(&report.reason)
        .execute(&mut conn)
        .await
        .map_err(ConnectError::Database)?;
    conn.close().await.map_err(ConnectError::Database)
}

impl Store {
    /// The last report of each kind that there is.
    ///
    /// # Errors
    /// The database failed.
    #[boxed]
    pub async fn backup_reports(&self) -> Result<Vec<Report>, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let rows =
            sqlx::query!(r#"select kind, backup, at as "at: Instant", reason from backup_report"#)
                .fetch_all(&mut *tx)
                .await
                .map_err(Error::on("read how backups stand"))?;
        let known = |name: &str| ReportKind::ALL.into_iter().find(|kind| kind.name() == name);
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let kind = known(&row.kind)?;
                Some(Report { kind, backup: row.backup, at: row.at.0, reason: row.reason })
            })
            .collect())
    }
}
