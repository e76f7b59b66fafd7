//! What is to be done for a Plugin: pure, from what there is.
//!
//! ```text
//! target    what should serve: the pin, or the newest build of the source
//! build     the Job that gets there, unless it serves already
//! serving   what a Job has put on the volume last; a Job that fails leaves it alone
//! bundled   what a Job that failed had made of the source already: its next try begins there
//! rendered  rises when configuration or serving revision change
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use famulus_crds::BuildKey;
use famulus_crds::labels::Part;
use famulus_crds::names::{Child, child};
use famulus_crds::plugin::{Reason, State};
use famulus_protocol::revision::{BuildFile, BuildSource};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::build::content;
use super::isolation;
use super::observe::Observed;
use super::pod_status::{self, Progress, Trouble};
use super::record::{Cause, Failure, Newest, Record, Revision, SCRATCH, Shape};
use super::user_namespace::{self, UserNamespace};
use super::validate::Valid;
use crate::settings::Pods;

/// What follows from what there is.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The record as it should be kept.
    pub record: Record,
    pub user_namespace: UserNamespace,
    /// What the plugin's Pods look like to the node.
    pub shape: Shape,
    pub volume: Volume,
    /// Which volume it is: the claim's UID. None before there is a claim.
    pub place: Option<String>,
    pub wants_claim: bool,
    pub build: Build,
    /// A Job that should begin.
    pub order: Option<Order>,
    /// Jobs that are of no use, and the Secrets of their orders.
    pub obsolete: Vec<String>,
    /// Orders of Jobs that have ended.
    pub delivered: Vec<String>,
    pub replicas: i32,
    /// Its runners end before others begin, whoever else is being replaced: they run in an open
    /// network, which is no longer accepted.
    pub recalls: bool,
    /// What keeps a runner from its work.
    pub trouble: Option<Trouble>,
    pub config: BTreeMap<String, String>,
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
    /// Nothing is built while the Plugin is suspended.
    Held,
}

/// A build to begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub key: BuildKey,
    pub source: BuildSource,
}

