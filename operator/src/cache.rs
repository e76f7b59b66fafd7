//! What a watch knows: the objects of one kind, by name and by one more key.
//!
//! A cache is filled by the events of a watch and read by everybody. While a list is read anew, the
//! objects of before stay. They are kept compressed, and without the notes on who wrote which field: an
//! object that nobody looks at just now takes a tenth of what it takes in use.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::ResourceExt;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::watch;

use crate::compressed::{Compressed, Compressor};

/// What an object is also found by.
type Index<K> = fn(&K) -> Option<String>;

pub struct Cache<K> {
    index: Index<K>,
    compressor: Compressor,
    kept: RwLock<Contents>,
    ready: watch::Sender<bool>,
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, Entry>,
    indexed: BTreeMap<String, BTreeSet<String>>,
    /// Names that the list which is being read has brought so far.
    listed: BTreeSet<String>,
}

struct Entry {
    compressed: Compressed,
    key: Option<Box<str>>,
}

impl<K: ResourceExt + Serialize + DeserializeOwned> Cache<K> {
    pub fn new(index: Index<K>) -> Self {
        let ready = watch::Sender::new(false);
        Self { index, compressor: Compressor::default(), kept: RwLock::default(), ready }
    }

    pub fn get(&self, name: &str) -> Option<Arc<K>> {
        self.decompress(&self.kept.read(), name)
    }

    /// The objects with this key, in the order of their names.
    pub fn indexed(&self, key: &str) -> Vec<Arc<K>> {
        let kept = self.kept.read();
        let names = kept.indexed.get(key).into_iter().flatten();
        names.filter_map(|name| self.decompress(&kept, name)).collect()
    }

    /// The names of the objects with this key.
    pub fn names(&self, key: &str) -> BTreeSet<String> {
        self.kept.read().indexed.get(key).cloned().unwrap_or_default()
    }

    /// All objects, one after another: those that go meanwhile are left out.
    pub fn all(&self) -> impl Iterator<Item = Arc<K>> {
        let names: Vec<String> = self.kept.read().objects.keys().cloned().collect();
        names.into_iter().filter_map(|name| self.get(&name))
    }

    pub fn len(&self) -> usize {
        self.kept.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
        match event {
            Event::Init => self.kept.write().listed.clear(),
            Event::InitApply(object) => self.put(object, true),
            Event::InitDone => {
                self.kept.write().keep_listed();
                self.ready.send_replace(true);
            }
            Event::Apply(object) => self.put(object, false),
            Event::Delete(object) => self.kept.write().remove(&object.name_any()),
        }
    }

    fn put(&self, mut object: K, is_listed: bool) {
        let name = object.name_any();
        object.managed_fields_mut().clear();
        let key = (self.index)(&object).map(Into::into);
        let compressed = match self.compressor.compress(&object) {
            Ok(compressed) => compressed,
            // What was read from JSON can be written as JSON.
            Err(error) => return tracing::error!(object.name = name, %error, "cannot be kept"),
        };
        let mut kept = self.kept.write();
        if is_listed {
            kept.listed.insert(name.clone());
        }
        kept.put(name, Entry { compressed, key });
    }

    fn decompress(&self, kept: &Contents, name: &str) -> Option<Arc<K>> {
        let entry = kept.objects.get(name)?;
        match self.compressor.decompress(&entry.compressed) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                tracing::error!(object.name = name, %error, "cannot be read as it was kept");
                None
            }
        }
    }
}

impl Contents {
    fn put(&mut self, name: String, entry: Entry) {
        self.remove(&name);
        if let Some(key) = &entry.key {
            self.indexed.entry(key.to_string()).or_default().insert(name.clone());
        }
        self.objects.insert(name, entry);
    }

    fn remove(&mut self, name: &str) {
        let Some(Entry { key: Some(key), .. }) = self.objects.remove(name) else { return };
        if let Some(names) = self.indexed.get_mut(&*key) {
            names.remove(name);
            if names.is_empty() {
                self.indexed.remove(&*key);
            }
        }
    }

    fn keep_listed(&mut self) {
        let listed = std::mem::take(&mut self.listed);
        let gone: Vec<String> =
            self.objects.keys().filter(|name| !listed.contains(*name)).cloned().collect();
        for name in gone {
            self.remove(&name);
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
