//! A Plugin as the cluster has it, made into what calls need.

use std::time::Duration;

use famulus_core::sandbox::PluginState;
use famulus_crds::labels::HISTORY;
use famulus_crds::names;
use famulus_crds::plugin::{
    Condition, ConditionStatus, ConditionType, EgressMode, NetworkIsolation, Permissions, Plugin,
    PluginStatus, Reason, Rollout,
};
use famulus_sandbox::{KnownPlugin, NotReady};
use jiff::Timestamp;

/// What is kept of a Plugin. Its source is not: that may be large, and nobody here reads it.
#[derive(Clone, Debug, PartialEq)]
pub struct CachedPlugin {
    /// The plugin's own name, by which it is called.
    pub(crate) name: String,
    /// The name of the object.
    pub(crate) object: String,
    pub(crate) uid: String,
    /// By which the labels of its Pods name it.
    pub(crate) stem: String,
    pub(crate) resource_version: String,
    pub(crate) created: Timestamp,
    pub(crate) generation: i64,
    permissions: Permissions,
    egress: EgressMode,
    /// Only what its serving revision was permitted with counts beside them.
    is_manual: bool,
    suspend: bool,
    /// Runners that are wanted now.
    replicas: i32,
    idle: Duration,
    has_one_runner: bool,
    /// What was done through the app, as it noted it.
    pub(crate) history: Option<String>,
    /// The revision that the owner named.
    pub(crate) pin: Option<String>,
    pub(crate) status: PluginStatus,
}

impl CachedPlugin {
    /// Nothing, for an object that the API server cannot have given.
    pub(crate) fn of(plugin: Plugin) -> Option<Self> {
        let Plugin { metadata, spec, status } = plugin;
        let object = metadata.name?;
        Some(Self {
            name: spec.name,
            stem: names::stem(&object),
            object,
            uid: metadata.uid?,
            resource_version: metadata.resource_version?,
            created: metadata.creation_timestamp.map_or(Timestamp::MIN, |time| time.0),
            generation: metadata.generation.unwrap_or_default(),
            permissions: spec.permissions,
            egress: spec.egress.mode,
            is_manual: spec.rollout == Rollout::Manual,
            suspend: spec.suspend,
            replicas: spec.runner.replicas,
            idle: Duration::from_secs(u64::try_from(spec.runner.idle_seconds).unwrap_or(1)),
            has_one_runner: spec.runner.max <= 1,
            history: metadata.annotations.and_then(|mut all| all.remove(HISTORY)),
            pin: spec.revision,
            status: status.unwrap_or_default(),
        })
    }

    /// Whether a runner of this class may take its calls. When the owner narrows the class, one of the
    /// wider class still runs for a while.
    pub(crate) fn lets(&self, runner: EgressMode) -> bool {
        match (self.egress(), runner) {
            (EgressMode::None, EgressMode::Internet) => false,
            (EgressMode::None, EgressMode::None) | (EgressMode::Internet, _) => true,
        }
    }

    fn egress(&self) -> EgressMode {
        let granted = self.status.granted.as_ref().map(|granted| granted.egress);
        if self.is_manual { self.egress.and(granted.unwrap_or_default()) } else { self.egress }
    }

    /// The condition `Ready`, if it speaks of the spec as it is.
    fn ready(&self) -> Option<&Condition> {
        let ready = |condition: &&Condition| condition.kind == ConditionType::Ready.name();
        self.status.conditions.iter().find(ready)
    }
}

impl KnownPlugin for CachedPlugin {
    fn name(&self) -> &str {
        &self.name
    }

    fn uid(&self) -> &str {
        &self.uid
    }

    fn rendered(&self) -> i64 {
        self.status.rendered
    }

    fn permits(&self, tool: &str) -> bool {
        let granted = self.status.granted.as_ref();
        let is_granted = !self.is_manual || granted.is_some_and(|granted| granted.allows(tool));
        is_granted && self.permissions.allow(tool)
    }

