//! What is to be done for a Plugin: pure, from what there is.
//!
//! ```text
//! target    what should serve: the pin, or the newest build of the source; where a pin alone lets a
//!           revision run, also the bundle of the source, which is then offered
//! build     the Job that gets there, unless it serves already
//! serving   what a Job has put on the volume last; a Job that fails leaves it alone
//! bundled   what a Job that failed had made of the source already: its next try begins there
//! apart     an init script that reaches less than the source wants has a Pod of its own: one Job
//!           makes the bundle, which is then the newest, and another builds it
//! rendered  rises when configuration or serving revision change
//! ```

mod builds;

pub use builds::source_key;

use std::collections::BTreeMap;
use std::sync::Arc;

use famulus_crds::BuildKey;
use famulus_crds::labels::RESTORED_FROM;
use famulus_crds::plugin::{EgressMode, State};
use famulus_protocol::revision::BuildSource;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::ResourceExt;

use super::brought;
use super::build::{EgressClass, content};
use super::isolation;
use super::observe::Observed;
use super::pod_status::{self, Progress, Trouble};
use super::record::{Failure, NodeRefusal, Record, Revision, SCRATCH, Shape};
use super::refusal;
use super::user_namespace::{self, UserNamespace};
use super::validate::Valid;
use crate::settings::Pods;

/// What follows from what there is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The record as it should be kept.
    pub record: Record,
    pub user_namespace: UserNamespace,
    /// A Pod that there is now was refused its user namespace.
    pub refused: Option<NodeRefusal>,
    /// What the plugin's Pods look like to the node.
    pub shape: Shape,
    pub volume: Volume,
    /// Which volume it is: the claim's UID. None before there is a claim, and while it is being
    /// deleted.
    pub place: Option<String>,
    pub wants_claim: bool,
    /// Somebody deletes the claim. It goes when nothing holds it, so nothing runs until it is gone;
    /// then an empty one comes.
    pub empties: bool,
    /// Pods that ended and still hold such a claim. Nobody else deletes one that was evicted.
    pub remains: Vec<String>,
    pub build: Build,
    /// A Job that should begin.
    pub order: Option<Order>,
    /// Jobs that are of no use, and the Secrets of their orders.
    pub obsolete: Vec<String>,
    /// Orders of Jobs that have ended.
    pub delivered: Vec<String>,
    pub replicas: i32,
    /// What its runners reach.
    pub egress: EgressMode,
    /// Its runners end before others begin, whoever else is being replaced: they run in an open
    /// network, which is no longer accepted.
    pub recalls: bool,
    /// Its runners take no calls and have begun nothing: whatever changes, nobody is interrupted.
    pub idles: bool,
    /// What keeps a runner from its work.
    pub trouble: Option<Trouble>,
    pub config: BTreeMap<String, String>,
    /// The backup from which the files on its volume are to come before it serves.
    pub awaits: Option<String>,
}

/// Where a plugin's files are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Volume {
    Claim,
    /// In the Pod; they end with it.
    Scratch,
}

/// How the wanted revision stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Build {
    /// It serves.
    Settled,
    Going(Progress),
    Failed(Failure),
    /// Nothing is built while the Plugin is suspended, or while its volume is being deleted.
    Held,
}

/// A build to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub key: BuildKey,
    pub source: BuildSource,
    pub steps: Steps,
}

/// How far the Pod of a build goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// To a bundle that the app keeps. No code of the plugin runs.
    Bundle,
    /// To a revision on the plugin's volume.
    All,
}

impl Order {
    /// What its Pod reaches.
    pub fn reach(&self, valid: &Valid) -> EgressClass {
        match self.steps {
            Steps::All if valid.init_apart => EgressClass::None,
            Steps::All | Steps::Bundle => EgressClass::Internet,
        }
    }
}

pub fn plan(valid: &Valid, observed: &Observed, pods: &Pods) -> Plan {
    let before = Record::of(observed.mounted.as_ref());
    let mut record = before.clone();
    let volume = volume(valid, observed, pods);
    let shape = shape(valid, observed, pods, volume);
    brought::update_record(&mut record, &observed.config);
    isolation::update_record(&mut record, valid, observed, pods);
    user_namespace::update_record(&mut record, &shape, valid, observed);
    let namespace = user_namespace::decide(pods, &shape, &record);
    let refused = user_namespace::refused(&shape, valid, observed);
    let empties = observed.claim.as_deref().is_some_and(is_going);

    let mut plan = Plan {
        record,
        user_namespace: namespace,
        refused,
        shape,
        volume,
        place: place(volume, observed),
        wants_claim: valid.state == State::Persistent,
        empties,
        remains: if empties { remains(observed) } else { Vec::new() },
        build: Build::Settled,
        order: None,
        obsolete: Vec::new(),
        delivered: Vec::new(),
        replicas: 0,
        egress: EgressMode::None,
        recalls: isolation::is_recalled(observed, pods),
        idles: idles(observed),
        trouble: None,
        config: observed.config.values(),
        awaits: awaits(volume, observed),
    };
    plan.follow(valid, observed);
    plan.grant(valid);
    plan.watch_runners(valid, observed);
    plan.count(valid, observed, &before);
    plan.order_away(valid, &before);
    plan
}

