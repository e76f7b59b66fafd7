//! Replacing runners whose Pods should look different: another image, class or amount.
//!
//! A runner that is down is changed at once. One that runs is told to end, which waits for its calls
//! (the Deployment's grace), and only a few Plugins go through that at a time.

use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;

use crate::cache::Cache;

/// Plugins whose runners are replaced at the same time.
pub const AT_A_TIME: usize = 3;

/// The annotation of a Deployment with the digest of its Pods' shape.
pub const SHAPE: &str = "famulus.dev/shape";

/// What the cache finds runners by that are being replaced.
pub const REPLACED: &str = "replaced";

/// What becomes of a runner whose shape differs from what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Now,
    /// Others are being replaced: the number of runners alone is changed.
    Later,
}

pub fn decide(live: Option<&Deployment>, shape: &str, others_replaced: usize) -> Change {
    let Some(live) = live else { return Change::Now };
    let same = live.annotations().get(SHAPE).is_some_and(|live| live == shape);
    if same || is_down(live) || others_replaced < AT_A_TIME { Change::Now } else { Change::Later }
}

/// How many runners of other Plugins are being replaced. It is only asked for a runner that is up.
pub(super) fn others(live: Option<&Deployment>, runners: &Cache<Deployment>) -> usize {
    let Some(live) = live.filter(|live| !is_down(live)) else { return 0 };
    let mut replaced = runners.names(REPLACED);
    replaced.remove(&live.name_any());
    replaced.len()
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
    fn only_a_few_that_run_are_replaced_at_a_time() {
        let up = json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1});
        let table = [
            (None, 9, Change::Now),
            (Some(runner("old", 0, json!({}))), 9, Change::Now),
            (Some(runner("new", 1, up.clone())), 9, Change::Now),
            (Some(runner("old", 1, up.clone())), 2, Change::Now),
            (Some(runner("old", 1, up.clone())), 3, Change::Later),
            (Some(runner("old", 0, up.clone())), 3, Change::Later),
        ];
        for (live, others, expected) in table {
            assert_eq!(decide(live.as_ref(), "new", others), expected, "{live:?} {others}");
        }
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
