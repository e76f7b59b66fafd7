//! What this process used of plugins, and since when it used none of one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use famulus_protocol::CallId;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::home::KnownPlugin;

/// Between two looks; use is seen that much later.
pub(crate) const LOOK: Duration = Duration::from_secs(1);

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
    pub(crate) fn take(&self) -> BTreeSet<String> {
        let now = Instant::now();
        let mut state = self.state.lock();
        state.later.retain(|_, (_, until)| now < *until);
        let mut used = std::mem::take(&mut state.called);
        used.extend(state.later.values().map(|(plugin, _)| plugin.clone()));
        used
    }

    /// Those of which it is time to ask whether nobody used them: `up` have a runner, `used` were
    /// used now. Whoever was not idle here for long enough was not idle.
    pub(crate) fn due<'a, P: KnownPlugin>(
        &self,
        used: &BTreeSet<String>,
        up: impl Iterator<Item = &'a Arc<P>>,
    ) -> Vec<Arc<P>> {
        let now = Instant::now();
        let mut state = self.state.lock();
        let before = std::mem::take(&mut state.due);
        let mut due = Vec::new();
        for known in up {
            let next = match before.get(known.uid()) {
                Some(_) if used.contains(known.uid()) => now + known.idle(),
                None => now + known.idle(),
                Some(next) if *next > now => *next,
                Some(_) => {
                    due.push(Arc::clone(known));
                    now + (known.idle() / 4).clamp(LOOK, ASK_AGAIN)
                }
            };
            state.due.insert(known.uid().to_owned(), next);
        }
        due
    }
}