    /// The operator sees a change of the spec a moment later, and a scale is one. So a condition
    /// that speaks of an older spec counts as long as nothing newer is said.
    fn refuses(&self) -> Option<NotReady> {
        if self.suspend {
            return Some(NotReady {
                reason: Reason::Suspended.name().to_owned(),
                message: "the owner holds it; spec.suspend has to be false".to_owned(),
            });
        }
        let Some(ready) = self.ready() else {
            return Some(NotReady {
                reason: "Pending".to_owned(),
                message: "the operator has not looked at it yet; see whether it runs".to_owned(),
            });
        };
        if self.status.revision.is_none() {
            return Some(not_ready(ready));
        }
        let cured = match Reason::parse(&ready.reason) {
            // A runner that failed may start now, and a node may have become free.
            Some(Reason::RunnerFailing | Reason::Unschedulable) => true,
            // It was held until a moment ago.
            Some(Reason::Suspended) => ready.observed_generation < Some(self.generation),
            Some(_) | None => ready.status != ConditionStatus::False,
        };
        (!cured).then(|| not_ready(ready))
    }

    /// A runner looks before it runs anything, and policies may have become active since the last one did.
    fn needs_recheck(&self) -> bool {
        let why = self.refuses().and_then(|why| Reason::parse(&why.reason));
        matches!(why, Some(Reason::NetworkOpen | Reason::NetworkUnknown))
    }

    /// As the operator says.
    fn says(&self) -> NotReady {
        self.ready().map_or_else(
            || NotReady {
                reason: "Pending".to_owned(),
                message: "nothing is said of it".to_owned(),
            },
            not_ready,
        )
    }

    fn state(&self) -> PluginState {
        let says = self.refuses().unwrap_or_else(|| self.says());
        let ready = !self.suspend
            && self.ready().is_some_and(|ready| ready.status == ConditionStatus::True);
        let status = &self.status;
        PluginState {
            name: self.name.clone(),
            ready,
            reason: says.reason,
            message: says.message,
            revision: status.revision.clone(),
            commit: status.commit.clone(),
            tools: status.tools.iter().filter(|tool| self.permits(tool)).cloned().collect(),
            config_keys: status.config_keys.clone(),
            egress: match self.egress() {
                EgressMode::None => "none",
                EgressMode::Internet => "internet",
            }
            .to_owned(),
            runners: u32::try_from(status.replicas).unwrap_or_default(),
            isolation: status.isolation.as_ref().map(|isolation| {
                let network = match isolation.network {
                    NetworkIsolation::Closed => "network closed",
                    NetworkIsolation::Open => "network open",
                    NetworkIsolation::Unknown => "network unknown",
                };
                let user = if isolation.user_namespace { "user namespace" } else { "host users" };
                let class = isolation.runtime_class_name.as_deref().unwrap_or("default runtime");
                format!("{network}, {user}, {class}")
            }),
        }
    }

    fn wants_runner(&self) -> bool {
        self.replicas > 0
    }

    fn idle(&self) -> Duration {
        self.idle
    }

    fn has_one_runner(&self) -> bool {
        self.has_one_runner
    }
}

