//! What a node says when it refuses a Pod its user namespace.
//!
//! A node says it in words alone: the kubelet in an event about the Pod's sandbox, whose reason
//! (`FailedCreatePodSandBox`) it gives for a network that fails, too; the runtime in the state of a
//! container that it could not start. That nothing starts proves nothing: an image may be on its way.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Event, Pod};

use super::pod_status;

/// Words that all stand in one message. They are compared without regard to case, and each has what
/// no name of an object can have (a space, a quote, a bracket or an underscore), so that a Plugin's
/// name in a message about something else is not taken for one of them.
const WORDS: [&[&str]; 10] = [
    // kubelet, pkg/kubelet/userns: `RuntimeClass handler "runsc" does not support user namespaces`
    // (1.30); "can't set `spec.hostUsers: false`, runtime does not support user namespaces" (1.34).
    &["not support user namespaces"],
    // kubelet, pkg/kubelet/userns: `the feature gate "UserNamespacesSupport" is disabled: can't set
    // spec.HostUsers`.
    &["\"usernamespacessupport\" is disabled"],
    // containerd, pkg/sys: `failed to create network namespace for sandbox "…": failed to start noop
    // process for unshare: fork/exec /proc/self/exe: no space left on device`, where the kernel allows
    // none (user.max_user_namespaces); `operation not permitted` where it does not let the runtime.
    &["noop process for unshare", "no space left on device"],
    &["noop process for unshare", "operation not permitted"],
    // runc, libcontainer: `failed to set MOUNT_ATTR_IDMAP on /var/lib/kubelet/…: invalid argument
    // (maybe the filesystem used doesn't support idmap mounts on this kernel?)`. containerd 2:
    // `snapshotter "overlayfs" doesn't support idmap mounts on this host`.
    &["mount_attr_idmap"],
    &["support idmap mounts"],
    // crun: "mount_setattr `/state`: Invalid argument". runc 1.1: `failed to use mount_setattr(2),
    // maybe the filesystem doesn't supports ID-mapped mounts`.
    &["mount_setattr", "invalid argument"],
    &["id-mapped mounts"],
    // containerd 1.7: `failed to create idmapped mount: Unable to shift GID/UID for …`. CRI-O: `create
    // mapped mount for "/var/lib/containers/storage/overlay" on "…": invalid argument`.
    &["mapped mount"],
    // runc, libcontainer/configs/validate.
    &["user namespaces aren't enabled in the kernel"],
];

/// Reasons of a container's state whose message is the runtime's. Behind others stands what the
/// container itself left.
const OF_RUNTIME: [&str; 4] =
    ["CreateContainerError", "RunContainerError", "StartError", "ContainerCannotRun"];

/// The longest message that is kept.
const LONGEST: usize = 300;

/// Whether a Pod was made to get a user namespace.
pub fn asks(pod: &Pod) -> bool {
    pod.spec.as_ref().is_some_and(|spec| spec.host_users == Some(false))
}

/// What the node said, if it refused this Pod a user namespace. `events` are those of the Pod.
pub fn of(pod: &Pod, events: &[Arc<Event>]) -> Option<String> {
    if !asks(pod) || pod_status::is_ready(pod) {
        return None;
    }
    let status = pod.status.as_ref();
    let first = status.and_then(|status| status.init_container_statuses.as_ref());
    let then = status.and_then(|status| status.container_statuses.as_ref());
    let containers = first.into_iter().chain(then).flatten().flat_map(of_runtime);
    // An event outlives what it tells of: what has begun has a sandbox.
    let begun = pod_status::has_begun(pod);
    let sandbox = events.iter().filter(|event| !begun && is_of_kubelet(event));
    let mut said = sandbox.filter_map(|event| event.message.as_deref()).chain(containers);
    said.find(|message| refuses(message)).map(short)
}

fn is_of_kubelet(event: &Event) -> bool {
    let source = event.source.as_ref().and_then(|source| source.component.as_deref());
    source.or(event.reporting_component.as_deref()) == Some("kubelet")
}

fn of_runtime(status: &ContainerStatus) -> Vec<&str> {
    let states = [status.state.as_ref(), status.last_state.as_ref()].into_iter().flatten();
    let said = states.flat_map(|state| {
        let waits = state.waiting.as_ref().map(|it| (it.reason.as_deref(), it.message.as_deref()));
        let ended =
            state.terminated.as_ref().map(|it| (it.reason.as_deref(), it.message.as_deref()));
        [waits, ended].into_iter().flatten()
    });
    said.filter(|(reason, _)| reason.is_some_and(|reason| OF_RUNTIME.contains(&reason)))
        .filter_map(|(_, message)| message)
        .collect()
}

fn refuses(message: &str) -> bool {
    let message = message.to_lowercase();
    WORDS.iter().any(|words| words.iter().all(|word| message.contains(word)))
}

