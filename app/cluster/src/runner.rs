//! A runner: a Pod, and what is known of it.

use std::net::{IpAddr, SocketAddr};

use famulus_crds::labels::{self, Part};
use famulus_crds::plugin::EgressMode;
use famulus_sandbox::{Conduct, EndCause, Ended, KnownRunner, RunnerAddress};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, PodStatus};
use parking_lot::Mutex;

/// Where runners listen.
pub(crate) const PORT: u16 = 8090;

/// A Pod of the sandbox: a runner, or one that builds or probes.
#[derive(Debug)]
pub(crate) struct SandboxPod {
    pub(crate) uid: String,
    pub(crate) stem: String,
    pub(crate) facts: PodState,
    /// Only of one that takes calls.
    pub(crate) runner: Option<Runner>,
}

impl SandboxPod {
    /// Nothing, for a Pod that belongs to no plugin.
    pub(crate) fn of(pod: &Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let given = metadata.labels.as_ref()?;
        let part = given.get(labels::PART).map(String::as_str);
        Some(Self {
            uid: metadata.uid.clone()?,
            stem: given.get(labels::PLUGIN)?.clone(),
            facts: PodState::of(pod),
            runner: Runner::of(pod).filter(|_| part == Some(Part::Runner.name())),
        })
    }
}

#[derive(Debug)]
pub struct Runner {
    /// Of the Pod: another Pod is another runner, with other results on its shelf.
    pub(crate) uid: String,
    pub(crate) pod: String,
    pub(crate) stem: String,
    pub(crate) created: Timestamp,
    /// What the policies let it reach. It has that for as long as it lives.
    pub(crate) egress: EgressMode,
    /// Its limit, as the Pod has it.
    memory: Option<String>,
    /// Held for single operations, never across an await.
    facts: Mutex<PodState>,
    conduct: Conduct,
}

/// What changes in the life of a Pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodState {
    pub(crate) address: Option<IpAddr>,
    pub(crate) ready: bool,
    /// Somebody asked it to end, or it ended.
    pub(crate) ending: bool,
    /// Its address may be another's by now.
    pub(crate) ended: bool,
    /// How its container ended, if it was started again since.
    pub(crate) ended_before: Option<Ended>,
}

impl Runner {
    fn of(pod: &Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let given = metadata.labels.as_ref()?;
        Some(Self {
            uid: metadata.uid.clone()?,
            pod: metadata.name.clone()?,
            stem: given.get(labels::PLUGIN)?.clone(),
            egress: match given.get(labels::EGRESS).map(String::as_str) {
                Some("none") => EgressMode::None,
                // Whatever else stands there, it may be let out.
                Some(_) | None => EgressMode::Internet,
            },
            memory: pod.spec.as_ref().and_then(memory_of),
            created: metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0),
            facts: Mutex::new(PodState::of(pod)),
            conduct: Conduct::default(),
        })
    }

    pub(crate) fn facts(&self) -> PodState {
        *self.facts.lock()
    }

    pub(crate) fn learn(&self, facts: PodState) {
        *self.facts.lock() = facts;
    }
}

impl KnownRunner for Runner {
    fn name(&self) -> &str {
        &self.pod
    }

    fn conduct(&self) -> &Conduct {
        &self.conduct
    }

    fn created(&self) -> Timestamp {
        self.created
    }

    fn address(&self) -> Option<RunnerAddress<'_>> {
        self.facts().address.map(|address| RunnerAddress::Tcp(SocketAddr::new(address, PORT)))
    }

    fn is_ready(&self) -> bool {
        self.facts().ready
    }

    fn is_ending(&self) -> bool {
        self.facts().ending
    }

    fn memory(&self) -> Option<&str> {
        self.memory.as_deref()
    }

    fn ended_before(&self) -> Option<Ended> {
        self.facts().ended_before
    }
}

impl PodState {
    pub(crate) fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let conditions = status.and_then(|status| status.conditions.as_ref());
        let ready =
            conditions.into_iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True");
        let phase = status.and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        Self {
            address: status.and_then(|status| status.pod_ip.as_ref()?.parse().ok()),
            ready,
            ending: pod.metadata.deletion_timestamp.is_some() || ended,
            ended,
            ended_before: status.and_then(ended_before),
        }
    }
}

/// 128 and the number of the signal.
const BY_SIGKILL: i32 = 137;
/// What containerd's shim for gVisor tells of a sandbox that it could not wait for.
const GVISOR_IS_GONE: i32 = 128;

/// A runner's Pod has one container.
fn ended_before(status: &PodStatus) -> Option<Ended> {
    let last = status.container_statuses.as_ref()?.first()?.last_state.as_ref()?;
    let end = last.terminated.as_ref()?;
    let at = end.finished_at.as_ref().map_or(Timestamp::MIN, |time| time.0);
    let cause = match (end.reason.as_deref(), end.exit_code) {
        (Some("OOMKilled"), _) => EndCause::Memory,
        (_, BY_SIGKILL | GVISOR_IS_GONE) => EndCause::Killed,
        (_, code) => EndCause::Exited(code),
    };
    Some(Ended { at, cause })
}

fn memory_of(spec: &PodSpec) -> Option<String> {
    let limits = spec.containers.first()?.resources.as_ref()?.limits.as_ref()?;
    Some(limits.get("memory")?.0.clone())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(metadata: Value, status: Value) -> Pod {
        let mut all = json!({"name": "w-runner-1", "uid": "p", "labels": {labels::PLUGIN: "w"},
            "creationTimestamp": "2026-11-21T10:00:00Z"});
        for (key, value) in metadata.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(json!({"metadata": all, "status": status})).unwrap()
    }

    #[test]
    fn only_a_pod_that_is_ready_and_stays_takes_calls() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let starting = json!([{"type": "Ready", "status": "False"}]);
        let check = |metadata: Value, status: Value, takes, starts| {
            let runner = Runner::of(&pod(metadata, status.clone())).unwrap();
            assert_eq!((runner.takes_calls(), runner.is_starting()), (takes, starts), "{status}");
        };
        check(json!({}), json!({"podIP": "10.0.0.1", "conditions": ready}), true, false);
        check(json!({}), json!({"podIP": "fd00::1", "conditions": ready}), true, false);
        check(json!({}), json!({"podIP": "10.0.0.1", "conditions": starting}), false, true);
        check(json!({}), json!({"conditions": ready}), false, false);
        check(json!({}), json!({}), false, false);
        let failed = json!({"podIP": "10.0.0.1", "phase": "Failed", "conditions": ready});
        check(json!({}), failed, false, false);
        let ending = json!({"deletionTimestamp": "2026-11-21T10:00:00Z"});
        check(ending, json!({"podIP": "10.0.0.1", "conditions": ready}), false, false);
        assert!(Runner::of(&pod(json!({"labels": {}}), json!({}))).is_none());
    }
}
