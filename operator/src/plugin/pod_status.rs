//! What Pods say about themselves.
//!
//! The operator has no way to a Pod over the network. What it learns stands in the status of the
//! Pod: the reports of containers that ended, and what the kubelet and the scheduler say.

use famulus_protocol::revision::{Built, Bundled, Probed};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition};
use serde::de::DeserializeOwned;

use super::build::containers;
use super::record::Revision;

/// How long a Pod on a node may take until its first container starts. A volume that is attached
/// takes up to a minute on some clouds.
const START_WITH_CLAIM: SignedDuration = SignedDuration::from_secs(75);
const START: SignedDuration = SignedDuration::from_secs(20);

/// How long a runner that runs may look at its network and test itself until it takes calls; without
/// a volume it also fetches packages and runs the init script, which may take 5 min each.
const SERVE: SignedDuration = SignedDuration::from_secs(60);
const SERVE_AND_BUILD: SignedDuration = SignedDuration::from_secs(660);

/// How far the Pod of a build has come.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress {
    Working,
    /// The scheduler found no node, and says why.
    Unschedulable(String),
    /// It is on a node, and nothing of it starts.
    Stuck,
    /// Its image cannot be had, or a container of it cannot be made: what the kubelet says.
    Unstartable(String),
    /// There is a bundle, and this Pod does no more.
    Bundled(Revision),
    Done(Revision),
    Failed {
        reason: String,
        message: String,
        /// The revision whose bundle the app has, if it came that far.
        bundled: Option<Revision>,
    },
}

/// What the probe of a Pod found; or the runner, which looks again and ends when it must not run.
pub fn probed(pod: &Pod) -> Option<Probed> {
    let again = (!is_ready(pod)).then(|| report(pod, containers::RUNNER)).flatten();
    again.or_else(|| report(pod, containers::PROBE))
}

/// How far a build has come.
pub fn progress(pod: &Pod, now: Timestamp) -> Progress {
    let bundled: Option<Bundled> = report(pod, containers::BUNDLE);
    let built: Option<Built> = report(pod, containers::BUILD);
    match (bundled, built) {
        (Some(Bundled::Failed(failure)), _) | (None, Some(Built::Failed(failure))) => {
            let (reason, message) = (failure.reason, failure.message);
            Progress::Failed { reason, message, bundled: None }
        }
        (Some(bundled @ Bundled::Done { .. }), Some(Built::Failed(failure))) => {
            let (reason, message) = (failure.reason, failure.message);
            let bundled = Revision::reported(bundled, String::new());
            Progress::Failed { reason, message, bundled }
        }
        (Some(bundled @ Bundled::Done { .. }), Some(Built::Done { init_output, .. })) => {
            // A report of success is a revision.
            Revision::reported(bundled, init_output).map_or(Progress::Working, Progress::Done)
        }
        (bundled, None) => {
            let bundled = bundled.and_then(|it| Revision::reported(it, String::new()));
            match bundled {
                Some(revision) if !builds(pod) => Progress::Bundled(revision),
                bundled => unreported(pod, now, bundled),
            }
        }
        (None, Some(Built::Done { .. })) => unreported(pod, now, None),
    }
}

/// Whether code of the plugin is to run in it.
fn builds(pod: &Pod) -> bool {
    let mut containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers.any(|container| container.name == containers::BUILD)
}

fn unreported(pod: &Pod, now: Timestamp, bundled: Option<Revision>) -> Progress {
    if has_ended(pod) {
        let message = last_words(pod);
        return Progress::Failed { reason: "BuildFailed".to_owned(), message, bundled };
    }
    start(pod, now).map_or(Progress::Working, |trouble| match trouble {
        Trouble::Unschedulable(message) => Progress::Unschedulable(message),
        Trouble::Stuck => Progress::Stuck,
        Trouble::Unstartable(message) | Trouble::Failing(message) => Progress::Unstartable(message),
    })
}

