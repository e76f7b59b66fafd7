//! Backups by the clock, while the assistant runs.

use super::home::Home;
use famulus_backup::{
    BackupError,
    folder::{Folder, State},
    take::{Outcome, take},
};
use famulus_core::{Clock, clock::SystemClock};
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_local::postgres::Running;
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The start has better things to do.
const AFTER_START: Duration = Duration::from_mins(1);
/// A disk that is full now may not be so then.
const AFTER_FAILURE: Duration = Duration::from_mins(15);
/// The clock may be set meanwhile, and somebody may take a backup by hand.
const LOOK: Duration = Duration::from_mins(30);

/// Takes backups until the shutdown, if the configuration wants any.
pub(crate) fn schedule(home: Home, place: Running, tasks: &Tasks) {
    if home.config.every_hours == 0 {
        tracing::warn!("no backups are taken: `backup.every_hours` is 0");
        return;
    }
    if home.config.recipient.is_none() {
        tracing::info!(
            "backups are not encrypted, and leave secrets out; `backup.recipient` names a key for both"
        );
    }
    let (home, shutdown) = (Arc::new(home), tasks.token());
    tasks.spawn_loop("backup", OnExit::Restart, move || {
        run(Arc::clone(&home), place.clone(), shutdown.clone())
    });
}

async fn run(home: Arc<Home>, place: Running, shutdown: CancellationToken) {
    let mut pause = AFTER_START;
    while shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some() {
        // Dropped at the shutdown, one that is being taken leaves nothing.
        let Some(taken) = shutdown.run_until_cancelled(Box::pin(once(&home, &place))).await else {
            return;
        };
        pause = match taken {
            Ok(wait) => wait.clamp(Duration::from_secs(1), LOOK),
            Err(error) => {
                tracing::error!(
                    error = format!("{error:#}"),
                    remedy = "see to the cause; it is tried again in a quarter of an hour, and \
                              `famulus backup` tries it at once",
                    "no backup was taken, though one is due"
                );
                AFTER_FAILURE
            }
        };
    }
}

/// Takes a backup if one is due; how long it is until the next one is.
async fn once(home: &Home, place: &Running) -> anyhow::Result<Duration> {
    let source = home.source(place).await?;
    let (folder, installation) = (home.folder(), source.installation);
    let times = tokio::task::spawn_blocking(move || times(&folder, installation)).await??;
    let every = SignedDuration::from_hours(i64::from(home.config.every_hours));
    let wait = until_due(&times, SystemClock.now(), every);
    if !wait.is_zero() {
        return Ok(wait);
    }
    match take(home.plan(), source, &SystemClock).await {
        Ok(Outcome { name, manifest, removed }) => {
            tracing::info!(
                backup.name = name,
                backup.bytes = manifest.bytes(),
                backup.left_out = manifest.leaves_out.join("; "),
                backup.removed = removed.len(),
                "a backup was taken"
            );
        }
        // Somebody takes one by hand: as good.
        Err(error @ BackupError::Busy { .. }) => {
            tracing::info!(error = %chain(&error), "no backup");
        }
        Err(error) => return Err(error.into()),
    }
    Ok(LOOK)
}

/// When the good backups of an installation began.
fn times(folder: &Folder, installation: uuid::Uuid) -> Result<Vec<Timestamp>, BackupError> {
    let whole = folder.list()?.into_iter().filter_map(|backup| match backup.state {
        State::Whole(manifest) if manifest.installation == installation => Some(manifest.begun),
        State::Whole(_) | State::Damaged(_) => None,
    });
    Ok(whole.collect())
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
