//! A database that is backed up, or restored into, and the programs for it.

use crate::{config::Database, private};
use anyhow::Context;
use famulus_backup::{BackupError, server::Server};
use famulus_core::{Clock, clock::SystemClock};
use famulus_local::postgres::{Programs, Running};
use famulus_store::{Connect, Report, ReportKind};
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use std::{path::PathBuf, time::Duration};

/// A database that starts beside this program is waited for so long.
const PATIENCE: Duration = Duration::from_mins(2);

#[derive(Clone, Debug)]
pub(super) struct Target {
    url: SecretString,
    bin_dir: PathBuf,
    /// Of the server.
    pub(super) version: String,
    /// Others start it, and read in it how its backups stand.
    elsewhere: bool,
}

impl Target {
    /// A database of a private server.
    pub(super) fn of(place: &Running, database: &str) -> Self {
        Self {
            url: place.url_of(database).into(),
            bin_dir: place.bin_dir.clone(),
            version: place.version.clone(),
            elsewhere: false,
        }
    }

    /// The database that the configuration names. `reads`: whether all of it is to be read.
    ///
    /// # Errors
    /// It cannot be reached, its role does not see all rows, or no programs fit it.
    pub(super) async fn elsewhere(
        url: &SecretString,
        database: &Database,
        reads: bool,
    ) -> anyhow::Result<Self> {
        let connect = Connect { patience: PATIENCE, ..Connect::new(url.expose_secret()) };
        let reader = famulus_store::reader(&connect).await?;
        let (role, major) = (&reader.role, reader.major);
        anyhow::ensure!(
            !reads || reader.sees_all,
            "row-level security hides rows from the role `{role}`, and a backup needs all of them; give \
             the URL of a role for backups, made by a superuser: CREATE ROLE famulus_backup LOGIN \
             BYPASSRLS PASSWORD '…'; GRANT pg_read_all_data TO famulus_backup;"
        );
        let programs = Programs::find(database.bin_dir.as_deref(), &private::tree_dirs())?;
        anyhow::ensure!(
            programs.major >= major,
            "the server is Postgres {}, and the programs in {} are of Postgres {}, which is older; point \
             `database.bin_dir` to the bin folder of a Postgres {major} or newer",
            reader.version,
            programs.bin_dir.display(),
            programs.version,
        );
        let (url, bin_dir) = (url.clone(), programs.bin_dir);
        Ok(Self { url, bin_dir, version: reader.version, elsewhere: true })
    }

    pub(super) fn url(&self) -> &str {
        self.url.expose_secret()
    }

    pub(super) fn connect(&self) -> Connect {
        Connect::new(self.url())
    }

    pub(super) fn server(&self) -> Result<Server, BackupError> {
        Server::new(self.url(), self.bin_dir.clone())
    }

    /// Tells the app that works on this database, where that is another program, that a backup was taken,
    /// and what it lacks.
    pub(super) async fn tell_taken(&self, name: &str, at: Timestamp, lacks: Option<String>) {
        let backup = Some(name.to_owned());
        self.report(&Report { kind: ReportKind::Taken, backup, at, reason: lacks }).await;
    }

    /// Tells it what became of a backup: which one is good, or why there is none.
    pub(super) async fn tell(
        &self,
        kind: ReportKind,
        done: Result<(&str, Timestamp), &anyhow::Error>,
    ) {
        let report = match done {
            Ok((name, at)) => Report { kind, backup: Some(name.to_owned()), at, reason: None },
            Err(error) => {
                let reason = Some(format!("{error:#}"));
                Report { kind, backup: None, at: SystemClock.now(), reason }
            }
        };
        self.report(&report).await;
    }

    async fn report(&self, report: &Report) {
        if !self.elsewhere {
            return;
        }
        let told = famulus_store::report_backup(&self.connect(), report).await;
        if let Err(error) = told.context("the app is not told what became of the backup") {
            tracing::warn!(error = format!("{error:#}"), "the app learns of it by its clock alone");
        }
    }
}
