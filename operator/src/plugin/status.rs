//! What the owner is told: pure, from what there is and what is to be done.

use std::collections::BTreeSet;

use famulus_crds::labels::{CONFIG_FOR, runners_of};
use famulus_crds::plugin::{
    Condition, ConditionStatus, Isolation, NetworkIsolation, PluginStatus, Reason, State,
};
use famulus_protocol::revision::Network;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::observe::{Config, Observed};
use super::plan::{Build, Plan, Volume};
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
        commit: serving.and_then(|serving| serving.commit.clone()),
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
            Some(Trouble::Unstartable(message) | Trouble::Failing(message)) => {
                (Reason::RunnerFailing, message.clone())
            }
            None => (Reason::Starting, "a runner starts, and calls wait for it".to_owned()),
        }
    }

    fn built(&self) -> ReasonMessage {
        let serves = match &self.plan.record.serving {
            Some(serving) => format!("; {} goes on serving", what(serving)),
            None => String::new(),
        };
        match &self.plan.build {
            Build::Settled => match &self.plan.record.serving {
                Some(serving) => {
                    let said = match serving.init_output.trim() {
                        "" => String::new(),
                        said => format!("; its init script said: {said}"),
                    };
                    (Reason::RevisionBuilt, format!("{} serves{said}", what(serving)))
                }
                None => (Reason::Building, "the build begins in a moment".to_owned()),
            },
            Build::Held => {
                (Reason::Building, format!("the build waits until spec.suspend is false{serves}"))
            }
            Build::Going(progress) => {
                let why = match progress {
                    Progress::Unschedulable(message) => format!("no node takes its Pod: {message}"),
                    Progress::Stuck => "its Pod does not start".to_owned(),
                    Progress::Unstartable(message) => message.clone(),
                    Progress::Working | Progress::Done(_) | Progress::Failed { .. } => {
                        "a build runs".to_owned()
                    }
                };
                (Reason::Building, format!("{why}{serves}"))
            }
            Build::Failed(failure) => {
                let reason = Reason::parse(&failure.reason).unwrap_or(Reason::BuildFailed);
                // A word of another condition is said there too.
                let is_own = reason.says().0 == Reason::BuildFailed.says().0;
                let reason = if is_own { reason } else { Reason::BuildFailed };
                (reason, format!("{}{serves}", failure.message))
            }
        }
    }

    fn configured(&self) -> ReasonMessage {
        if let Config::Missing(name) = &self.observed.config {
            return (
                Reason::SecretMissing,
                format!(
                    "the Secret {name} of spec.configSecretRef does not exist; create it in the \
                     namespace {}",
                    self.valid.namespace
                ),
            );
        }
        if let Config::NotGranted { name, values } = &self.observed.config {
            let kept =
                if values.is_empty() { "" } else { "; until then it keeps the values that it has" };
            return (
                Reason::SecretNotGranted,
                format!(
                    "the Secret {name} has no label that gives it to this plugin; if it may have it: \
                     kubectl -n {} label secret {name} {CONFIG_FOR}={} --overwrite{kept}",
                    self.valid.namespace, self.valid.stem
                ),
            );
        }
        let Some(revision) = &self.plan.record.serving else {
            let message = "which keys it needs is known once it is built".to_owned();
            return (Reason::ConfigUnknown, message);
        };
        let missing = self.missing(revision);
        if missing.is_empty() {
            return (Reason::ConfigComplete, "every key that it needs has a value".to_owned());
        }
        let bytes: Vec<&str> =
            missing.iter().copied().filter(|key| self.is_unreadable(key)).collect();
        let missing = missing.join(", ");
        let message = match &self.valid_secret() {
            Some(name) if !bytes.is_empty() => format!(
                "the Secret {name} has no text for {missing}: what {} holds is no UTF-8; give it a \
                 text there",
                bytes.join(", ")
            ),
            Some(name) => format!("the Secret {name} has no value for {missing}; add it there"),
            None => format!(
                "it needs values for {missing}; create a Secret with these keys and name it in \
                 spec.configSecretRef"
            ),
        };
        (Reason::KeysMissing, message)
    }

    /// The keys that it needs and that have no value.
    fn missing<'a>(&self, revision: &'a Revision) -> Vec<&'a str> {
        let has_value = |key: &String| self.plan.config.get(key).is_some_and(|it| !it.is_empty());
        let missing = revision.required_keys.iter().filter(|key| !has_value(key));
        missing.map(String::as_str).collect()
    }

    /// Whether a plugin whose Secret is not given to it serves with what it was given before.
    fn keeps_its_values(&self, reason: Reason) -> bool {
        let is_enough = |revision| self.missing(revision).is_empty();
        reason == Reason::SecretNotGranted
            && !self.plan.config.is_empty()
            && self.plan.serving().is_some_and(is_enough)
    }

    fn is_unreadable(&self, key: &str) -> bool {
        match &self.observed.config {
            Config::Values { unreadable, .. } => unreadable.iter().any(|one| one == key),
            Config::NotAsked
            | Config::Missing(_)
            | Config::NotTheOwners(_)
            | Config::NotGranted { .. } => false,
        }
    }

    fn valid_secret(&self) -> Option<String> {
        let reference = self.observed.plugin.spec.config_secret_ref.as_ref();
        reference.map(|reference| reference.name.clone())
    }

    fn permitted(&self) -> ReasonMessage {
        let permissions = &self.observed.plugin.spec.permissions;
        let nothing = |message: &str| (Reason::NothingPermitted, message.to_owned());
        if permissions.is_empty() {
            return nothing(
                "spec.permissions.tools is empty; name the tools that may run there, or * for all",
            );
        }
        let Some(revision) = &self.plan.record.serving else {
            let message = "the tools that spec.permissions names may run".to_owned();
            return (Reason::ToolsPermitted, message);
        };
        let allowed = revision.tools.iter().filter(|tool| permissions.allow(tool)).count();
        let all = revision.tools.len();
        match (allowed, all) {
            (_, 0) => nothing("it has no tools; see its manifest files"),
            (0, _) => nothing(
                "spec.permissions.tools names none of its tools; see status.tools for their names",
            ),
            _ => (Reason::ToolsPermitted, format!("{allowed} of its {all} tools may run")),
        }
    }

    fn kept(&self) -> ReasonMessage {
        if self.valid.state == State::Ephemeral {
            let message = "spec.state is Ephemeral: its files end with each runner".to_owned();
            return (Reason::StateEphemeral, message);
        }
        if self.plan.volume == Volume::Scratch {
            return (
                Reason::NoStorageClass,
                "the cluster has no default StorageClass, so that its files end with each runner; \
                 make one the default, or name one to the installation"
                    .to_owned(),
            );
        }
        let claim = self.observed.claim.as_ref().and_then(|claim| claim.status.as_ref());
        match claim.and_then(|status| status.phase.as_deref()) {
            Some("Bound") => (Reason::StateOnVolume, "its files are on a volume".to_owned()),
            Some("Lost") => (
                Reason::VolumePending,
                "its volume is lost; delete the claim to begin with an empty one".to_owned(),
            ),
            _ => (Reason::VolumePending, "its volume comes with its first Pod".to_owned()),
        }
    }

    fn isolated(&self) -> ReasonMessage {
        let Some(seen) = &self.plan.record.seen else {
            let message = "its first Pod looks at the network before anything runs".to_owned();
            return (Reason::NetworkNotProbed, message);
        };
        let reason = match self.network() {
            None => Reason::NetworkNotProbed,
            Some(NetworkIsolation::Closed) => {
                return (
                    Reason::NetworkClosed,
                    "what it must not reach was not reached".to_owned(),
                );
            }
            Some(_) if self.pods.accept_open_network => Reason::OpenNetworkAccepted,
            Some(NetworkIsolation::Open) => Reason::NetworkOpen,
            Some(NetworkIsolation::Unknown) => Reason::NetworkUnknown,
        };
        (reason, seen.detail.clone())
    }

    fn confined(&self) -> ReasonMessage {
        let plan = self.plan;
        let as_asked = |message: &str| (Reason::AsAsked, message.to_owned());
        if let Some(class) = &plan.shape.class
            && self.starts_nothing(class)
        {
            return (
                Reason::NoRuntimeClass,
                format!(
                    "the RuntimeClass {class} does not exist, or its Pods do not start; see \
                     kubectl get runtimeclasses, or choose another in spec.runner.runtimeClassName"
                ),
            );
        }
        match plan.user_namespace {
            UserNamespace::Off => as_asked("the installation uses no user namespaces"),
            UserNamespace::OwnKernel => as_asked("its Pods have a kernel of their own"),
            UserNamespace::FellBack => (
                Reason::NoUserNamespace,
                "its Pod did not start in a user namespace and so runs without one; see whether \
                 the node's runtime and the volume's file system support them"
                    .to_owned(),
            ),
            UserNamespace::Required | UserNamespace::Preferred => match &plan.record.seen {
                Some(seen) if seen.user_namespace => as_asked("its Pods have a user namespace"),
                Some(_) => (
                    Reason::NoUserNamespace,
                    "the node gave its Pod no user namespace; see whether its kernel and runtime \
                     support them"
                        .to_owned(),
                ),
                None if self.stuck() && plan.user_namespace == UserNamespace::Required => (
                    Reason::NoUserNamespace,
                    "its Pod does not start in a user namespace, and the installation requires \
                     one; use nodes that have them, or set userNamespaces to Preferred"
                        .to_owned(),
                ),
                None => (
                    Reason::ConfinementNotProbed,
                    "its first Pod tells how it is confined".to_owned(),
                ),
            },
        }
    }

    fn stuck(&self) -> bool {
        self.plan.build == Build::Going(Progress::Stuck)
            || self.plan.trouble == Some(Trouble::Stuck)
    }

    /// Whether the class is to blame: its Pods are refused by name, or do not start at all.
    fn starts_nothing(&self, class: &str) -> bool {
        let names_it = |message: &String| message.contains(class);
        let refused = match &self.plan.build {
            Build::Going(Progress::Unstartable(message)) => {
                names_it(message) || message.contains("gets no Pod")
            }
            Build::Going(_) | Build::Settled | Build::Failed(_) | Build::Held => false,
        };
        let runner = match &self.plan.trouble {
            Some(Trouble::Unstartable(message)) => names_it(message),
            _ => false,
        };
        refused || runner || (self.stuck() && !self.plan.user_namespace.is_asked())
    }

    fn isolation(&self) -> Option<Isolation> {
        let seen = self.plan.record.seen.as_ref()?;
        Some(Isolation {
            network: self.network()?,
            user_namespace: seen.user_namespace,
            runtime_class_name: seen.class.clone(),
        })
    }

    fn network(&self) -> Option<NetworkIsolation> {
        let seen = self.plan.record.seen.as_ref()?;
        Some(match seen.network {
            Network::Closed => NetworkIsolation::Closed,
            Network::Open => NetworkIsolation::Open,
            Network::Unknown => NetworkIsolation::Unknown,
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
