//! Which results have still to be let go.

use std::collections::BTreeMap;

use famulus_protocol::CallId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// More are dropped: the runner that they are with is long gone, or beyond help.
const MOST: usize = 1024;

/// By call: the plugin's UID, and since when.
#[derive(Debug, Default)]
pub(crate) struct PendingAcks(Mutex<BTreeMap<CallId, (String, Instant)>>);

impl PendingAcks {
    pub(crate) fn add(&self, id: CallId, plugin: &str) {
        let mut acks = self.0.lock();
        if acks.len() < MOST {
            acks.entry(id).or_insert_with(|| (plugin.to_owned(), Instant::now()));
        }
    }

    /// Each with its plugin's UID, and since when.
    pub(crate) fn all(&self) -> Vec<(CallId, String, Instant)> {
        let acks = self.0.lock();
        acks.iter().map(|(id, (plugin, since))| (id.clone(), plugin.clone(), *since)).collect()
    }

    pub(crate) fn remove(&self, id: &CallId) {
        self.0.lock().remove(id);
    }
}
