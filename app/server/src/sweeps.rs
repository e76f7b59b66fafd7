//! What happens by the clock: schedules fall due, old things go. Sweepers take no input, may run in
//! any number of processes at once, and start over after any failure.

use crate::plugins::Installed;
use famulus_core::Clock;
use famulus_errors::chain;
use famulus_queue::hint::Topic;
use famulus_store::{Retention, Store};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Schedules decided in one transaction.
const AT_ONCE: i64 = 50;
/// Schedules are looked at this often even if none is due: another process may have added one.
const LOOK: Duration = Duration::from_secs(15);
const RETENTION: Duration = Duration::from_hours(1);
const AFTER_START: Duration = Duration::from_mins(1);
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// When a sweep begins anew.
struct Beat {
    next: Duration,
    then: Duration,
    shutdown: CancellationToken,
}

impl Beat {
    /// Once an hour, but not while the start has better things to do.
    fn hourly(shutdown: CancellationToken) -> Self {
        Self { next: AFTER_START, then: RETENTION, shutdown }
    }

    /// Waits; false when the process ends.
    async fn comes(&mut self) -> bool {
        let pause = std::mem::replace(&mut self.next, self.then);
        self.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }
}

/// Starts the turns of schedules as they fall due.
pub(crate) async fn schedules(store: Store, clock: Arc<dyn Clock>, shutdown: CancellationToken) {
    let mut hint = store.hints.subscribe(Topic::Control);
    loop {
        hint.mark_unchanged();
        let now = clock.now();
        let pause = match store.fire_due(now, AT_ONCE).await {
            Ok(fired) => {
                if fired.missed > 0 {
                    tracing::info!(missed = fired.missed, "slots passed while nothing ran");
                }
                fired.next_due.map_or(LOOK, |due| {
                    let wait = due.duration_since(clock.now());
                    Duration::try_from(wait).unwrap_or(Duration::ZERO).min(LOOK)
                })
            }
            Err(error) => {
                tracing::warn!(error = %chain(&error), "looking for due schedules failed");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            _changed = hint.changed() => {}
            () = tokio::time::sleep(pause.max(Duration::from_millis(1))) => {}
        }
    }
}

/// Hands over what turns left unread that an older release ended beside this one.
pub(crate) async fn leftovers(store: Store, shutdown: CancellationToken) {
    let mut beat = Beat { next: Duration::ZERO, then: LOOK, shutdown };
    while beat.comes().await {
        if let Err(error) = store.hand_over_leftovers().await {
            tracing::warn!(error = %chain(&error), "looking for unread messages failed");
        }
    }
}

/// Deletes what need not be kept, a minute after the start and once an hour.
pub(crate) async fn retention(
    store: Store,
    clock: Arc<dyn Clock>,
    keep: Retention,
    shutdown: CancellationToken,
) {
    let mut beat = Beat::hourly(shutdown);
    while beat.comes().await {
        match store.sweep_old(clock.now(), &keep).await {
            Ok(swept) => tracing::debug!(?swept, "old rows were deleted"),
            Err(error) => tracing::warn!(error = %chain(&error), "deleting old rows failed"),
        }
    }
}

/// Forgets bundles that nobody needs, once an hour, and only by a whole list of the plugins there are.
pub(crate) async fn bundles(
    store: Store,
    installed: Installed,
    clock: Arc<dyn Clock>,
    shutdown: CancellationToken,
) {
    let Installed { plugins, kept_bundles } = installed;
    let mut beat = Beat::hourly(shutdown);
    while beat.comes().await {
        let list = match plugins.installed().await {
            Ok(list) => list,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "bundles stay: the plugins cannot be listed");
                continue;
            }
        };
        match store.forget_revisions(clock.now(), &list, kept_bundles).await {
            Ok(0) => {}
            Ok(revisions) => tracing::info!(revisions, "bundles of plugins were let go"),
            Err(error) => tracing::warn!(error = %chain(&error), "letting bundles go failed"),
        }
    }
}
