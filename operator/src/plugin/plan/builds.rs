//! Which build gets to what should serve, and what becomes of it.

use std::sync::Arc;

use famulus_crds::BuildKey;
use famulus_crds::labels::{EGRESS, Part};
use famulus_crds::names::{Child, child};
use famulus_crds::plugin::{Reason, Source};
use famulus_protocol::revision::{BuildFile, BuildSource};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use super::super::build::containers;
use super::super::observe::Observed;
use super::super::pod_status::{self, Progress};
use super::super::record::{Cause, Failure, Newest, Record, Revision};
use super::super::refusal;
use super::super::user_namespace::{self, UserNamespace};
use super::super::validate::Valid;
use super::{Build, Order, Plan, Steps};

impl Plan {
    /// The build that is needed to serve what should serve. None, when it serves.
    fn target(&self, valid: &Valid, now: Timestamp) -> Option<Order> {
        let serving = self.serving().map(|serving| serving.digest.as_str());
        let pin = valid.pin.as_deref();
        let pinned = pin.filter(|pin| serving != Some(*pin)).map(|pin| restore(valid, pin));
        if valid.is_manual {
            // What was permitted comes first. While that fails, its remedy may be offered.
            let fails = |order: &Order| self.failure_of(order, now).is_some();
            let look = || self.look(valid, now);
            return match pinned {
                Some(order) if fails(&order) => look().or(Some(order)),
                Some(order) => Some(order),
                None => look(),
            };
        }
        if pin.is_some() {
            return pinned;
        }
        let key = source_key(valid);
        match self.record.newest.as_ref().filter(|newest| newest.key == key.as_str()) {
            Some(newest) if serving == Some(&newest.revision.digest) => None,
            Some(newest) => Some(restore(valid, &newest.revision.digest)),
            None => {
                let bundled = self.bundled(key.as_str()).map(|bundled| bundled.digest.clone());
                let source = bundled.map_or_else(|| source(valid), BuildSource::Revision);
                let steps = if valid.init_apart { Steps::Bundle } else { Steps::All };
                Some(Order { key, source, steps })
            }
        }
    }

    /// The bundle of the source, which is offered: none, when it is known, or cannot be had now.
    fn look(&self, valid: &Valid, now: Timestamp) -> Option<Order> {
        let key = source_key(valid);
        let is_known = self.record.newest.as_ref().is_some_and(|it| it.key == key.as_str());
        let failed = self.record.unfetched.as_ref().filter(|it| it.key == key.as_str());
        let is_needed = !is_known && !failed.is_some_and(|failed| failed.holds(now));
        is_needed.then(|| Order { key, source: source(valid), steps: Steps::Bundle })
    }

    /// Why an order is not tried now.
    fn failure_of(&self, order: &Order, now: Timestamp) -> Option<&Failure> {
        let failed = self.record.failed.as_ref().filter(|it| it.key == order.key.as_str());
        failed.filter(|failed| failed.holds(now))
    }

    /// What a build with this key, which failed since, has made of its source.
    fn bundled(&self, key: &str) -> Option<&Revision> {
        self.record.failed.as_ref().filter(|failed| failed.key == key)?.bundled.as_ref()
    }

    /// A build that failed while its init script was not apart has made the bundle already.
    fn take_bundle_along(&mut self, valid: &Valid) {
        let key = source_key(valid);
        let key = key.as_str();
        if (valid.init_apart || valid.is_manual)
            && self.record.newest.as_ref().is_none_or(|newest| newest.key != key)
            && let Some(revision) = self.bundled(key).cloned()
        {
            self.record.newest = Some(Newest { key: key.to_owned(), revision });
        }
    }

    /// Follows the Job of the target, or begins it.
    pub(super) fn follow(&mut self, valid: &Valid, observed: &Observed) {
        self.take_bundle_along(valid);
        let target = self.target(valid, observed.now);
        let wanted = target.as_ref().map(|order| name_of(valid, order.key));
        let is_held = valid.suspend || self.empties;
        for job in &observed.jobs {
            if Some(job.name_any()) != wanted || is_held {
                self.obsolete.push(job.name_any());
            }
        }
        let Some(order) = target else {
            self.tell_of_look(valid);
            return;
        };
        if is_held {
            self.build = Build::Held;
            return;
        }
        let job = observed.jobs.iter().find(|job| Some(job.name_any()) == wanted);
        match job {
            Some(job) => self.look_at(job, valid, observed, order),
            None => self.begin(observed.now, order),
        }
    }

    /// A look that failed is told, where nothing else is to be built.
    fn tell_of_look(&mut self, valid: &Valid) {
        let key = source_key(valid);
        let is_of = |failed: &&Failure| valid.is_manual && failed.key == key.as_str();
        if let Some(failed) = self.record.unfetched.as_ref().filter(is_of) {
            self.build = Build::Failed(failed.clone());
        }
    }