/// A Job that has no Pod: it was refused, or the Pod was lost.
pub fn without_pod(job: &Job, now: Timestamp) -> Progress {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let failed =
        conditions.into_iter().flatten().find(|it| it.type_ == "Failed" && it.status == "True");
    if let Some(failed) = failed {
        let message = failed.message.as_deref().unwrap_or_default();
        let message = format!("the build ended without a report: {message}; it is tried again");
        return Progress::Failed { reason: "BuildFailed".to_owned(), message, bundled: None };
    }
    let since = job.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    if now.duration_since(since) < START {
        return Progress::Working;
    }
    Progress::Unstartable(format!(
        "the Job {} gets no Pod; see kubectl describe job of it for who refuses",
        job.metadata.name.as_deref().unwrap_or_default()
    ))
}

/// Why a Deployment gets no Pods: a quota, an admission, a RuntimeClass that does not exist.
pub fn refused(runner: &Deployment) -> Option<Trouble> {
    let conditions = runner.status.as_ref()?.conditions.as_ref()?;
    let failure = conditions.iter().find(|it| {
        it.type_.as_deref() == Some("ReplicaFailure") && it.status.as_deref() == Some("True")
    })?;
    Some(Trouble::Unstartable(failure.message.clone().unwrap_or_default()))
}

/// What keeps a Pod from its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    Unschedulable(String),
    Stuck,
    /// The kubelet cannot make or start a container.
    Unstartable(String),
    /// A container ended again and again.
    Failing(String),
}

/// What keeps this Pod from its work, if it is waited for already.
pub fn start(pod: &Pod, now: Timestamp) -> Option<Trouble> {
    if is_ready(pod) {
        return None;
    }
    let scheduled = condition(pod, "PodScheduled");
    if let Some(scheduled) = scheduled
        && scheduled.status == "False"
        && scheduled.reason.as_deref() == Some("Unschedulable")
    {
        return Some(Trouble::Unschedulable(scheduled.message.clone().unwrap_or_default()));
    }
    if let Some(trouble) = statuses(pod).find_map(waits) {
        return Some(trouble);
    }
    let since = scheduled.filter(|it| it.status == "True")?.last_transition_time.as_ref()?.0;
    let patience = if has_claim(pod) { START_WITH_CLAIM } else { START };
    (!has_begun(pod) && now.duration_since(since) > patience).then_some(Trouble::Stuck)
}

/// Whether a container of it runs or ran, or could.
pub fn has_begun(pod: &Pod) -> bool {
    statuses(pod).any(|status| {
        let state = status.state.as_ref();
        state.is_some_and(|state| state.running.is_some() || state.terminated.is_some())
            || status.restart_count > 0
            || !status.image_id.is_empty()
    })
}

/// What is to be said of a runner whose container runs and takes no calls.
pub fn serve(pod: &Pod, now: Timestamp) -> Option<Trouble> {
    let container = pod.status.as_ref()?.container_statuses.as_ref()?.first()?;
    let began = container.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0;
    let patience = if has_claim(pod) { SERVE } else { SERVE_AND_BUILD };
    (!is_ready(pod) && now.duration_since(began) > patience).then(|| {
        let pod = pod.metadata.name.as_deref().unwrap_or_default();
        Trouble::Failing(format!(
            "its runner runs and takes no calls; see kubectl logs of the Pod {pod} for what it misses"
        ))
    })
}

/// Whether a Pod takes calls.
pub fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

fn waits(status: &ContainerStatus) -> Option<Trouble> {
    let waiting = status.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    let said = waiting.message.as_deref().unwrap_or_default();
    match reason {
        "CrashLoopBackOff" => {
            let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
            let left = last.and_then(|last| serde_json::from_str(last.message.as_deref()?).ok());
            if let Some(Built::Failed(failure)) = left {
                return Some(Trouble::Failing(failure.message));
            }
            let code = last.map_or(0, |last| last.exit_code);
            let why = last.and_then(|last| last.reason.clone()).unwrap_or_default();
            Some(Trouble::Failing(format!(
                "its container {} ended {} times, last with status {code} ({why}); see kubectl \
                 logs of the Pod",
                status.name, status.restart_count
            )))
        }
        "ErrImagePull"
        | "ImagePullBackOff"
        | "InvalidImageName"
        | "ErrImageNeverPull"
        | "CreateContainerConfigError"
        | "CreateContainerError"
        | "RunContainerError" => Some(Trouble::Unstartable(format!(
            "its container {} does not start ({reason}): {said}",
            status.name
        ))),
        _ => None,
    }
}