impl Plan {
    /// What serves from the volume that there is. A volume that was lost is filled anew.
    pub fn serving(&self) -> Option<&Revision> {
        let here = self.place.as_deref() == Some(&self.record.volume);
        self.record.serving.as_ref().filter(|_| here)
    }

    /// While a revision is built, the one that serves until then is given nothing of what is the new one's,
    /// and loses what that one loses.
    fn grant(&mut self, valid: &Valid) {
        self.egress = valid.granted.egress;
        if !valid.is_manual {
            self.record.granted = None;
            return;
        }
        if self.serving().is_some_and(|serving| Some(&serving.digest) == valid.pin.as_ref()) {
            self.record.granted = Some(valid.granted.clone());
        }
        let before = self.record.granted.as_ref().map(|granted| granted.egress);
        self.egress = self.egress.and(before.unwrap_or_default());
    }

    /// What keeps the runner from its work.
    fn watch_runners(&mut self, valid: &Valid, observed: &Observed) {
        let trouble = |pod: &Arc<Pod>| {
            pod_status::start(pod, observed.now).or_else(|| pod_status::serve(pod, observed.now))
        };
        self.trouble = observed.runners().find_map(trouble);
        if self.trouble.is_none() && valid.replicas > 0 {
            self.trouble = observed.runner.as_deref().and_then(pod_status::refused);
        }
    }

    /// How many runners there should be, and the number of what they are given.
    fn count(&mut self, valid: &Valid, observed: &Observed, before: &Record) {
        let seen = self.record.seen.as_ref().filter(|seen| seen.asked != Some(false));
        let bare = seen.is_some_and(|seen| !seen.user_namespace);
        let refused = bare && self.user_namespace == UserNamespace::Required;
        let may_run = self.serving().is_some() && !valid.suspend && !refused && !waits(valid);
        self.replicas = if may_run { valid.replicas } else { 0 };

        let content = content(valid, self);
        if content != before.content {
            // A record that was lost must not make a number mean two things.
            let told = observed.plugin.status.as_ref().map_or(0, |status| status.rendered);
            self.record.rendered = before.rendered.max(told) + 1;
            self.record.content = content;
            self.record.rendered_at = Some(observed.now);
        }
    }
}

/// Nothing of it may run before the owner pins a revision.
pub fn waits(valid: &Valid) -> bool {
    valid.is_manual && valid.pin.is_none()
}

fn idles(observed: &Observed) -> bool {
    let idle = |pod: &Arc<Pod>| {
        let refused = refusal::of(pod, observed.sandbox_events(pod)).is_some();
        !pod_status::is_ready(pod) && (refused || !pod_status::has_begun(pod))
    };
    observed.runners().next().is_some() && observed.runners().all(idle)
}

/// A claim that names no class although it exists found no default class when it was made.
fn volume(valid: &Valid, observed: &Observed, pods: &Pods) -> Volume {
    if valid.state == State::Ephemeral {
        return Volume::Scratch;
    }
    let classless = observed.claim.as_ref().is_some_and(|claim| {
        let class = claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref());
        let bound = claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref());
        class.unwrap_or_default().is_empty() && bound.is_none()
    });
    if classless && pods.storage_class.is_none() { Volume::Scratch } else { Volume::Claim }
}

fn shape(valid: &Valid, observed: &Observed, pods: &Pods, volume: Volume) -> Shape {
    let claim = volume == Volume::Claim;
    let spec = observed.claim.as_ref().and_then(|claim| claim.spec.as_ref());
    let class = spec.and_then(|spec| spec.storage_class_name.clone());
    let storage_class = class.or_else(|| pods.storage_class.clone()).filter(|_| claim);
    Shape { class: valid.class.clone(), claim, storage_class }
}

/// Files come for a volume that stays.
fn awaits(volume: Volume, observed: &Observed) -> Option<String> {
    let backup = observed.plugin.annotations().get(RESTORED_FROM);
    backup.filter(|_| volume == Volume::Claim).cloned()
}

fn place(volume: Volume, observed: &Observed) -> Option<String> {
    match volume {
        Volume::Scratch => Some(SCRATCH.to_owned()),
        Volume::Claim => {
            let claim = observed.claim.as_deref().filter(|claim| !is_going(claim));
            claim.and_then(ResourceExt::uid)
        }
    }
}

/// Pods that do nothing but hold the claim. One that is being deleted goes by itself.
fn remains(observed: &Observed) -> Vec<String> {
    let remains = |pod: &&Arc<Pod>| {
        let deleted = pod.metadata.deletion_timestamp.is_some();
        pod_status::has_ended(pod) && pod_status::holds_claim(pod) && !deleted
    };
    observed.pods.iter().filter(remains).map(|pod| pod.name_any()).collect()
}

fn is_going(claim: &PersistentVolumeClaim) -> bool {
    claim.metadata.deletion_timestamp.is_some()
}
