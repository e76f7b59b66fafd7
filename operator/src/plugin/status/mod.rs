//! What the owner is told: pure, from what there is and what is to be done.

mod configuration;
mod confinement;
mod facts;

use std::collections::BTreeSet;

use famulus_crds::labels::{RESTORED_FROM, runners_of};
use famulus_crds::plugin::{Condition, ConditionStatus, PluginStatus, Reason};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observe::Observed;
use super::plan::{self, Build, Plan};
use super::pod_status::{self, Progress, Trouble};
use super::record::Revision;
use super::user_namespace::UserNamespace;
use super::validate::{Refusal, Valid};
use crate::settings::Pods;

/// A reason and what it says, of the type of condition that it belongs to.
type ReasonMessage = (Reason, String);

/// The most tools and keys that a status lists.
const MOST: usize = 256;

/// The status of a Plugin that is worked with.
pub fn of(valid: &Valid, observed: &Observed, plan: &Plan, pods: &Pods) -> PluginStatus {
    let view = View { valid, observed, plan, pods };
    let facts = [
        view.built(),
        view.configured(),
        view.permitted(),
        view.kept(),
        view.isolated(),
        view.confined(),
    ];
    let (reason, message) = view.ready(&facts);
    let now = Time(observed.now);
    let generation = valid.generation;
    let ready = if reason.says().0 == Reason::Idle.says().0 {
        Condition::new(reason, &message, generation, now.clone())
    } else {
        Condition::not_ready(reason, &message, generation, now.clone())
    };
    let others = facts
        .into_iter()
        .map(|(reason, message)| Condition::new(reason, &message, generation, now.clone()));
    let serving = plan.record.serving.as_ref();
    PluginStatus {
        observed_generation: Some(generation),
        revision: serving.map(|serving| serving.digest.clone()),
        serves_since: serving.map(|serving| serves_since(&serving.digest, observed)),
        commit: serving.and_then(|serving| serving.commit.clone()),
        offered: view.offered(),
        granted: plan.record.granted.clone(),
        rendered: plan.record.rendered,
        tools: few(serving.into_iter().flat_map(|serving| &serving.tools)),
        config_keys: few(plan.config.keys()),
        isolation: view.isolation(),
        replicas: replicas(observed),
        selector: Some(runners_of(&valid.object)),
        conditions: settled([ready].into_iter().chain(others), observed),
    }
}

/// The status of a Plugin that cannot be worked with: what was true of its children still is.
pub fn refused(refusal: &Refusal, observed: &Observed) -> PluginStatus {
    let plugin = &observed.plugin;
    let before = plugin.status.clone().unwrap_or_default();
    let generation = plugin.metadata.generation.unwrap_or_default();
    let ready = Condition::new(refusal.reason, &refusal.message, generation, Time(observed.now));
    let others = before.conditions.iter().filter(|condition| condition.kind != ready.kind).cloned();
    let conditions = settled([ready.clone()].into_iter().chain(others), observed);
    PluginStatus {
        observed_generation: Some(generation),
        replicas: replicas(observed),
        selector: Some(runners_of(&plugin.name_any())),
        conditions,
        ..before
    }
}

/// Conditions whose status is what it was keep the time of their last transition.
fn settled(conditions: impl Iterator<Item = Condition>, observed: &Observed) -> Vec<Condition> {
    let before = observed.plugin.status.as_ref().map_or(&[][..], |status| &status.conditions);
    let keep = |mut condition: Condition| {
        let same = before.iter().find(|it| it.kind == condition.kind);
        if let Some(same) = same.filter(|same| same.status == condition.status) {
            condition.last_transition_time = same.last_transition_time.clone();
        }
        condition
    };
    conditions.map(keep).collect()
}

/// Since when this revision serves: what was said of it before stays.
fn serves_since(digest: &str, observed: &Observed) -> Time {
    let before = observed.plugin.status.as_ref();
    let same = before.filter(|before| before.revision.as_deref() == Some(digest));
    same.and_then(PluginStatus::serving_since).cloned().unwrap_or(Time(observed.now))
}

/// Without repetitions, which a set refuses.
fn few<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let fits = |name: &&String| name.len() <= 128 && seen.insert((*name).clone());
    names.filter(fits).take(MOST).cloned().collect()
}

fn replicas(observed: &Observed) -> i32 {
    let status = observed.runner.as_ref().and_then(|runner| runner.status.as_ref());
    status.and_then(|status| status.replicas).unwrap_or(0)
}

struct View<'a> {
    valid: &'a Valid,
    observed: &'a Observed,
    plan: &'a Plan,
    pods: &'a Pods,
}