/// Whether it mounts a volume claim.
pub fn has_claim(pod: &Pod) -> bool {
    let volumes = pod.spec.as_ref().and_then(|spec| spec.volumes.as_ref());
    volumes.into_iter().flatten().any(|volume| volume.persistent_volume_claim.is_some())
}

/// Whether a claim that it mounts cannot go before it.
pub fn holds_claim(pod: &Pod) -> bool {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    node.is_some() && has_claim(pod)
}

/// Whether it will never run again, as one that was evicted.
pub fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

/// Why a Pod that reported nothing ended.
fn last_words(pod: &Pod) -> String {
    let status = pod.status.as_ref();
    let ended = statuses(pod).filter_map(|status| {
        let end = status.state.as_ref()?.terminated.as_ref()?;
        (end.exit_code != 0).then(|| {
            let why = end.reason.as_deref().unwrap_or("Error");
            format!("its container {} ended with status {} ({why})", status.name, end.exit_code)
        })
    });
    let pods = status.and_then(|status| {
        let why = status.reason.as_deref()?;
        Some(format!("{why}: {}", status.message.as_deref().unwrap_or_default()))
    });
    let said: Vec<String> = ended.chain(pods).collect();
    if said.is_empty() {
        return "the build ended without a report; it is tried again".to_owned();
    }
    format!("the build ended without a report: {}; it is tried again", said.join("; "))
}

/// What a container left as its last words, as far as they can be read.
fn report<T: DeserializeOwned>(pod: &Pod, container: &str) -> Option<T> {
    let status = statuses(pod).find(|status| status.name == container)?;
    let ended = [status.state.as_ref(), status.last_state.as_ref()].into_iter().flatten();
    let mut words = ended.filter_map(|state| state.terminated.as_ref()?.message.as_deref());
    words.find_map(|words| serde_json::from_str(words).ok())
}

fn statuses(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let first = status.and_then(|status| status.init_container_statuses.as_ref());
    let then = status.and_then(|status| status.container_statuses.as_ref());
    first.into_iter().flatten().chain(then.into_iter().flatten())
}

fn condition<'a>(pod: &'a Pod, kind: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == kind)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_runner_that_runs_and_takes_no_calls_is_told_of_after_a_while() {
        let pod = |ready: &str, state: serde_json::Value| -> Pod {
            serde_json::from_value(json!({
                "metadata": {"name": "weather-runner-1"},
                "spec": {"containers": [], "volumes": [
                    {"name": "state", "persistentVolumeClaim": {"claimName": "weather-state"}},
                ]},
                "status": {
                    "conditions": [{"type": "Ready", "status": ready}],
                    "containerStatuses": [{
                        "name": "runner", "image": "i", "imageID": "i", "ready": false,
                        "restartCount": 0, "state": state,
                    }],
                },
            }))
            .unwrap()
        };
        let began: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let running = || json!({"running": {"startedAt": began.to_string()}});
        let late = began + SERVE + SignedDuration::from_secs(1);
        assert_eq!(serve(&pod("False", running()), began + SERVE), None);
        assert_eq!(serve(&pod("True", running()), late), None);
        assert_eq!(serve(&pod("False", json!({"waiting": {}})), late), None);
        let told = serve(&pod("False", running()), late);
        assert!(
            matches!(&told, Some(Trouble::Failing(text)) if text.contains("weather-runner-1")),
            "{told:?}"
        );
        // One that makes its tree itself has time for it.
        let mut own = pod("False", running());
        own.spec = None;
        assert_eq!(serve(&own, late), None);
        assert!(serve(&own, began + SERVE_AND_BUILD + SignedDuration::from_secs(1)).is_some());
    }

    #[test]
    fn a_runner_that_could_not_make_its_revision_ready_says_why() {
        let left = r#"{"failed":{"reason":"InitFailed","message":"the init script ended"}}"#;
        let status: ContainerStatus = serde_json::from_value(json!({
            "name": "runner", "image": "i", "imageID": "i", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 0, "message": left}},
        }))
        .unwrap();
        assert_eq!(waits(&status), Some(Trouble::Failing("the init script ended".to_owned())));
    }
}
