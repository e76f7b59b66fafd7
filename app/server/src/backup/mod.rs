//! `famulus backup` and `famulus restore`: what `famulus-backup` does, on the private Postgres.
//!
//! ```text
//! famulus backup         running? dump over its socket : start, dump, stop
//! famulus backup verify  a server of its own, on data that are thrown away
//! famulus restore        a database beside the one in use ─► sound? ─► renamed in its place
//! famulus up             the first, by the clock, and before an update changes the database
//! ```
//!
//! A database that somebody else keeps (`database.url`) is backed up by its keeper's means.

mod drill;
mod home;
mod restore;
mod schedule;
mod standing;
mod turn;
mod upgrade;

pub use {
    home::{Home, Opened},
    restore::restore,
};
pub(crate) use {schedule::schedule, upgrade::before_migration};

use crate::{args::BackupCommand, paths::Paths, say};
use anyhow::Context;
use famulus_backup::{
    backups::{Backup, State, Which},
    take::{Outcome, take},
};
use famulus_core::clock::SystemClock;
use famulus_lifecycle::Signals;
use home::At;
use std::path::PathBuf;

/// `famulus backup …`.
pub async fn run(
    command: Option<BackupCommand>,
    file: Option<PathBuf>,
    places: Paths,
) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("signals cannot be received")?;
    let (opened, _telemetry) = Opened::load(file, places)?;
    match command {
        None => now(&opened, &mut signals).await,
        Some(BackupCommand::List) => list(&opened).await,
        Some(BackupCommand::Verify { backup }) => {
            Box::pin(drill::verify(&opened, &which(&backup, None)?, &mut signals)).await
        }
    }
}

/// Takes a backup, and says what is in it.
async fn now(opened: &Opened, signals: &mut Signals) -> anyhow::Result<()> {
    let at = At::open(opened).await?;
    let taking = async {
        let source = opened.home.source(at.place()).await?;
        let plan = opened.home.plan();
        anyhow::Ok(take(plan, source, &SystemClock).await?)
    };
    let taken = tokio::select! {
        taken = taking => taken,
        _signal = signals.wait_for_signal() => {
            Err(anyhow::anyhow!("stopped before the backup was whole; it is gone, and no other is"))
        }
    };
    at.close().await;
    let Outcome { name, manifest, removed } = taken?;
    let place = opened.home.backups.place();
    say::line(&format!("{name} ({}) in {}", size(manifest.bytes()), place.display()));
    for words in &manifest.contains {
        say::line(&format!("  holds      {words}"));
    }
    for words in &manifest.leaves_out {
        say::line(&format!("  leaves out {words}"));
    }
    for name in &removed {
        say::line(&format!("  removed    {name}, which no rule keeps any more"));
    }
    Ok(())
}

async fn list(opened: &Opened) -> anyhow::Result<()> {
    let there = opened.home.backups.clone();
    let backups = there.list().await?;
    if backups.is_empty() {
        say::line(&format!("There is no backup in {}.", there.place().display()));
    }
    for Backup { name, state } in backups {
        say::line(&match state {
            State::Whole(manifest) => {
                let sealed = manifest.parts.iter().all(|part| part.encrypted);
                let sealed = if sealed { "encrypted" } else { "not encrypted" };
                let (size, version) = (size(manifest.bytes()), &manifest.famulus);
                format!("{name}  {size:>10}  {sealed}, by famulus {version}")
            }
            State::Damaged(reason) => format!("{name}  damaged: {reason}"),
        });
    }
    Ok(())
}

/// A backup, as an argument names it.
fn which(backup: &str, before: Option<jiff::Timestamp>) -> anyhow::Result<Which> {
    if backup == "latest" {
        return Ok(Which::Latest { before });
    }
    anyhow::ensure!(
        before.is_none(),
        "--at chooses among backups; write `latest` instead of a name"
    );
    Ok(Which::Named(backup.to_owned()))
}

/// Bytes, for people.
fn size(bytes: u64) -> String {
    famulus_cli::bytes(i64::try_from(bytes).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_itself_and_a_time_for_the_latest_before_it() {
        let at = "2026-11-24T18:00:00Z".parse().ok();
        assert_eq!(which("latest", at).unwrap(), Which::Latest { before: at });
        assert_eq!(which("x", None).unwrap(), Which::Named("x".into()));
        assert!(which("x", at).unwrap_err().to_string().contains("--at"));
    }
}