impl View<'_> {
    /// What of all is said of the whole: the first thing that keeps a call from being answered.
    fn ready(&self, facts: &[ReasonMessage; 6]) -> ReasonMessage {
        let [built, configured, permitted, _kept, isolated, confined] = facts;
        if self.valid.suspend {
            return (
                Reason::Suspended,
                "spec.suspend holds it; set it to false to let it run".to_owned(),
            );
        }
        if self.plan.serving().is_none() {
            return self.not_built(built, confined);
        }
        if plan::waits(self.valid) {
            return built.clone();
        }
        if confined.0 == Reason::NoUserNamespace
            && self.plan.user_namespace == UserNamespace::Required
        {
            return confined.clone();
        }
        for fact in [permitted, configured] {
            if fact.0.says().1 == ConditionStatus::False && !self.keeps_its_values(fact.0) {
                return fact.clone();
            }
        }
        let bad_network = [Reason::NetworkOpen, Reason::NetworkUnknown].contains(&isolated.0);
        if bad_network {
            return isolated.clone();
        }
        self.runs(confined)
    }

    fn not_built(&self, built: &ReasonMessage, confined: &ReasonMessage) -> ReasonMessage {
        let refused = [Reason::NoRuntimeClass, Reason::NoUserNamespace].contains(&confined.0);
        match &self.plan.build {
            Build::Failed(failure) => {
                let reason = Reason::parse(&failure.reason).unwrap_or(Reason::BuildFailed);
                (reason, failure.message.clone())
            }
            Build::Going(_) if self.plan.refused.is_some() && refused => confined.clone(),
            Build::Going(Progress::Unschedulable(message)) => unschedulable(message),
            Build::Going(Progress::Stuck) if refused => confined.clone(),
            Build::Going(Progress::Unstartable(_)) if confined.0 == Reason::NoRuntimeClass => {
                confined.clone()
            }
            Build::Going(Progress::Unstartable(message)) => {
                (Reason::RunnerFailing, message.clone())
            }
            Build::Going(Progress::Stuck) => (
                Reason::RunnerFailing,
                "the Pod of its build does not start; see kubectl describe pod of it".to_owned(),
            ),
            Build::Going(_) | Build::Settled | Build::Held => built.clone(),
        }
    }

    fn runs(&self, confined: &ReasonMessage) -> ReasonMessage {
        if self.plan.replicas == 0 {
            return (Reason::Idle, "a call of its tools starts a runner".to_owned());
        }
        let ready = self.observed.runners().filter(|pod| pod_status::is_ready(pod)).count();
        if ready > 0 {
            let text = if ready == 1 { "1 runner takes" } else { &format!("{ready} runners take") };
            return (Reason::Running, format!("{text} calls"));
        }
        if self.plan.refused.is_some() && confined.0 == Reason::NoUserNamespace {
            return confined.clone();
        }
        match &self.plan.trouble {
            Some(Trouble::Unschedulable(message)) => unschedulable(message),
            Some(Trouble::Stuck) if confined.0.says().1 == ConditionStatus::False => {
                confined.clone()
            }
            Some(Trouble::Stuck) => (
                Reason::RunnerFailing,
                "the Pod of its runner does not start; see kubectl describe pod of it".to_owned(),
            ),
            Some(Trouble::Unstartable(_)) if confined.0 == Reason::NoRuntimeClass => {
                confined.clone()
            }
            Some(Trouble::Unstartable(message)) => (Reason::RunnerFailing, message.clone()),
            Some(Trouble::Failing(message)) => {
                (Reason::RunnerFailing, format!("{message}{}", self.files_to_come()))
            }
            None => {
                let text = "a runner starts, and calls wait for it";
                (Reason::Starting, format!("{text}{}", self.files_to_come()))
            }
        }
    }

    /// What a runner may be waiting for.
    fn files_to_come(&self) -> String {
        self.plan.awaits.as_ref().map_or_else(String::new, |backup| {
            format!(
                ". It waits for its files from the backup {backup}: see the log of the restore, or \
                 remove the annotation {RESTORED_FROM} to go on without them"
            )
        })
    }
}

fn unschedulable(message: &str) -> ReasonMessage {
    (Reason::Unschedulable, format!("no node takes its Pod: {message}"))
}

fn what(revision: &Revision) -> String {
    match &revision.commit {
        Some(commit) => {
            let short = commit.get(..10).unwrap_or(commit);
            format!("revision {} of commit {short}", revision.short())
        }
        None => format!("revision {}", revision.short()),
    }
}