    fn look_at(&mut self, job: &Arc<Job>, valid: &Valid, observed: &Observed, order: Order) {
        let uid = job.uid().unwrap_or_default();
        let key = order.key.as_str().to_owned();
        let mut known = self.record.failed.iter().chain(&self.record.unfetched);
        if let Some(failure) = known.find(|it| it.job == uid).cloned() {
            // It is known already. It stays to be looked at, and makes way for the next try.
            if failure.holds(observed.now) {
                self.build = Build::Failed(failure);
            } else {
                self.obsolete.push(job.name_any());
                self.build = Build::Going(Progress::Working);
            }
            return;
        }
        let pod = pod_of(job, observed);
        let is_outdated =
            pod.is_some_and(|pod| user_namespace::is_outdated(pod, &self.user_namespace, observed));
        if is_outdated || !fits(job, valid, &order) {
            // It goes, and the next reconcile begins it anew.
            if job.metadata.deletion_timestamp.is_none() {
                self.obsolete.push(job.name_any());
            }
            self.build = Build::Going(Progress::Working);
            return;
        }
        let progress = self.progress(job, pod, observed);
        match progress {
            Progress::Bundled(revision) => {
                self.obsolete.push(job.name_any());
                self.record.newest = Some(Newest { key, revision });
                self.record.unfetched = None;
                if !valid.is_manual {
                    self.record.failed = None;
                }
                self.build = Build::Settled;
                if let Some(next) = self.target(valid, observed.now) {
                    self.begin(observed.now, next);
                }
            }
            Progress::Done(revision) => {
                self.obsolete.push(job.name_any());
                self.arrive(valid, &key, revision);
                // What was built may not be what is pinned.
                if let Some(next) = self.target(valid, observed.now) {
                    self.begin(observed.now, next);
                }
            }
            Progress::Failed { reason, message, bundled } => {
                self.delivered.push(job.name_any());
                let bundled = bundled.or_else(|| self.bundled(&key).cloned());
                let cause = Cause { reason, message, bundled };
                if valid.is_manual && order.steps == Steps::Bundle {
                    let before = self.record.unfetched.as_ref();
                    let mut failure = Failure::after(before, &key, cause, observed.now);
                    failure.job = uid;
                    self.record.unfetched = Some(failure.clone());
                    self.build = Build::Failed(failure);
                } else {
                    self.fail(valid, &uid, &key, cause, observed.now);
                }
            }
            Progress::Working
            | Progress::Stuck
            | Progress::Unschedulable(_)
            | Progress::Unstartable(_) => self.build = Build::Going(progress),
        }
    }

    fn progress(&self, job: &Job, pod: Option<&Arc<Pod>>, observed: &Observed) -> Progress {
        let progress = match pod {
            Some(pod) => pod_status::progress(pod, observed.now),
            None => pod_status::without_pod(job, observed.now),
        };
        if self.user_namespace != UserNamespace::Required {
            return progress;
        }
        let bare =
            pod.and_then(|pod| pod_status::probed(pod)).is_some_and(|seen| !seen.user_namespace);
        let said = pod.and_then(|pod| refusal::of(pod, observed.sandbox_events(pod)));
        let (said, bundled) = match (&progress, said) {
            (Progress::Failed { bundled, .. }, Some(said)) => {
                (format!(": {said}"), bundled.clone())
            }
            (_, _) if bare => (String::new(), None),
            (_, _) => return progress,
        };
        Progress::Failed {
            reason: Reason::NoUserNamespace.name().to_owned(),
            message: format!(
                "the node gave the Pod of the build no user namespace, and the installation \
                 requires one; use nodes that have them, or set plugins.userNamespaces to \
                 Preferred{said}"
            ),
            bundled,
        }
    }

    fn begin(&mut self, now: Timestamp, order: Order) {
        if let Some(failure) = self.failure_of(&order, now) {
            self.build = Build::Failed(failure.clone());
            return;
        }
        self.build = Build::Going(Progress::Working);
        // Before there is a claim, nobody knows whether it will ever be bound.
        self.order = self.place.is_some().then_some(order);
    }

    fn arrive(&mut self, valid: &Valid, key: &str, mut revision: Revision) {
        // A bundle that the app kept says nothing of the commit that it was made of.
        let newest = self.record.newest.as_ref().map(|newest| &newest.revision);
        let mut known = self.bundled(key).into_iter().chain(newest);
        if let Some(known) = known.find(|it| it.digest == revision.digest) {
            revision.commit = revision.commit.or_else(|| known.commit.clone());
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

    /// An order lives as long as its build; also when the operator dies right after writing it.
    pub(super) fn order_away(&mut self, valid: &Valid, before: &Record) {
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
}

/// Gets to a revision whose bundle the app keeps.
fn restore(valid: &Valid, digest: &str) -> Order {
    // What failed with one reach of the init script may work with the other.
    let apart = valid.init_apart.then(|| format!("{digest}, init apart"));
    let what = apart.as_deref().unwrap_or(digest);
    let key = if valid.is_manual {
        // A look at the source does not disturb it.
        BuildKey::restored(&Source::default(), valid.retry.as_deref(), what)
    } else {
        BuildKey::restored(&valid.source, valid.refresh.as_deref(), what)
    };
    Order { key, source: BuildSource::Revision(digest.to_owned()), steps: Steps::All }
}

/// Whether the Job is one that would be begun now: what init reaches may have changed since.
fn fits(job: &Job, valid: &Valid, order: &Order) -> bool {
    let Some(template) = job.spec.as_ref().map(|spec| &spec.template) else { return false };
    let labels = template.metadata.as_ref().and_then(|metadata| metadata.labels.as_ref());
    let reach = labels.and_then(|labels| labels.get(EGRESS)).map(String::as_str);
    let containers = template.spec.iter().flat_map(|spec| &spec.containers);
    let builds = containers.map(|container| &container.name).any(|name| name == containers::BUILD);
    reach == Some(order.reach(valid).name()) && builds == (order.steps == Steps::All)
}

/// Names a look at the source.
pub fn source_key(valid: &Valid) -> BuildKey {
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

/// The newest Pod of a Job.
fn pod_of<'a>(job: &Job, observed: &'a Observed) -> Option<&'a Arc<Pod>> {
    let uid = job.uid();
    let pods = observed.of_part(Part::Build).filter(|pod| {
        let mut owners = pod.owner_references().iter();
        owners.any(|owner| Some(&owner.uid) == uid.as_ref())
    });
    pods.max_by_key(|pod| pod.creation_timestamp())
}
