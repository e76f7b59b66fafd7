//! Backups by the clock, while the assistant runs, and a look from time to time whether they can be
//! restored.

use super::{
    drill::drill,
    home::{Opened, installation},
    keeping::FOR_A_BACKUP,
    standing::{HERE, Known, Last, Verified},
    target::Target,
    told::{tell_owner, that_it_was_restored},
};
use crate::notices::Notices;
use famulus_api::Standing;
use famulus_backup::{
    BackupError,
    take::{Outcome, take},
};
use famulus_core::{Clock, clock::SystemClock};
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_local::postgres::Running;
use futures::FutureExt;
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The start has better things to do.
const AFTER_START: Duration = Duration::from_mins(1);
/// A disk that is full now may not be so then.
const AFTER_FAILURE: Duration = Duration::from_mins(15);
/// The clock may be set meanwhile, and somebody may take a backup by hand.
const LOOK: Duration = Duration::from_mins(30);

/// Takes backups until the shutdown, if the configuration wants any, and tells how they stand.
pub(crate) fn schedule(
    opened: Opened,
    place: Running,
    told: watch::Sender<Option<Standing>>,
    notices: Notices,
    tasks: &Tasks,
) {
    if opened.home.config.every_hours == 0 {
        tracing::warn!("no backups are taken: `backup.every_hours` is 0");
    } else if opened.home.config.recipient.is_none() {
        tracing::info!(
            "backups are not encrypted, and leave secrets out; `backup.recipient` names a key for both"
        );
    }
    let (keeper, shutdown) = (Arc::new(Keeper { opened, place, told, notices }), tasks.token());
    tasks.spawn_loop("backup", OnExit::Restart, move || Arc::clone(&keeper).run(shutdown.clone()));
}

/// Who sees to the backups of a home.
struct Keeper {
    opened: Opened,
    place: Running,
    told: watch::Sender<Option<Standing>>,
    notices: Notices,
}