fn not_ready(condition: &Condition) -> NotReady {
    NotReady { reason: condition.reason.clone(), message: condition.message.clone() }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn known(spec: Value, ready: Option<(&str, &str, i64)>) -> CachedPlugin {
        let mut all = json!({"name": "weather", "source": {"inline": {"files": []}}});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let conditions: Vec<Value> = ready
            .into_iter()
            .map(|(status, reason, generation)| {
                json!({"type": "Ready", "status": status, "reason": reason, "message": "m",
                    "lastTransitionTime": "2026-11-21T10:00:00Z", "observedGeneration": generation})
            })
            .collect();
        let plugin = json!({
            "apiVersion": "famulus.dev/v1alpha1", "kind": "Plugin",
            "metadata": {"name": "weather", "uid": "u", "resourceVersion": "1", "generation": 2,
                "creationTimestamp": "2026-11-21T10:00:00Z"},
            "spec": all,
            "status": {"tools": ["look", "feel"], "rendered": 1, "conditions": conditions,
                "revision": format!("sha256:{}", "0a".repeat(32))},
        });
        CachedPlugin::of(serde_json::from_value(plugin).unwrap()).unwrap()
    }

    #[test]
    fn calls_are_refused_for_what_a_start_does_not_cure() {
        let check = |spec: Value, ready: Option<(&str, &str, i64)>, refused: Option<&str>| {
            let refuses = known(spec, ready).refuses().map(|why| why.reason);
            assert_eq!(refuses.as_deref(), refused, "{ready:?}");
        };
        check(json!({}), Some(("True", "Idle", 2)), None);
        check(json!({}), Some(("True", "Idle", 1)), None);
        check(json!({}), Some(("True", "Starting", 2)), None);
        check(json!({}), Some(("False", "RunnerFailing", 2)), None);
        check(json!({}), Some(("False", "Unschedulable", 2)), None);
        check(json!({}), Some(("False", "Suspended", 1)), None);
        check(json!({}), Some(("False", "BuildFailed", 2)), Some("BuildFailed"));
        check(json!({}), Some(("False", "NothingPermitted", 1)), Some("NothingPermitted"));
        check(json!({}), None, Some("Pending"));
        check(json!({"suspend": true}), Some(("True", "Idle", 1)), Some("Suspended"));
    }

    #[test]
    fn a_runner_reaches_no_more_than_the_plugin_may() {
        let (none, internet) = (EgressMode::None, EgressMode::Internet);
        let table = [(none, none, true), (none, internet, false), (internet, none, true)];
        for (plugin, runner, expected) in [&table[..], &[(internet, internet, true)]].concat() {
            let known = known(json!({"egress": {"mode": plugin}}), None);
            assert_eq!(known.lets(runner), expected, "{plugin:?} {runner:?}");
        }
    }

    #[test]
    fn what_was_never_built_takes_no_calls_whatever_is_said() {
        for said in [("Unknown", "Building", 2), ("False", "RunnerFailing", 2)] {
            let mut known = known(json!({}), Some(said));
            assert_eq!(known.refuses(), None);
            known.status.revision = None;
            assert_eq!(known.refuses().unwrap().reason, said.1);
        }
    }

    #[test]
    fn only_what_a_runner_looks_at_is_looked_at_again() {
        let check = |reason: &'static str, looks: bool| {
            let known = known(json!({}), Some(("False", reason, 2)));
            assert_eq!(known.needs_recheck(), looks, "{reason}");
        };
        check("NetworkOpen", true);
        check("NetworkUnknown", true);
        check("NothingPermitted", false);
        check("RunnerFailing", false);
    }

    #[test]
    fn only_what_is_permitted_is_shown() {
        let ready = Some(("True", "Idle", 2));
        let tools = |spec: Value| known(spec, ready).state().tools;
        assert_eq!(tools(json!({})), Vec::<String>::new());
        assert_eq!(tools(json!({"permissions": {"tools": ["feel", "gone"]}})), ["feel"]);
        assert_eq!(tools(json!({"permissions": {"tools": ["*"]}})), ["look", "feel"]);
    }

    #[test]
    fn what_serves_is_given_nothing_of_what_the_next_revision_may() {
        let wide = json!({"permissions": {"tools": ["*"]}, "egress": {"mode": "Internet"}});
        let narrow = json!({"permissions": {"tools": ["look"]}});
        let check = |spec: &Value, granted: Option<Value>, tools: &[&str], internet: bool| {
            let mut spec = spec.clone();
            spec["rollout"] = "Manual".into();
            let mut known = known(spec, None);
            known.status.granted = granted.map(|granted| serde_json::from_value(granted).unwrap());
            assert_eq!(known.state().tools, tools);
            assert_eq!(known.lets(EgressMode::Internet), internet);
        };
        let (less, all) =
            (json!({"tools": ["feel"]}), json!({"tools": ["*"], "egress": "Internet"}));
        check(&wide, None, &[], false);
        check(&wide, Some(less), &["feel"], false);
        check(&wide, Some(all.clone()), &["look", "feel"], true);
        check(&narrow, Some(all), &["look"], false);
    }

    #[test]
    fn one_that_sleeps_is_ready_and_one_that_is_held_is_not() {
        let ready = |spec: Value, said| known(spec, Some(said)).state().ready;
        assert!(ready(json!({}), ("True", "Idle", 2)));
        assert!(!ready(json!({"suspend": true}), ("True", "Idle", 1)));
        assert!(!ready(json!({}), ("False", "RunnerFailing", 2)));
    }
}
