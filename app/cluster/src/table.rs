//! Who there is: Plugins and runners, as the watches last saw them.
//!
//! A lookup is of memory alone. While the API server is away the table stays as it was.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use crate::plugin::CachedPlugin;
use crate::runner::{Runner, SandboxPod};

#[derive(Debug)]
pub(crate) struct Table {
    /// Held for single operations, never across an await.
    rows: Mutex<Rows>,
    /// How often something changed.
    changes: watch::Sender<u64>,
}

/// Both by UID; nothing before the first whole list.
#[derive(Debug, Default)]
struct Rows {
    plugins: Option<BTreeMap<String, Arc<CachedPlugin>>>,
    runners: Option<BTreeMap<String, Arc<Runner>>>,
    /// The addresses of all Pods of the sandbox, with the stem of their plugin.
    addresses: BTreeMap<String, (String, IpAddr)>,
    /// Why the API server cannot be read now.
    trouble: Option<String>,
}

impl Default for Table {
    fn default() -> Self {
        Self { rows: Mutex::default(), changes: watch::Sender::new(0) }
    }
}

impl Table {
    /// Told of every change from now on.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether both were listed once.
    pub(crate) fn is_known(&self) -> bool {
        let rows = self.rows.lock();
        rows.plugins.is_some() && rows.runners.is_some()
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.rows.lock().trouble.clone()
    }

    /// Notes whether the API server can be read, and tells whether that is news.
    pub(crate) fn note_trouble(&self, trouble: Option<String>) -> bool {
        let mut rows = self.rows.lock();
        let news = rows.trouble.is_some() != trouble.is_some();
        rows.trouble = trouble;
        news
    }

    /// By name. Of several with one name the oldest has it.
    pub(crate) fn plugins(&self) -> BTreeMap<String, Arc<CachedPlugin>> {
        let rows = self.rows.lock();
        let mut all: Vec<&Arc<CachedPlugin>> =
            rows.plugins.iter().flat_map(BTreeMap::values).collect();
        all.sort_by_key(|known| std::cmp::Reverse((known.created, known.uid.clone())));
        all.into_iter().map(|known| (known.name.clone(), Arc::clone(known))).collect()
    }

    pub(crate) fn plugin(&self, name: &str) -> Option<Arc<CachedPlugin>> {
        let rows = self.rows.lock();
        let named = rows.plugins.iter().flat_map(BTreeMap::values).filter(|one| one.name == name);
        named.min_by_key(|known| (known.created, &known.uid)).cloned()
    }

    pub(crate) fn by_uid(&self, uid: &str) -> Option<Arc<CachedPlugin>> {
        self.rows.lock().plugins.as_ref()?.get(uid).cloned()
    }

    /// Every runner of a plugin, oldest first.
    pub(crate) fn runners(&self, stem: &str) -> Vec<Arc<Runner>> {
        let rows = self.rows.lock();
        let all = rows.runners.iter().flat_map(BTreeMap::values);
        let mut runners: Vec<Arc<Runner>> =
            all.filter(|runner| runner.stem == stem).cloned().collect();
        runners.sort_by_key(|runner| runner.created);
        runners
    }

    /// Whether the Pod of this runner still exists.
    pub(crate) fn has(&self, runner: &Runner) -> bool {
        self.rows.lock().runners.as_ref().is_some_and(|runners| runners.contains_key(&runner.uid))
    }

    pub(crate) fn list_plugins(&self, listed: Vec<CachedPlugin>) {
        let by_uid = listed.into_iter().map(|known| (known.uid.clone(), Arc::new(known)));
        self.rows.lock().plugins = Some(by_uid.collect());
        self.tell();
    }

    pub(crate) fn apply_plugin(&self, known: CachedPlugin) {
        if let Some(plugins) = &mut self.rows.lock().plugins {
            plugins.insert(known.uid.clone(), Arc::new(known));
        }
        self.tell();
    }

    pub(crate) fn delete_plugin(&self, uid: &str) {
        if let Some(plugins) = &mut self.rows.lock().plugins {
            plugins.remove(uid);
        }
        self.tell();
    }

    pub(crate) fn list_pods(&self, listed: Vec<SandboxPod>) {
        let mut rows = self.rows.lock();
        let before = rows.runners.replace(BTreeMap::new()).unwrap_or_default();
        rows.addresses.clear();
        for pod in listed {
            rows.add_pod(pod, &before);
        }
        drop(rows);
        self.tell();
    }

    pub(crate) fn apply_pod(&self, pod: SandboxPod) {
        self.rows.lock().add_pod(pod, &BTreeMap::new());
        self.tell();
    }

    pub(crate) fn delete_pod(&self, uid: &str) {
        let mut rows = self.rows.lock();
        rows.addresses.remove(uid);
        if let Some(runners) = &mut rows.runners {
            runners.remove(uid);
        }
        drop(rows);
        self.tell();
    }

    /// Whether a Pod of this plugin has the address.
    pub(crate) fn owns(&self, stem: &str, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let rows = self.rows.lock();
        rows.addresses.values().any(|(owner, pod)| owner == stem && *pod == address)
    }

    fn tell(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }
}

impl Rows {
    /// A runner that is seen again, also after a new list, keeps its history.
    fn add_pod(&mut self, pod: SandboxPod, before: &BTreeMap<String, Arc<Runner>>) {
        let SandboxPod { uid, stem, facts, runner } = pod;
        match facts.address.filter(|_| !facts.ended) {
            Some(address) => {
                self.addresses.insert(uid.clone(), (stem, address.to_canonical()));
            }
            None => {
                self.addresses.remove(&uid);
            }
        }
        let (Some(runner), Some(runners)) = (runner, &mut self.runners) else { return };
        let known = before.get(&uid).cloned();
        let runner =
            runners.entry(uid).or_insert_with(|| known.unwrap_or_else(|| Arc::new(runner)));
        runner.learn(facts);
    }
}
