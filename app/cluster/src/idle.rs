//! Lets runners end that nobody uses.
//!
//! Use is noted where all processes see it: what was called since the last look, and what runs now.
//! A runner that is told to end finishes what it has, so a call that slips in between is refused
//! with *draining* and starts another one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use famulus_errors::chain;
use famulus_protocol::CallId;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::activation::ScaleError;
use crate::cluster::Cluster;
use crate::plugin::CachedPlugin;

/// Between two looks; use is seen that much later.
const LOOK: Duration = Duration::from_secs(1);

/// Every so many looks it is said again which results may go.
const SETTLE: u64 = 5;

/// Who was let stop has so long before another one is.
const STOP_AGAIN: Duration = Duration::from_secs(10);

/// Between two questions about one plugin: another process may use it.
const ASK_AGAIN: Duration = Duration::from_secs(30);

/// A call of an async tool, and as long as its runner tries to deliver it.
const LATER: Duration = Duration::from_mins(6);

/// What this process used.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    /// Held for single operations, never across an await.
    state: Mutex<UsageState>,
}

#[derive(Debug, Default)]
struct UsageState {
    /// UIDs of plugins that were called since the last look.
    called: BTreeSet<String>,
    /// Calls whose results come later: the plugin's UID, and when it is not waited for any more.
    later: BTreeMap<CallId, (String, Instant)>,
    /// When to ask of a plugin that has a runner whether nobody used it.
    due: BTreeMap<String, Instant>,
}

impl Usage {
    pub(crate) fn called(&self, plugin: &str) {
        self.state.lock().called.insert(plugin.to_owned());
    }

    pub(crate) fn comes_later(&self, id: CallId, plugin: &str) {
        self.state.lock().later.insert(id, (plugin.to_owned(), Instant::now() + LATER));
    }

    pub(crate) fn result_came(&self, id: &CallId) {
        self.state.lock().later.remove(id);
    }

    /// The plugins that were used since the last look.
    fn take(&self) -> BTreeSet<String> {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.later.retain(|_, (_, until)| now < *until);
        let mut used = std::mem::take(&mut state.called);
        used.extend(state.later.values().map(|(plugin, _)| plugin.clone()));
        used
    }

    /// Those of which it is time to ask whether nobody used them: `up` have a runner, `used` were
    /// used now. Whoever was not idle here for long enough was not idle.
    fn due<'a>(
        &self,
        used: &BTreeSet<String>,
        up: impl Iterator<Item = &'a Arc<CachedPlugin>>,
    ) -> Vec<Arc<CachedPlugin>> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let before = std::mem::take(&mut state.due);
        let mut due = Vec::new();
        for known in up {
            let next = match before.get(&known.uid) {
                Some(_) if used.contains(&known.uid) => now + known.idle,
                None => now + known.idle,
                Some(next) if *next > now => *next,
                Some(_) => {
                    due.push(Arc::clone(known));
                    now + (known.idle / 4).clamp(LOOK, ASK_AGAIN)
                }
            };
            state.due.insert(known.uid.clone(), next);
        }
        due
    }
}

impl Cluster {
    /// Looks again and again.
    pub(crate) async fn run_idle(self: Arc<Self>) {
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for look in 0_u64.. {
            looks.tick().await;
            self.look().await;
            if look % SETTLE == 0 {
                self.retry_acks().await;
            }
        }
    }

    async fn look(&self) {
        let plugins = self.table.plugins();
        let mut used = self.used.take();
        for known in plugins.values() {
            if self.table.runners(&known.stem).iter().any(|runner| runner.calls() > 0) {
                used.insert(known.uid.clone());
            }
        }
        let noted: Vec<String> = used.iter().cloned().collect();
        if !noted.is_empty()
            && let Err(error) = self.demand.used(&noted).await
        {
            tracing::warn!(error = chain(&error), "the use of plugins could not be recorded");
            for plugin in &noted {
                self.used.called(plugin);
            }
            return;
        }
        let up = plugins.values().filter(|known| known.replicas > 0);
        for known in self.used.due(&used, up) {
            self.scale_down(&known).await;
        }
    }

    /// Writes 0, if nobody used it for long enough and this process is the one that does. The
    /// version says that nobody asked for it since it was looked at.
    async fn scale_down(&self, known: &CachedPlugin) {
        let may = self.demand.may_stop(&known.uid, known.idle, STOP_AGAIN).await;
        match may {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    plugin.name = known.name,
                    error,
                    "an idle plugin could not be scaled to zero"
                );
                return;
            }
        }
        match self.scale(known, 0, Some(&known.resource_version)).await {
            Ok(()) => tracing::info!(plugin.name = known.name, "scaling an idle plugin to zero"),
            Err(ScaleError::Changed) => {
                tracing::debug!(
                    plugin.name = known.name,
                    "an idle plugin is not scaled to zero: it changed meanwhile"
                );
            }
            Err(error) => {
                let error = chain(&error);
                tracing::warn!(
                    plugin.name = known.name,
                    error,
                    "an idle plugin could not be scaled to zero"
                );
            }
        }
    }
}
