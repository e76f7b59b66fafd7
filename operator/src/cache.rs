//! What a watch knows: the objects of one kind, by name and by one more key.
//!
//! A cache is filled by the events of a watch and read by everybody. While a list is read anew, the
//! objects of before stay.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use kube::ResourceExt;
use kube::runtime::watcher::Event;
use tokio::sync::watch;

/// What an object is also found by.
type Index<K> = fn(&K) -> Option<String>;

pub struct Cache<K> {
    index: Index<K>,
    kept: RwLock<Kept<K>>,
    ready: watch::Sender<bool>,
}

struct Kept<K> {
    objects: BTreeMap<String, Arc<K>>,
    indexed: BTreeMap<String, BTreeSet<String>>,
    /// Names that the list which is being read has brought so far.
    listed: BTreeSet<String>,
}

impl<K: ResourceExt> Cache<K> {
    pub fn new(index: Index<K>) -> Self {
        let kept =
            Kept { objects: BTreeMap::new(), indexed: BTreeMap::new(), listed: BTreeSet::new() };
        Self { index, kept: RwLock::new(kept), ready: watch::Sender::new(false) }
    }

    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.read().objects.get(name).cloned()
    }

    /// The objects with this key, in the order of their names.
    pub fn indexed(&self, key: &str) -> Vec<Arc<K>> {
        let kept = self.read();
        let names = kept.indexed.get(key).into_iter().flatten();
        names.filter_map(|name| kept.objects.get(name).cloned()).collect()
    }

    pub fn all(&self) -> Vec<Arc<K>> {
        self.read().objects.values().cloned().collect()
    }

    /// Waits until the first list has been read.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // The sender lives in the cache itself.
        let _gone = ready.wait_for(|ready| *ready).await;
    }

    pub fn is_ready(&self) -> bool {
        *self.ready.borrow()
    }

    /// Takes in what a watch said.
    pub fn apply(&self, event: Event<K>) {
        let mut kept = self.write();
        match event {
            Event::Init => kept.listed.clear(),
            Event::InitApply(object) => {
                kept.listed.insert(object.name_any());
                kept.put(self.index, object);
            }
            Event::InitDone => {
                kept.keep_listed(self.index);
                self.ready.send_replace(true);
            }
            Event::Apply(object) => kept.put(self.index, object),
            Event::Delete(object) => kept.remove(self.index, &object.name_any()),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Kept<K>> {
        self.kept.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Kept<K>> {
        self.kept.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: ResourceExt> Kept<K> {
    fn put(&mut self, index: Index<K>, object: K) {
        let name = object.name_any();
        self.remove(index, &name);
        if let Some(key) = index(&object) {
            self.indexed.entry(key).or_default().insert(name.clone());
        }
        self.objects.insert(name, Arc::new(object));
    }

    fn remove(&mut self, index: Index<K>, name: &str) {
        let Some(before) = self.objects.remove(name) else { return };
        let Some(key) = index(&before) else { return };
        if let Some(names) = self.indexed.get_mut(&key) {
            names.remove(name);
            if names.is_empty() {
                self.indexed.remove(&key);
            }
        }
    }

    fn keep_listed(&mut self, index: Index<K>) {
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<String> =
            self.objects.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.remove(index, &name);
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(name: &str, key: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.labels = Some([("key".to_owned(), key.to_owned())].into());
        pod
    }

    fn cache() -> Cache<Pod> {
        Cache::new(|pod| pod.labels().get("key").cloned())
    }

    fn names(pods: &[Arc<Pod>]) -> Vec<String> {
        pods.iter().map(|pod| pod.name_any()).collect()
    }

    #[test]
    fn objects_are_found_by_their_key_as_it_is_now() {
        let cache = cache();
        cache.apply(Event::Apply(pod("a", "one")));
        cache.apply(Event::Apply(pod("b", "one")));
        cache.apply(Event::Apply(pod("a", "two")));
        assert_eq!(names(&cache.indexed("one")), ["b"]);
        assert_eq!(names(&cache.indexed("two")), ["a"]);
        cache.apply(Event::Delete(pod("a", "two")));
        assert!(cache.indexed("two").is_empty());
        assert!(cache.get("a").is_none());
    }

    #[test]
    fn what_a_new_list_does_not_name_is_gone_and_nothing_was_missing_meanwhile() {
        let cache = cache();
        cache.apply(Event::Apply(pod("old", "k")));
        cache.apply(Event::Init);
        cache.apply(Event::InitApply(pod("new", "k")));
        assert_eq!(names(&cache.indexed("k")), ["new", "old"]);
        assert!(!cache.is_ready());
        cache.apply(Event::InitDone);
        assert_eq!(names(&cache.indexed("k")), ["new"]);
        assert!(cache.is_ready());
    }
}