pub fn plan(
    valid: &Valid,
    observed: &Observed,
    pods: &Pods,
    without_namespace: &BTreeSet<Shape>,
) -> Plan {
    let before = Record::of(observed.mounted.as_ref());
    let mut record = before.clone();
    let volume = volume(valid, observed, pods);
    let shape = Shape { class: valid.class.clone(), claim: volume == Volume::Claim };
    if record.seen.is_none() && without_namespace.contains(&shape) {
        record.fallen_back = Some(shape.clone());
    }
    isolation::update_record(&mut record, valid, observed, pods);
    let namespace = user_namespace::decide(pods, &shape, &record);

    let mut plan = Plan {
        record,
        user_namespace: namespace,
        shape,
        volume,
        place: place(volume, observed),
        wants_claim: valid.state == State::Persistent,
        build: Build::Settled,
        order: None,
        obsolete: Vec::new(),
        delivered: Vec::new(),
        replicas: 0,
        recalls: isolation::is_recalled(observed, pods),
        trouble: None,
        config: observed.config.values(),
    };
    plan.follow(valid, observed);
    plan.watch_runners(valid, observed);
    plan.user_namespace = user_namespace::decide(pods, &plan.shape, &plan.record);
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

    /// The build that is needed to serve what should serve. None, when it serves.
    fn target(&self, valid: &Valid) -> Option<Order> {
        let serving = self.serving().map(|serving| serving.digest.as_str());
        let key = source_key(valid);
        let restore = |digest: &str| {
            let key = BuildKey::restored(&valid.source, valid.refresh.as_deref(), digest);
            Order { key, source: BuildSource::Revision(digest.to_owned()) }
        };
        if let Some(pin) = &valid.pin {
            return (serving != Some(pin)).then(|| restore(pin));
        }
        match self.record.newest.as_ref().filter(|newest| newest.key == key.as_str()) {
            Some(newest) if serving == Some(&newest.revision.digest) => None,
            Some(newest) => Some(restore(&newest.revision.digest)),
            None => {
                let bundled = self.bundled(key.as_str()).map(|bundled| bundled.digest.clone());
                let source = bundled.map_or_else(|| source(valid), BuildSource::Revision);
                Some(Order { key, source })
            }
        }
    }

    /// What a build with this key, which failed since, has made of its source.
    fn bundled(&self, key: &str) -> Option<&Revision> {
        self.record.failed.as_ref().filter(|failed| failed.key == key)?.bundled.as_ref()
    }

    /// Follows the Job of the target, or begins it.
    fn follow(&mut self, valid: &Valid, observed: &Observed) {
        let target = self.target(valid);
        let wanted = target.as_ref().map(|order| name_of(valid, order.key));
        for job in &observed.jobs {
            if Some(job.name_any()) != wanted || valid.suspend {
                self.obsolete.push(job.name_any());
            }
        }
        let Some(order) = target else { return };
        if valid.suspend {
            self.build = Build::Held;
            return;
        }
        let job = observed.jobs.iter().find(|job| Some(job.name_any()) == wanted);
        match job {
            Some(job) => self.look_at(job, valid, observed, order),
            None => self.begin(observed.now, order),
        }
    }

    fn look_at(&mut self, job: &Arc<Job>, valid: &Valid, observed: &Observed, order: Order) {
        let uid = job.uid().unwrap_or_default();
        let key = order.key.as_str().to_owned();
        if let Some(failure) = self.record.failed.clone().filter(|it| it.job == uid) {
            // It is known already. It stays to be looked at, and makes way for the next try.
            if is_final(&failure.reason) || observed.now < failure.again_at() {
                self.build = Build::Failed(failure);
            } else {
                self.obsolete.push(job.name_any());
                self.build = Build::Going(Progress::Working);
            }
            return;
        }
        let progress = self.progress(job, observed);
        match progress {
            Progress::Done(revision) => {
                self.obsolete.push(job.name_any());
                self.arrive(valid, &key, revision);
                // What was built may not be what is pinned.
                if let Some(next) = self.target(valid) {
                    self.begin(observed.now, next);
                }
            }
            Progress::Failed { reason, message, bundled } => {
                self.delivered.push(job.name_any());
                let bundled = bundled.or_else(|| self.bundled(&key).cloned());
                let cause = Cause { reason, message, bundled };
                self.fail(valid, &uid, &key, cause, observed.now);
            }
            Progress::Stuck if self.user_namespace == UserNamespace::Preferred => {
                // The next reconcile begins it anew, without a user namespace.
                self.record.fallen_back = Some(self.shape.clone());
                self.obsolete.push(job.name_any());
                self.build = Build::Going(Progress::Working);
            }
            Progress::Working
            | Progress::Stuck
            | Progress::Unschedulable(_)
            | Progress::Unstartable(_) => self.build = Build::Going(progress),
        }
    }

    fn progress(&self, job: &Job, observed: &Observed) -> Progress {
        let pod = pods_of(job, observed).max_by_key(|pod| pod.creation_timestamp());
        let progress = match pod {
            Some(pod) => pod_status::progress(pod, observed.now),
            None => pod_status::without_pod(job, observed.now),
        };
        let bare =
            pod.and_then(|pod| pod_status::probed(pod)).is_some_and(|seen| !seen.user_namespace);
        if bare && self.user_namespace == UserNamespace::Required {
            return Progress::Failed {
                reason: Reason::NoUserNamespace.name().to_owned(),
                message: "the node gave the Pod of the build no user namespace, and the \
                          installation requires one; use nodes that have them, or set \
                          userNamespaces to Preferred"
                    .to_owned(),
                bundled: None,
            };
        }
        progress
    }

    fn begin(&mut self, now: Timestamp, order: Order) {
        if let Some(failure) = &self.record.failed
            && failure.key == order.key.as_str()
            && (is_final(&failure.reason) || now < failure.again_at())
        {
            self.build = Build::Failed(failure.clone());
            return;
        }
        self.build = Build::Going(Progress::Working);
        // Before there is a claim, nobody knows whether it will ever be bound.
        self.order = self.place.is_some().then_some(order);
    }

    fn arrive(&mut self, valid: &Valid, key: &str, mut revision: Revision) {
        // A bundle that the app kept says nothing of the commit that it was made of.
        if let Some(bundled) = self.bundled(key).filter(|it| it.digest == revision.digest) {
            revision.commit = revision.commit.or_else(|| bundled.commit.clone());
        }
        if key == source_key(valid).as_str() {
            let newest = Newest { key: key.to_owned(), revision: revision.clone() };
            self.record.newest = Some(newest);
        }
        self.record.serving = Some(revision);
        self.record.volume = self.place.clone().unwrap_or_default();
        self.record.failed = None;
        self.build = Build::Settled;
    }

    fn fail(&mut self, valid: &Valid, job: &str, key: &str, mut cause: Cause, now: Timestamp) {
        // Only a pin has nothing else that it could be built of.
        if valid.pin.is_none() && cause.reason == Reason::RevisionUnknown.name() {
            self.record.newest = None;
            let message = "the bundle that was to be built is not kept any more; the source is \
                           fetched again";
            cause = Cause {
                reason: Reason::BuildFailed.name().to_owned(),
                message: message.to_owned(),
                bundled: None,
            };
        }
        let mut failure = Failure::after(self.record.failed.as_ref(), key, cause, now);
        job.clone_into(&mut failure.job);
        self.record.failed = Some(failure.clone());
        self.build = Build::Failed(failure);
    }

    /// What keeps the runner from its work; and without a user namespace it may start after all.
    fn watch_runners(&mut self, valid: &Valid, observed: &Observed) {
        let trouble = |pod: &Arc<Pod>| {
            pod_status::start(pod, observed.now).or_else(|| pod_status::serve(pod, observed.now))
        };
        self.trouble = observed.runners().find_map(trouble);
        let stuck = self.trouble == Some(Trouble::Stuck);
        if stuck && self.user_namespace == UserNamespace::Preferred {
            self.record.fallen_back = Some(self.shape.clone());
        }
        if self.trouble.is_none() && valid.replicas > 0 {
            self.trouble = observed.runner.as_deref().and_then(pod_status::refused);
        }
    }

    /// An order lives as long as its build; also when the operator dies right after writing it.
    fn order_away(&mut self, valid: &Valid, before: &Record) {
        if let Some(order) = &self.order {
            self.record.ordered = Some(name_of(valid, order.key));
        }
        let going = matches!(self.build, Build::Going(_));
        let is_over =
            |name: &String| !going || self.delivered.contains(name) || self.obsolete.contains(name);
        if self.order.is_none() && self.record.ordered.as_ref().is_some_and(is_over) {
            self.record.ordered = None;
        }
        if let Some(old) =
            before.ordered.as_ref().filter(|it| Some(*it) != self.record.ordered.as_ref())
            && !self.delivered.contains(old)
            && !self.obsolete.contains(old)
        {
            self.delivered.push(old.clone());
        }
    }

    /// How many runners there should be, and the number of what they are given.
    fn count(&mut self, valid: &Valid, observed: &Observed, before: &Record) {
        let bare = self.record.seen.as_ref().is_some_and(|seen| !seen.user_namespace);
        let refused = bare && self.user_namespace == UserNamespace::Required;
        let may_run = self.serving().is_some() && !valid.suspend && !refused;
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

fn source_key(valid: &Valid) -> BuildKey {
    BuildKey::source(&valid.source, valid.refresh.as_deref())
}

fn source(valid: &Valid) -> BuildSource {
    match (&valid.source.git, &valid.source.inline) {
        (Some(git), _) => BuildSource::Git { url: git.url.clone(), r#ref: git.reference.clone() },
        (None, inline) => {
            let files = inline.iter().flat_map(|inline| &inline.files);
            let file = |file: &famulus_crds::plugin::InlineFile| BuildFile {
                path: file.path.clone(),
                content: file.content.clone(),
            };
            BuildSource::Inline { files: files.map(file).collect() }
        }
    }
}

fn name_of(valid: &Valid, key: BuildKey) -> String {
    child(&valid.object, Child::Build(key))
}

/// Whether the same build would fail again.
pub fn is_final(reason: &str) -> bool {
    match Reason::parse(reason) {
        Some(
            Reason::RefNotFound
            | Reason::ManifestInvalid
            | Reason::InitFailed
            | Reason::RevisionUnknown,
        ) => true,
        Some(_) | None => false,
    }
}

fn pods_of<'a>(job: &Job, observed: &'a Observed) -> impl Iterator<Item = &'a Arc<Pod>> {
    let uid = job.uid();
    observed.of_part(Part::Build).filter(move |pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(&owner.uid) == uid.as_ref())
    })
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

fn place(volume: Volume, observed: &Observed) -> Option<String> {
    match volume {
        Volume::Scratch => Some(SCRATCH.to_owned()),
        Volume::Claim => observed.claim.as_ref().and_then(|claim| claim.uid()),
    }
}
