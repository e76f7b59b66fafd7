//! `famulus backup` and `famulus restore`: what `famulus-backup` does, on the private Postgres or on the one
//! that the configuration names.
//!
//! ```text
//! famulus backup         dump ─► place             private and not running: start, dump, stop
//! famulus backup verify  place ─► a server of its own, on data that are thrown away
//! famulus restore        private: a database beside the one in use ─► sound? ─► renamed in its place
//!                        named:   an empty one, in one transaction; in a cluster its Plugins, too
//! famulus up             the first two, by the clock, and the first before an update
//! ```
//!
//! In a cluster others run these commands by the clock, and tell the app in its database what became of
//! them.

mod drill;
mod elsewhere;
mod held;
mod home;
mod keeping;
mod machine;
mod restore;
mod schedule;
mod standing;
mod target;
mod told;
mod turn;
mod upgrade;

pub use {
    elsewhere::restore_secrets,
    held::hold,
    home::{Home, Opened, Where},
    restore::restore,
};
pub(crate) use {schedule::schedule, told::watch, upgrade::before_migration};

use crate::{args::BackupCommand, paths::Paths, say};
use anyhow::Context;
use famulus_backup::{
    backups::{Backup, State, Which},
    take::{Outcome, take},
};
use famulus_core::{amount, clock::SystemClock};
use famulus_lifecycle::Signals;
use famulus_store::ReportKind;
use home::At;
use keeping::{BEFORE_AN_UPDATE, FOR_A_BACKUP};
use std::path::PathBuf;

/// A backup that is good, and does not hold all that it was to hold.
#[derive(Debug, thiserror::Error)]
#[error("{backup} is good, and lacks {lacks}")]
pub struct Incomplete {
    backup: String,
    lacks: String,
}

impl Incomplete {
    /// What the program ends with: another one at once would lack the same.
    pub const EXIT_CODE: u8 = 3;
}

/// `famulus backup …`.
pub async fn run(
    command: Option<BackupCommand>,
    before_update: bool,
    file: Option<PathBuf>,
    places: Paths,
) -> anyhow::Result<()> {
    let mut signals = Signals::install().context("signals cannot be received")?;
    let (opened, _telemetry) = Opened::load(file, places)?;
    match command {
        None => now(&opened, before_update, &mut signals).await,
        Some(BackupCommand::List) => list(&opened).await,
        Some(BackupCommand::Verify { backup }) => {
            Box::pin(drill::verify(&opened, &which(&backup, None)?, &mut signals)).await
        }
    }
}

/// Takes a backup, and says what is in it.
async fn now(opened: &Opened, before_update: bool, signals: &mut Signals) -> anyhow::Result<()> {
    let at = At::open(opened).await?;
    let target = at.target();
    let taking = async {
        if before_update && upgrade::pending(&target).await?.is_none() {
            return Ok(None);
        }
        let patience = if before_update { BEFORE_AN_UPDATE } else { FOR_A_BACKUP };
        let source = opened.home.source(&target, patience).await?;
        let plan = opened.home.plan();
        anyhow::Ok(Some(take(plan, source, &SystemClock).await?))
    };
    let taken = tokio::select! {
        taken = taking => taken,
        _signal = signals.wait_for_signal() => {
            Err(anyhow::anyhow!("stopped before the backup was whole; it is gone, and no other is"))
        }
    };
    match &taken {
        Ok(Some(Outcome { name, manifest, lacks, .. })) => {
            let lacks = (!lacks.is_empty()).then(|| lacks.join("; "));
            target.tell_taken(name, manifest.begun, lacks).await;
        }
        Ok(None) => {}
        Err(error) => target.tell(ReportKind::NotTaken, Err(error)).await,
    }
    at.close().await;
    let Some(Outcome { name, manifest, lacks, removed }) = taken? else {
        say::line("This release leaves the database as it is: no backup was taken.");
        return Ok(());
    };
    let place = opened.home.backups.place();
    say::line(&format!("{name} ({}) in {}", amount::bytes(manifest.bytes()), place.display()));
    for words in &manifest.contains {
        say::line(&format!("  holds      {words}"));
    }
    for words in &manifest.leaves_out {
        say::line(&format!("  leaves out {words}"));
    }
    for name in &removed {
        say::line(&format!("  removed    {name}, which no rule keeps any more"));
    }
    // An update changes the database, and nothing of what plugins keep.
    if before_update { Ok(()) } else { complete(name, &lacks) }
}

fn complete(backup: String, lacks: &[String]) -> anyhow::Result<()> {
    anyhow::ensure!(lacks.is_empty(), Incomplete { backup, lacks: lacks.join("; ") });
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
                let (size, version) = (amount::bytes(manifest.bytes()), &manifest.famulus);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The program ends by it with a code of its own.
    #[test]
    fn a_backup_that_lacks_something_is_told_from_one_that_failed() {
        complete("b".to_owned(), &[]).unwrap();
        let lacks = ["the files of w: gone".to_owned(), "more".to_owned()];
        let error = complete("b".to_owned(), &lacks).unwrap_err();
        assert_eq!(error.to_string(), "b is good, and lacks the files of w: gone; more");
        assert!(error.is::<Incomplete>());
    }

    #[test]
    fn a_name_stands_for_itself_and_a_time_for_the_latest_before_it() {
        let at = "2026-11-24T18:00:00Z".parse().ok();
        assert_eq!(which("latest", at).unwrap(), Which::Latest { before: at });
        assert_eq!(which("x", None).unwrap(), Which::Named("x".into()));
        assert!(which("x", at).unwrap_err().to_string().contains("--at"));
    }
}
