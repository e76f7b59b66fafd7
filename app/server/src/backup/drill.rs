//! `famulus backup verify`: a backup counts when it was restored.

use super::{
    home::{Opened, Ours},
    standing::Verified,
    target::Target,
    turn::one_turn,
};
use crate::say;
use anyhow::Context;
use famulus_backup::{
    backups::{Backups, Which},
    manifest::Manifest,
    restore,
};
use famulus_core::{Clock, amount, clock::SystemClock};
use famulus_lifecycle::Signals;
use famulus_local::postgres::Running;
use famulus_store::{Invariant, ReportKind};
use futures::FutureExt;
use rustix::fs::statvfs;
use std::{fs, path::Path};

/// The database that is thrown away.
const DRILL: &str = "drill";

/// Restores a backup into a server of its own, and says what held.
pub(super) async fn verify(
    opened: &Opened,
    which: &Which,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    let backups = opened.home.backups.clone();
    let target = in_use(opened).boxed().await?;
    let own = match &target {
        Some(target) => famulus_store::installation(&target.connect()).await?,
        // The folder decides, or asks for a name.
        None => None,
    };
    let drilled = async {
        let (name, _) = backups.find(which, own.map(|own| own.owner.0)).await?;
        let answers = drill(opened, &backups, &name).boxed().await;
        anyhow::Ok((answers.with_context(|| format!("{name} could not be restored"))?, name))
    };
    let drilled = tokio::select! {
        drilled = Box::pin(drilled) => drilled,
        _signal = signals.wait_for_signal() => Err(anyhow::anyhow!("stopped before a backup was verified")),
    };
    if let Some(target) = &target {
        match &drilled {
            Ok((_, name)) => {
                let at = SystemClock.now();
                target.tell(ReportKind::Verified, Ok((name, at))).await;
            }
            Err(error) => target.tell(ReportKind::NotVerified, Err(error)).await,
        }
    }
    let (answers, name) = drilled?;
    for Invariant { holds_that, .. } in &answers {
        say::line(&format!("  holds: {holds_that}"));
    }
    say::line(&format!("{name} is good: it was restored, and brought up to date."));
    Ok(())
}

/// The database in use, where there is one now.
async fn in_use(opened: &Opened) -> anyhow::Result<Option<Target>> {
    if let Some(url) = &opened.database.url {
        return Ok(Some(Target::elsewhere(url, &opened.database, false).await?));
    }
    let running = Running::find(&opened.home.data_dir).ok().flatten();
    Ok(running.map(|running| Target::of(&running, Running::DATABASE)))
}

/// Restores a backup into a server that is thrown away, and notes it when it is good. Dropped, it ends
/// that server.
pub(super) async fn drill(
    opened: &Opened,
    backups: &Backups,
    name: &str,
) -> anyhow::Result<Vec<Invariant>> {
    let manifest = checked(backups, name).boxed().await?;
    has_room(&opened.home.data_dir, manifest.bytes())?;
    let scratch = opened.home.data_dir.join("verify");
    let ours = Ours::start(&opened.database, &scratch).await?;
    let answers = restored(opened, backups, name, &manifest, &ours).boxed().await;
    ours.stop().await;
    // What cannot be removed is thrown away by the next drill.
    if let Err(error) = fs::remove_dir_all(&scratch) {
        tracing::warn!(path = %scratch.display(), %error, "the data of the drill stay");
    }
    let answers = answers?;
    let verified = Verified { backup: name.to_owned(), at: SystemClock.now() };
    if let Err(error) = verified.note(&opened.home.data_dir) {
        tracing::warn!(%error, "that a backup was restored is not noted");
    }
    Ok(answers)
}

/// Refuses a drill that could fill the disk of the database in use. What a dump of so many bytes
/// becomes is not known before: ten times as much is ample, and a new server wants some of its own.
fn has_room(data_dir: &Path, dump: u64) -> anyhow::Result<()> {
    const SERVER: u64 = 256 * 1024 * 1024;
    let disk = statvfs(data_dir)
        .with_context(|| format!("the disk of {} cannot be asked for room", data_dir.display()))?;
    let (free, wanted) = (disk.f_bavail.saturating_mul(disk.f_frsize), dump.saturating_mul(10));
    let wanted = wanted.saturating_add(SERVER);
    anyhow::ensure!(
        free >= wanted,
        "a backup is restored into {} to see whether it can be, which may take {}, and there are {}; \
         free some space, or verify it on another machine",
        data_dir.display(),
        amount::bytes(wanted),
        amount::bytes(free),
    );
    Ok(())
}

async fn restored(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    ours: &Ours,
) -> anyhow::Result<Vec<Invariant>> {
    // A drill that was killed may have left it.
    ours.postgres.run("postgres", &format!("drop database if exists {DRILL}")).await?;
    ours.postgres.run("postgres", &format!("create database {DRILL}")).await?;
    let identities = opened.home.identities()?;
    let target = ours.target(DRILL);
    restore::database(backups, name, manifest, identities, &target.server()?).await?;
    let mut answers = sound(&target, name).boxed().await?;
    let turn = one_turn(target.url()).boxed().await;
    turn.with_context(|| format!("no turn could be worked on what {name} restores"))?;
    answers.push(Invariant { holds_that: "a turn that begins now is answered", broken: 0 });
    Ok(answers)
}

/// Reads all parts of a backup, and sees that this release can work on it.
pub(super) async fn checked(backups: &Backups, name: &str) -> anyhow::Result<Manifest> {
    let manifest = backups.check(name).await?;
    let newest = famulus_store::newest_schema();
    anyhow::ensure!(
        manifest.schema <= newest,
        "the backup {name} was taken by famulus {} with schema {}, and this one is {} with schema \
         {newest}; restore it with that release, or a newer one",
        manifest.famulus,
        manifest.schema,
        env!("CARGO_PKG_VERSION"),
    );
    Ok(manifest)
}

/// Brings a restored database up to date and asks it whether it is sound.
pub(super) async fn sound(target: &Target, name: &str) -> anyhow::Result<Vec<Invariant>> {
    let connect = target.connect();
    famulus_store::migrate(&connect).await?;
    let answers = famulus_store::soundness(&connect).await?;
    let broken: Vec<String> = answers
        .iter()
        .filter(|answer| answer.broken != 0)
        .map(|answer| format!("{} (not so for {} rows)", answer.holds_that, answer.broken))
        .collect();
    anyhow::ensure!(
        broken.is_empty(),
        "what {name} restores is not sound: {}; choose an older one (`famulus backup list`)",
        broken.join("; ")
    );
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drill_that_could_fill_the_disk_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        has_room(folder.path(), 1024).unwrap();
        let refused = has_room(folder.path(), u64::MAX / 20).unwrap_err().to_string();
        assert!(refused.contains("free some space"), "{refused}");
    }
}
