//! What was built, what may run, and what is kept.

use famulus_crds::plugin::{Offered, Reason, State};
use kube::ResourceExt;

use super::super::plan::{self, Build, Volume};
use super::super::pod_status::{self, Progress};
use super::super::record::Revision;
use super::{ReasonMessage, View, what};

/// Letters of what an init script said, so that the end stands in the message whatever else does.
const MOST_SAID: usize = 900;

impl View<'_> {
    pub(super) fn built(&self) -> ReasonMessage {
        let waits = plan::waits(self.valid);
        let serves = match &self.plan.record.serving {
            Some(serving) if !waits => format!("; {} goes on serving", what(serving)),
            Some(_) | None => String::new(),
        };
        match &self.plan.build {
            Build::Settled if waits => (Reason::Offered, self.offer_in_words()),
            Build::Settled => match &self.plan.record.serving {
                Some(serving) => {
                    let said = match serving.init_output.trim() {
                        "" => String::new(),
                        said => format!("; its init script said: {}", end_of(said)),
                    };
                    (Reason::RevisionBuilt, format!("{} serves{said}", what(serving)))
                }
                None => (Reason::Building, "the build begins in a moment".to_owned()),
            },
            Build::Held if self.plan.empties => (Reason::Building, self.emptied()),
            Build::Held => {
                (Reason::Building, format!("the build waits until spec.suspend is false{serves}"))
            }
            Build::Going(progress) => {
                let why = match progress {
                    Progress::Unschedulable(message) => format!("no node takes its Pod: {message}"),
                    Progress::Stuck => "its Pod does not start".to_owned(),
                    Progress::Unstartable(message) => message.clone(),
                    Progress::Working
                    | Progress::Bundled(_)
                    | Progress::Done(_)
                    | Progress::Failed { .. } => "a build runs".to_owned(),
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

    fn offer_in_words(&self) -> String {
        match self.newest() {
            Some(newest) => format!(
                "{} waits; where it may run, say `famulus plugin permit {}`, or set spec.revision to {}",
                what(newest),
                self.valid.name,
                newest.digest
            ),
            None => "the source is looked at in a moment".to_owned(),
        }
    }

    fn newest(&self) -> Option<&Revision> {
        let key = plan::source_key(self.valid);
        let newest = self.plan.record.newest.as_ref().filter(|it| it.key == key.as_str());
        newest.map(|newest| &newest.revision)
    }

    /// What the source gave, where that waits for the owner.
    pub(super) fn offered(&self) -> Option<Offered> {
        if !self.valid.is_manual {
            return None;
        }
        let look = plan::source_key(self.valid).as_str().to_owned();
        let newest = self.newest();
        let failed = self.plan.record.unfetched.as_ref();
        let failed = failed.filter(|failed| newest.is_none() && failed.key == look);
        Some(Offered {
            revision: newest.map(|newest| newest.digest.clone()),
            commit: newest.and_then(|newest| newest.commit.clone()),
            reason: failed.map(|failed| failed.reason.clone()),
            message: failed.map(|failed| failed.message.clone()),
            look,
        })
    }

    pub(super) fn permitted(&self) -> ReasonMessage {
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

    /// A Pod whose node is away holds its volume until the node is back, or somebody deletes the Pod.
    fn emptied(&self) -> String {
        let pods = self.observed.pods.iter().filter(|pod| pod_status::holds_claim(pod));
        let pods: Vec<_> = pods.map(|pod| pod.name_any()).collect();
        let until = match &*pods {
            [] => "it is gone".to_owned(),
            pods => format!("these Pods are gone, which hold it: {}", pods.join(", ")),
        };
        format!("its volume is being deleted, and an empty one comes; it waits until {until}")
    }

    pub(super) fn kept(&self) -> ReasonMessage {
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
        if self.plan.empties {
            return (Reason::VolumePending, self.emptied());
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
}

fn end_of(said: &str) -> String {
    let more = said.chars().count().saturating_sub(MOST_SAID);
    let end: String = said.chars().skip(more).collect();
    if more > 0 { format!("…{end}") } else { end }
}
