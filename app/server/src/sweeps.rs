//! What happens by the clock: schedules fall due, old things go. Sweepers take no input, may run in
//! any number of processes at once, and start over after any failure.

use crate::plugins::Installed;
use famulus_core::{
    Clock,
    plugin::{InstalledPlugin, InstalledPlugins},
};
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_queue::hint::Topic;
use famulus_store::{Retention, Store, Vanished};
use futures::{FutureExt as _, future::BoxFuture};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// Schedules decided in one transaction.
const AT_ONCE: i64 = 50;
/// Schedules are looked at this often even if none is due: another process may have added one.
const LOOK: Duration = Duration::from_secs(15);
const RETENTION: Duration = Duration::from_hours(1);
const AFTER_START: Duration = Duration::from_mins(1);
const AFTER_FAILURE: Duration = Duration::from_secs(2);

/// All sweepers of a process.
pub(crate) struct Sweeps {
    pub(crate) store: Store,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) keep: Retention,
    pub(crate) shutdown: CancellationToken,
}

type Sweep = fn(Arc<Sweeps>) -> BoxFuture<'static, ()>;

impl Sweeps {
    /// Has each begin, and begin anew should it fail.
    pub(crate) fn begin(self, tasks: &Tasks, installed: Option<Installed>) {
        let sweeps = Arc::new(self);
        let all: [(&str, Sweep); 4] = [
            ("schedules", |sweeps| sweeps.schedules().boxed()),
            ("retention", |sweeps| sweeps.retention().boxed()),
            ("leftovers", |sweeps| sweeps.leftovers().boxed()),
            ("vanishing", |sweeps| sweeps.vanishing().boxed()),
        ];
        for (name, sweep) in all {
            let sweeps = Arc::clone(&sweeps);
            tasks.spawn_loop(name, OnExit::Restart, move || sweep(Arc::clone(&sweeps)));
        }
        if let Some(installed) = installed {
            tasks.spawn_loop("bundles", OnExit::Restart, move || {
                Arc::clone(&sweeps).bundles(installed.clone())
            });
        }
    }

    /// Starts the turns of schedules as they fall due.
    async fn schedules(self: Arc<Self>) {
        let mut hint = self.store.hints.subscribe(Topic::Control);
        loop {
            hint.mark_unchanged();
            let now = self.clock.now();
            let pause = match self.store.fire_due(now, AT_ONCE).await {
                Ok(fired) => {
                    if fired.missed > 0 {
                        tracing::info!(missed = fired.missed, "slots passed while nothing ran");
                    }
                    fired.next_due.map_or(LOOK, |due| {
                        let wait = due.duration_since(self.clock.now());
                        Duration::try_from(wait).unwrap_or(Duration::ZERO).min(LOOK)
                    })
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "looking for due schedules failed");
                    AFTER_FAILURE
                }
            };
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                _changed = hint.changed() => {}
                () = tokio::time::sleep(pause.max(Duration::from_millis(1))) => {}
            }
        }
    }

    /// Hands over what turns left unread that an older release ended beside this one.
    async fn leftovers(self: Arc<Self>) {
        let mut beat = self.beat(Duration::ZERO, LOOK);
        while beat.comes().await {
            if let Err(error) = self.store.hand_over_leftovers().await {
                tracing::warn!(error = %chain(&error), "looking for unread messages failed");
            }
        }
    }

    /// Deletes what need not be kept.
    async fn retention(self: Arc<Self>) {
        let mut beat = self.hourly();
        while beat.comes().await {
            match self.store.sweep_old(self.clock.now(), &self.keep).await {
                Ok(swept) => tracing::debug!(?swept, "old rows were deleted"),
                Err(error) => tracing::warn!(error = %chain(&error), "deleting old rows failed"),
            }
        }
    }

    /// Lets go what people want gone.
    async fn vanishing(self: Arc<Self>) {
        let mut beat = self.beat(Duration::ZERO, LOOK);
        while beat.comes().await {
            match self.store.vanish(self.clock.now()).await {
                Ok(gone) if gone == Vanished::default() => {}
                Ok(gone) => tracing::info!(?gone, "messages that were to vanish are gone"),
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "letting messages vanish failed");
                }
            }
        }
    }

    /// Forgets bundles that nobody needs, and only by a whole list of the plugins there are.
    async fn bundles(self: Arc<Self>, installed: Installed) {
        let Installed { plugins, kept_bundles } = installed;
        let forget = |list: Vec<InstalledPlugin>| {
            let (store, now) = (self.store.clone(), self.clock.now());
            async move { store.forget_revisions(now, &list, kept_bundles).await }
        };
        by_whole_lists(&*plugins, forget, self.hourly()).await;
    }

    fn beat(&self, next: Duration, then: Duration) -> Beat {
        Beat { next, then, shutdown: self.shutdown.clone() }
    }

    /// Once an hour, but not while the start has better things to do.
    fn hourly(&self) -> Beat {
        self.beat(AFTER_START, RETENTION)
    }
}

/// When a sweep begins anew.
struct Beat {
    next: Duration,
    then: Duration,
    shutdown: CancellationToken,
}

impl Beat {
    /// Waits; false when the process ends.
    async fn comes(&mut self) -> bool {
        let pause = std::mem::replace(&mut self.next, self.then);
        self.shutdown.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }
}

/// Has bundles forgotten at each beat. A list that could lack a plugin would let go what is in use.
async fn by_whole_lists<F>(
    plugins: &dyn InstalledPlugins,
    mut forget: impl FnMut(Vec<InstalledPlugin>) -> F,
    mut beat: Beat,
) where
    F: Future<Output = Result<u64, famulus_store::Error>>,
{
    while beat.comes().await {
        let list = match plugins.installed().await {
            Ok(list) => list,
            Err(error) => {
                tracing::warn!(error = %chain(&error), "bundles stay: the plugins cannot be listed");
                continue;
            }
        };
        match forget(list).await {
            Ok(0) => {}
            Ok(revisions) => tracing::info!(revisions, "bundles of plugins were let go"),
            Err(error) => tracing::warn!(error = %chain(&error), "letting bundles go failed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use famulus_core::sandbox::SandboxError;
    use parking_lot::Mutex;

    /// Gives these answers one after another, and then the process ends.
    struct Answers {
        left: Mutex<Vec<Result<Vec<InstalledPlugin>, SandboxError>>>,
        shutdown: CancellationToken,
    }

    #[async_trait]
    impl InstalledPlugins for Answers {
        async fn installed(&self) -> Result<Vec<InstalledPlugin>, SandboxError> {
            let mut left = self.left.lock();
            let answer = left.remove(0);
            if left.is_empty() {
                self.shutdown.cancel();
            }
            answer
        }
    }

    #[tokio::test]
    async fn without_a_whole_list_of_plugins_no_bundle_goes() {
        let of = |name: &str| InstalledPlugin { name: name.into(), in_use: vec!["r".into()] };
        let away = || Err(SandboxError::Away("the API server".into()));
        let whole = vec![of("weather"), of("mail")];
        let shutdown = CancellationToken::new();
        let left = Mutex::new(vec![away(), Ok(whole.clone()), away()]);
        let answers = Answers { left, shutdown: shutdown.clone() };
        let mut forgotten_by = Vec::new();
        let forget = |list| {
            forgotten_by.push(list);
            async { Ok(1) }
        };
        let beat = Beat { next: Duration::ZERO, then: Duration::ZERO, shutdown };
        by_whole_lists(&answers, forget, beat).await;
        assert_eq!(*answers.left.lock(), [], "every list was asked for");
        assert_eq!(forgotten_by, [whole]);
    }
}