/// The end, which names the cause.
fn short(message: &str) -> String {
    let message = message.trim();
    let from = message.ceil_char_boundary(message.len().saturating_sub(LONGEST));
    message[from..].to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        let spec = json!({"hostUsers": false, "containers": []});
        serde_json::from_value(json!({"spec": spec, "status": status})).unwrap()
    }

    fn event(component: &str, message: &str) -> Arc<Event> {
        let event = json!({
            "metadata": {}, "involvedObject": {}, "reason": "FailedCreatePodSandBox",
            "source": {"component": component}, "message": message,
        });
        Arc::new(serde_json::from_value(event).unwrap())
    }

    #[test]
    fn a_refusal_is_told_by_what_runtimes_say_and_nothing_else_is_one() {
        let refusals = [
            "Failed to create pod sandbox: can't set `spec.hostUsers: false`, runtime does not support user namespaces",
            r#"Failed to create pod sandbox: can't set `spec.hostUsers: false`, RuntimeClass handler "kata" does not support user namespaces: the handler "kata" is not known"#,
            r#"Failed to create pod sandbox: the feature gate "UserNamespacesSupport" is disabled: can't set spec.HostUsers"#,
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create network namespace for sandbox "0752": failed to start noop process for unshare: fork/exec /proc/self/exe: no space left on device"#,
            "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: failed to fulfil mount request: failed to set MOUNT_ATTR_IDMAP on /var/lib/kubelet/pods/f037/volumes/kubernetes.io~nfs/state: invalid argument (maybe the filesystem used doesn't support idmap mounts on this kernel?): unknown",
            r#"failed to create containerd container: snapshotter "overlayfs" doesn't support idmap mounts on this host, configure `slow_chown` to allow a slower and expensive fallback"#,
            "failed to create containerd task: failed to create shim task: failed to mount rootfs component: failed to create idmapped mount: Unable to shift GID/UID for /run/1: function not implemented: unknown",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to mount container k8s_POD_x in pod sandbox k8s_x: create mapped mount for "/var/lib/containers/storage/overlay" on "/var/lib/containers/storage/overlay/3f/mapped/0": invalid argument"#,
            "crun: mount_setattr `/state`: Invalid argument: OCI runtime error",
        ];
        for message in refusals {
            let said = of(&pod(&json!({})), &[event("kubelet", message)]);
            assert!(said.is_some_and(|said| message.ends_with(&said)), "{message}");
        }
        let others = [
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "7f": plugin type="bridge" failed (add): failed to allocate for range 0: no IP addresses available"#,
            // A Plugin may be called as it likes.
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to setup network for sandbox "k8s_userns-idmap-mounts-hostusers-runner_famulus-sandbox": no such network"#,
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "kata" is configured"#,
            "Failed to create pod sandbox: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
            r#"Failed to create pod sandbox: rpc error: code = Unknown desc = failed to create network namespace for sandbox "0752": failed to start noop process for unshare: fork/exec /proc/self/exe: resource temporarily unavailable"#,
            r#"Failed to create pod sandbox: failed to pull image "registry.k8s.io/pause:3.10": 429 Too Many Requests"#,
        ];
        for message in others {
            assert_eq!(of(&pod(&json!({})), &[event("kubelet", message)]), None, "{message}");
        }
        assert_eq!(of(&pod(&json!({})), &[event("somebody", refusals[0])]), None);
        let runs = json!({"containerStatuses": [{
            "name": "runner", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
            "state": {"running": {}},
        }]});
        assert_eq!(of(&pod(&runs), &[event("kubelet", refusals[0])]), None, "it was mended");
    }

    #[test]
    fn of_a_container_the_runtimes_words_count_and_not_its_own() {
        let said = "failed to set MOUNT_ATTR_IDMAP on /state: invalid argument";
        let status = |state: Value| {
            json!({"containerStatuses": [{
                "name": "runner", "image": "i", "imageID": "i", "ready": false, "restartCount": 0,
                "state": state,
            }]})
        };
        let check = |state: Value, counts: bool| {
            assert_eq!(of(&pod(&status(state.clone())), &[]).is_some(), counts, "{state}");
        };
        check(json!({"waiting": {"reason": "RunContainerError", "message": said}}), true);
        let ended = |reason: &str| json!({"terminated": {"exitCode": 128, "reason": reason, "message": said}});
        check(ended("StartError"), true);
        // What a program of the container left as its last words.
        check(ended("Error"), false);
        check(json!({"waiting": {"reason": "ImagePullBackOff", "message": said}}), false);
        // A Pod that asked for none was refused none.
        let mut bare = pod(&status(ended("StartError")));
        bare.spec.as_mut().unwrap().host_users = None;
        assert_eq!(of(&bare, &[]), None);
    }
}
