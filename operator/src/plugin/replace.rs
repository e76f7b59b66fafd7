//! Replacing runners whose Pods should look different: another image, class or amount.
//!
//! A runner that is down is changed at once. One that runs is told to end, which waits for its calls
//! (the Deployment's grace), and only a few Plugins go through that at a time: each takes a place
//! before it writes. Plugins are worked on beside each other, and a watch tells late of what was
//! written, so that a place is held until the cache has what was written; from then on the cache says
//! whether the runner is still being replaced.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use parking_lot::Mutex;

use crate::cache::Cache;

/// Plugins whose runners are replaced at the same time.
pub const AT_A_TIME: usize = 3;

/// The annotation of a Deployment with the digest of its Pods' shape.
pub const SHAPE: &str = "famulus.dev/shape";

/// What the cache finds runners by that are being replaced.
pub const REPLACED: &str = "replaced";

/// Whether a runner that is up ends when this shape is written.
pub fn interrupts(live: Option<&Deployment>, shape: &str) -> bool {
    live.is_some_and(|live| {
        let same = live.annotations().get(SHAPE).is_some_and(|live| live == shape);
        !same && !is_down(live)
    })
}

/// Who replaces a runner now.
#[derive(Default)]
pub struct Places {
    /// By the runner's name: the generation that was written, once it is. Held for single steps only.
    taken: Mutex<BTreeMap<String, Option<i64>>>,
}

/// A place for one runner. It is given back when it is dropped before anything was written.
pub struct Place<'a> {
    places: &'a Places,
    runner: String,
}

impl Places {
    /// A place for this runner, unless others have all of them.
    pub fn take<'a>(&'a self, runner: &str, runners: &Cache<Deployment>) -> Option<Place<'a>> {
        let mut taken = self.taken.lock();
        taken.retain(|name, written| {
            written.is_none_or(|written| {
                let seen = runners.get(name).and_then(|live| live.metadata.generation);
                seen.is_some_and(|seen| seen < written)
            })
        });
        // In this order: what the cache knows since then is among those.
        let mut busy = runners.names(REPLACED);
        busy.extend(taken.keys().cloned());
        busy.remove(runner);
        if busy.len() >= AT_A_TIME {
            return None;
        }
        taken.insert(runner.to_owned(), None);
        Some(Place { places: self, runner: runner.to_owned() })
    }
}

impl Place<'_> {
    /// Holds it until the cache has what was written.
    pub fn hold(self, written: &Deployment) {
        let generation = written.metadata.generation.unwrap_or_default();
        self.places.taken.lock().insert(self.runner.clone(), Some(generation));
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if taken.get(&self.runner) == Some(&None) {
            taken.remove(&self.runner);
        }
    }
}

/// The key of a runner that is being replaced.
pub fn state(runner: &Deployment) -> Option<String> {
    is_replaced(runner).then(|| REPLACED.to_owned())
}

fn is_down(runner: &Deployment) -> bool {
    let wanted = runner.spec.replicas.unwrap_or(1);
    let there = runner.status.as_ref().and_then(|status| status.replicas).unwrap_or(0);
    wanted == 0 && there == 0
}

/// Whether it has Pods of a shape that is not the newest, or waits for the newest to be ready.
fn is_replaced(runner: &Deployment) -> bool {
    let wanted = runner.spec.replicas.unwrap_or(1);
    let Some(status) = &runner.status else { return false };
    let stale = status.observed_generation < runner.metadata.generation;
    let updated = status.updated_replicas.unwrap_or(0);
    let ready = status.ready_replicas.unwrap_or(0);
    wanted > 0 && status.replicas.is_some() && (stale || updated < wanted || ready < wanted)
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn runner(shape: &str, wanted: i32, status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"name": "r", "generation": 2, "annotations": {SHAPE: shape}},
            "spec": {"replicas": wanted, "selector": {}, "template": {}},
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn only_a_runner_that_is_up_is_interrupted_and_by_another_shape() {
        let up = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1});
        let table = [
            (None, false),
            (Some(runner("old", 0, json!({}))), false),
            (Some(runner("new", 1, up.clone())), false),
            (Some(runner("old", 1, up.clone())), true),
            (Some(runner("old", 0, up.clone())), true),
        ];
        for (live, expected) in table {
            assert_eq!(interrupts(live.as_ref(), "new"), expected, "{live:?}");
        }
    }

    /// A cache with runners that are up, by name, with their generation.
    fn cache(runners: &[(&str, i64)]) -> Cache<Deployment> {
        let cache = Cache::new(state);
        for (name, generation) in runners {
            let up = json!({
                "observedGeneration": generation, "replicas": 1, "updatedReplicas": 1,
                "readyReplicas": 1,
            });
            let mut runner = runner("s", 1, up);
            runner.metadata.name = Some((*name).to_owned());
            runner.metadata.generation = Some(*generation);
            cache.apply(Event::Apply(runner));
        }
        cache
    }

    #[test]
    fn a_place_is_held_until_the_cache_has_what_was_written() {
        let all = ["a", "b", "c", "d"];
        let old = cache(&all.map(|name| (name, 1)));
        let new = cache(&all.map(|name| (name, 2)));
        let places = Places::default();
        let mut written = runner("new", 1, json!({}));
        written.metadata.generation = Some(2);
        for name in ["a", "b", "c"] {
            places.take(name, &old).unwrap().hold(&written);
        }
        assert!(places.take("d", &old).is_none(), "the cache knows nothing of them yet");
        assert!(places.take("a", &old).is_some(), "it has one");
        assert!(places.take("d", &new).is_some(), "they were written, and are up again");
    }

    #[test]
    fn a_place_is_given_back_when_nothing_was_written() {
        let (old, places) = (cache(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]), Places::default());
        let three = ["a", "b", "c"].map(|name| places.take(name, &old).unwrap());
        assert!(places.take("d", &old).is_none());
        drop(three);
        assert!(places.take("d", &old).is_some());
    }

    #[test]
    fn a_runner_is_being_replaced_until_the_new_pod_is_ready() {
        let table = [
            (
                1,
                json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}),
                false,
            ),
            (
                1,
                json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1}),
                true,
            ),
            (1, json!({"observedGeneration": 2, "replicas": 1, "readyReplicas": 1}), true),
            (1, json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}), true),
            (0, json!({"observedGeneration": 2, "replicas": 1}), false),
        ];
        for (wanted, status, expected) in table {
            assert_eq!(is_replaced(&runner("s", wanted, status.clone())), expected, "{status}");
        }
    }
}
