//! The plugins and runners of this machine, as they are now.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::plugin::LocalPlugin;
use crate::runner::LocalRunner;

/// Readers hold what they were given; each change puts something new in its place.
#[derive(Default)]
pub(crate) struct Table {
    /// Held for single operations, never across an await.
    rows: Mutex<Rows>,
    changes: watch::Sender<u64>,
}

#[derive(Default)]
struct Rows {
    /// By UID.
    plugins: BTreeMap<String, Arc<LocalPlugin>>,
    /// By the UID of the plugin, oldest first.
    runners: BTreeMap<String, Vec<Arc<LocalRunner>>>,
}

impl Table {
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// By name.
    pub(crate) fn plugins(&self) -> BTreeMap<String, Arc<LocalPlugin>> {
        let rows = self.rows.lock();
        let named = rows.plugins.values().map(|plugin| (plugin.record.name.clone(), plugin));
        named.map(|(name, plugin)| (name, Arc::clone(plugin))).collect()
    }

    pub(crate) fn plugin(&self, name: &str) -> Option<Arc<LocalPlugin>> {
        let rows = self.rows.lock();
        rows.plugins.values().find(|plugin| plugin.record.name == name).map(Arc::clone)
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<Arc<LocalPlugin>> {
        self.rows.lock().plugins.get(uid).map(Arc::clone)
    }

    pub(crate) fn runners(&self, uid: &str) -> Vec<Arc<LocalRunner>> {
        self.rows.lock().runners.get(uid).cloned().unwrap_or_default()
    }

    pub(crate) fn has(&self, runner: &LocalRunner) -> bool {
        let rows = self.rows.lock();
        let of_plugin = rows.runners.get(&runner.plugin);
        of_plugin.into_iter().flatten().any(|other| std::ptr::eq(Arc::as_ptr(other), runner))
    }

    /// Puts in what `change` makes of the plugin as it is; nothing if it makes nothing. What it gives counts
    /// as decided anew.
    pub(crate) fn put(
        &self,
        uid: &str,
        change: impl FnOnce(Option<&LocalPlugin>) -> Option<LocalPlugin>,
    ) -> Option<Arc<LocalPlugin>> {
        let mut rows = self.rows.lock();
        let before = rows.plugins.get(uid).map(Arc::clone);
        let mut after = change(before.as_deref())?;
        after.version = before.map_or(1, |before| before.version + 1);
        after.runners = count(rows.runners.get(uid));
        let after = Arc::new(after);
        rows.plugins.insert(uid.to_owned(), Arc::clone(&after));
        drop(rows);
        self.tell();
        Some(after)
    }

    pub(crate) fn remove(&self, uid: &str) {
        self.rows.lock().plugins.remove(uid);
        self.tell();
    }

    pub(crate) fn add_runner(&self, runner: &Arc<LocalRunner>) {
        let mut rows = self.rows.lock();
        rows.runners.entry(runner.plugin.clone()).or_default().push(Arc::clone(runner));
        rows.recount(&runner.plugin);
        drop(rows);
        self.tell();
    }

    pub(crate) fn remove_runner(&self, runner: &Arc<LocalRunner>) {
        let mut rows = self.rows.lock();
        if let Some(runners) = rows.runners.get_mut(&runner.plugin) {
            runners.retain(|other| !Arc::ptr_eq(other, runner));
            if runners.is_empty() {
                rows.runners.remove(&runner.plugin);
            }
        }
        rows.recount(&runner.plugin);
        drop(rows);
        self.tell();
    }

    pub(crate) fn tell(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Rows {
    /// Notes how many runners a plugin has. Nothing was decided, so its version stays.
    fn recount(&mut self, uid: &str) {
        let runners = count(self.runners.get(uid));
        if let Some(plugin) = self.plugins.get_mut(uid) {
            let mut counted = LocalPlugin::clone(plugin);
            counted.runners = runners;
            *plugin = Arc::new(counted);
        }
    }
}

fn count(runners: Option<&Vec<Arc<LocalRunner>>>) -> u32 {
    u32::try_from(runners.map_or(0, Vec::len)).unwrap_or(u32::MAX)
}