impl Keeper {
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        that_it_was_restored(&self.notices).boxed().await;
        let mut known = Known::default();
        let mut pause = AFTER_START;
        if let Err(error) = self.look(&mut known).boxed().await {
            tracing::warn!(error = format!("{error:#}"), "how the backups stand is not known");
        }
        self.tell(&known);
        while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
            // Dropped at the shutdown, one that is being taken leaves nothing.
            let round = self.round(&mut known).boxed();
            let Some(wait) = shutdown.run_until_cancelled(round).await else { return };
            self.tell(&known);
            pause = wait;
        }
    }

    /// Does what is due; how long to wait for the next look.
    async fn round(&self, known: &mut Known) -> Duration {
        match self.take_if_due(known).boxed().await {
            Ok(wait) => {
                known.not_taken = None;
                self.verify_if_due(known).boxed().await;
                wait.clamp(Duration::from_secs(1), LOOK)
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(
                    error,
                    remedy = "see to the cause; it is tried again in a quarter of an hour, and \
                              `famulus backup` tries it at once",
                    "no backup was taken, though one is due"
                );
                metrics::counter!("famulus_backup_failures_total").increment(1);
                let words = format!(
                    "No backup was taken, though one is due: {error}. It is tried again every \
                     quarter of an hour; `famulus backup` tries it at once."
                );
                let today = SystemClock.now().strftime("%F");
                tell_owner(&self.notices, &format!("backup not taken {today}"), &words)
                    .boxed()
                    .await;
                known.not_taken = Some(error);
                AFTER_FAILURE
            }
        }
    }

    fn tell(&self, known: &Known) {
        known.count();
        let takes = self.opened.home.config.every_hours > 0;
        self.told.send_replace(Some(known.standing(takes, &HERE, SystemClock.now())));
    }

    fn target(&self) -> Target {
        Target::of(&self.place, Running::DATABASE)
    }

    /// What there is; all times of good backups.
    async fn look(&self, known: &mut Known) -> anyhow::Result<Vec<Timestamp>> {
        let home = &self.opened.home;
        let installation = installation(&self.target()).await?.owner.0;
        let good = home.backups.good(installation).await?;
        let good: Vec<Last> =
            good.iter().map(|(name, manifest)| Last::of(name, manifest)).collect();
        let now = SystemClock.now();
        known.last = good.iter().filter(|last| last.begun <= now).max_by_key(|l| l.begun).cloned();
        known.learn(Verified::read(&home.data_dir));
        Ok(good.into_iter().map(|last| last.begun).collect())
    }

    /// Takes a backup if one is due; how long it is until the next one is.
    async fn take_if_due(&self, known: &mut Known) -> anyhow::Result<Duration> {
        let times = self.look(known).await?;
        let home = &self.opened.home;
        if home.config.every_hours == 0 {
            return Ok(LOOK);
        }
        let every = SignedDuration::from_hours(i64::from(home.config.every_hours));
        let wait = until_due(&times, SystemClock.now(), every);
        if !wait.is_zero() {
            return Ok(wait);
        }
        let source = home.source(&self.target(), FOR_A_BACKUP).await?;
        match take(home.plan(), source, &SystemClock).await {
            Ok(Outcome { name, manifest, removed, lacks: _ }) => {
                tracing::info!(
                    backup.name = name,
                    backup.bytes = manifest.bytes(),
                    backup.left_out = manifest.leaves_out.join("; "),
                    backup.removed = removed.len(),
                    "a backup was taken"
                );
                known.last = Some(Last::of(&name, &manifest));
            }
            // Somebody takes one by hand: as good.
            Err(error @ BackupError::Busy { .. }) => {
                tracing::info!(error = %chain(&error), "no backup");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(LOOK)
    }

    /// Restores the last backup into a server that is thrown away, if none was for long enough.
    async fn verify_if_due(&self, known: &mut Known) {
        let config = &self.opened.home.config;
        let Some(last) = known.last.clone() else { return };
        let every = SignedDuration::from_hours(i64::from(config.verify_every_hours));
        let now = SystemClock.now();
        let fresh = known.verified.as_ref().is_some_and(|v| now.duration_since(v.at) < every);
        let failed = known.not_restored.as_ref().is_some_and(|(name, _)| *name == last.name);
        // What is sealed opens to its key alone, which may well be elsewhere.
        let sealed = last.encrypted && config.identity_file.is_none();
        if every.is_zero() || fresh || failed || sealed {
            return;
        }
        let backups = self.opened.home.backups.clone();
        match drill(&self.opened, &backups, &last.name).boxed().await {
            Ok(_answers) => {
                tracing::info!(backup.name = last.name, "a backup was restored, and is good");
                known.learn(Some(Verified { backup: last.name, at: SystemClock.now() }));
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(
                    backup.name = last.name,
                    error,
                    remedy = "see to the cause; `famulus backup verify` tries it again",
                    "a backup could not be restored"
                );
                metrics::counter!("famulus_backup_failures_total").increment(1);
                let name = &last.name;
                let words = format!(
                    "The backup {name} could not be restored to see whether it can be: {error}. \
                     `famulus backup verify` tries it again."
                );
                tell_owner(&self.notices, &format!("backup not restored {name}"), &words)
                    .boxed()
                    .await;
                known.not_restored = Some((last.name, error));
            }
        }
    }
}

/// One whose time lies ahead, because a clock was wrong, puts nothing off.
fn until_due(times: &[Timestamp], now: Timestamp, every: SignedDuration) -> Duration {
    let last = times.iter().filter(|at| **at <= now).max();
    last.map_or(Duration::ZERO, |last| {
        Duration::try_from(every - now.duration_since(*last)).unwrap_or(Duration::ZERO)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_is_due_a_while_after_the_last_whatever_clocks_say() {
        let at = |text: &str| -> Timestamp { text.parse().unwrap() };
        let now = at("2026-11-24T12:00:00Z");
        let check = |times: &[&str], minutes: u64| {
            let times: Vec<Timestamp> = times.iter().map(|text| at(text)).collect();
            let wait = until_due(&times, now, SignedDuration::from_hours(24));
            assert_eq!(wait, Duration::from_mins(minutes), "{times:?}");
        };
        check(&[], 0);
        check(&["2026-11-24T11:00:00Z"], 23 * 60);
        check(&["2026-11-23T12:30:00Z", "2026-11-22T12:00:00Z"], 30);
        check(&["2026-11-01T00:00:00Z"], 0);
        check(&["2027-01-01T00:00:00Z"], 0);
        check(&["2027-01-01T00:00:00Z", "2026-11-24T12:00:00Z"], 24 * 60);
    }
}
