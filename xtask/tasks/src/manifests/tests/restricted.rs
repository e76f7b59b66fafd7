//! Every Pod fits Pod Security `restricted`, and a little more: a root that cannot be written, an id
//! for the user and the group, limits, and no token of the API server unless it is used.

use serde_json::{Value, json};

use super::{CASES, called, containers, kind, list, objects, pod, text};

/// Volumes that `restricted` allows and that we have a use for.
const VOLUMES: [&str; 4] = ["configMap", "emptyDir", "secret", "persistentVolumeClaim"];

/// Whose Pods speak to the API server.
const WITH_TOKEN: [&str; 7] = [
    "home",
    "home-operator",
    "home-bootstrap",
    "home-retire",
    "home-backup",
    "home-backup-verify",
    "home-restore-secrets",
];

/// The Job of a restore does as well, and is called by what it is made of.
fn has_token(name: &str) -> bool {
    let hash = name.strip_prefix("home-restore-").unwrap_or_default();
    let is_hash = hash.len() == 8 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash || WITH_TOKEN.contains(&name)
}

#[test]
fn every_pod_is_restricted() {
    for case in &CASES {
        let objects = objects(case);
        let pods: Vec<(&Value, &Value)> =
            objects.iter().filter_map(|object| Some((object, pod(object)?))).collect();
        assert!(pods.len() >= 4, "{}", case.name);
        for (object, pod) in pods {
            let complaints = complaints(super::name(object), pod);
            assert_eq!(complaints, Vec::<String>::new(), "{}", called(case, object));
        }
    }
}

fn complaints(name: &str, pod: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut hold = |holds: bool, what: &str| {
        if !holds {
            complaints.push(what.to_owned());
        }
    };
    let security = pod.get("securityContext").cloned().unwrap_or_default();
    hold(security["runAsNonRoot"] == true, "runAsNonRoot");
    for id in ["runAsUser", "runAsGroup", "fsGroup"] {
        hold(security[id].as_u64().is_some_and(|id| id > 0), id);
    }
    hold(security["seccompProfile"]["type"] == "RuntimeDefault", "seccompProfile");
    for host in ["hostNetwork", "hostPID", "hostIPC"] {
        hold(pod.get(host).is_none(), host);
    }
    hold(pod["automountServiceAccountToken"] == has_token(name), "token");
    for volume in list(pod, "/volumes") {
        let kinds = volume.as_object().into_iter().flat_map(|volume| volume.keys());
        let known = |kind: &&String| *kind == "name" || VOLUMES.contains(&kind.as_str());
        hold(kinds.filter(known).count() == 2, text(volume, "/name"));
        if let Some(scratch) = volume.get("emptyDir") {
            hold(scratch.get("sizeLimit").is_some(), "a scratch volume without a size");
        }
    }
    for container in containers(pod) {
        let security = &container["securityContext"];
        hold(security["allowPrivilegeEscalation"] == false, "allowPrivilegeEscalation");
        hold(security["readOnlyRootFilesystem"] == true, "readOnlyRootFilesystem");
        hold(security["capabilities"] == json!({"drop": ["ALL"]}), "capabilities");
        hold(container.pointer("/resources/limits/memory").is_some(), "a memory limit");
        hold(container.pointer("/resources/requests/memory").is_some(), "a memory request");
        hold(!text(container, "/image").ends_with(":latest"), "latest");
    }
    complaints
}

#[test]
fn both_namespaces_are_labelled() {
    let objects = objects(&CASES[0]);
    let sandbox = super::one(&objects, "Namespace", "assistant-sandbox");
    for mode in ["enforce", "audit", "warn"] {
        let label = format!("pod-security.kubernetes.io/{mode}");
        assert_eq!(sandbox["metadata"]["labels"][&label], "restricted");
    }
    // The release's own namespace belongs to nobody's manifest: the bootstrap labels it.
    let roles = objects.iter().filter(|object| kind(object) == "Role");
    let may_label = roles
        .flat_map(|role| list(role, "/rules"))
        .filter(|rule| rule["resources"] == json!(["namespaces"]))
        .collect::<Vec<_>>();
    assert_eq!(may_label.len(), 1);
    assert_eq!(may_label[0]["resourceNames"], json!(["assistant"]));
    assert_eq!(may_label[0]["verbs"], json!(["patch"]));
}
