//! Who may do what around the sandbox, asked of the API server that runs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::{LONG, fed, kubectl, object, objects, tried, until};
use famulus_cluster_tests::release;
use famulus_cluster_tests::server::{Server, TRY};

/// A Pod that Pod Security lets pass, so that only the lock can refuse it.
fn pod(image: &str) -> Value {
    json!({
        "automountServiceAccountToken": false,
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": "Always",
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 20000,
            "runAsGroup": 20000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{
            "name": "posture",
            "image": image,
            "command": ["sleep", "600"],
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
            },
        }],
    })
}

/// An object of this kind that makes such Pods.
fn maker(kind: &str, image: &str) -> Value {
    let labels = json!({"app": "posture"});
    let template = json!({"metadata": {"labels": labels}, "spec": pod(image)});
    let mut once = template.clone();
    once["spec"]["restartPolicy"] = json!("Never");
    let selector = json!({"matchLabels": labels});
    let (version, key, content) = match kind {
        "Pod" => ("v1", "spec", pod(image)),
        "PodTemplate" => ("v1", "template", template),
        "ReplicationController" => {
            ("v1", "spec", json!({"replicas": 0, "selector": labels, "template": template}))
        }
        "Job" => ("batch/v1", "spec", json!({"template": once})),
        "CronJob" => {
            let job = json!({"spec": {"template": once}});
            ("batch/v1", "spec", json!({"schedule": "0 0 1 1 *", "jobTemplate": job}))
        }
        "StatefulSet" => {
            let spec =
                json!({"serviceName": "posture", "selector": selector, "template": template});
            ("apps/v1", "spec", spec)
        }
        _ => ("apps/v1", "spec", json!({"selector": selector, "template": template})),
    };
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "posture", "labels": labels},
        key: content,
    })
}

const MAKERS: [&str; 9] = [
    "Pod",
    "PodTemplate",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
];

/// The two namespaces of the release, and the image of its runners.
async fn places() -> (String, String, String) {
    let name = release::name();
    let sandbox = format!("{name}-sandbox");
    let operator = object(&name, "deployment", &format!("{name}-operator")).await.unwrap();
    let variables = operator["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let mut variables = variables.as_array().unwrap().iter();
    let image = variables.find(|one| one["name"] == "FAMULUS_OPERATOR_RUNNER_IMAGE").unwrap();
    (name, sandbox, image["value"].as_str().unwrap().to_owned())
}

/// What comes of applying this as the owner, without keeping it.
async fn would_apply(namespace: &str, object: &Value) -> Result<(), String> {
    let args = ["-n", namespace, "apply", "--server-side", "--dry-run=server"];
    fed(&args, &object.to_string()).await.map(drop)
}

/// What comes of creating this in somebody's name, without keeping it. Applying would take the right
/// to patch, which controllers lack.
async fn would_create(namespace: &str, user: &str, object: &Value) -> Result<(), String> {
    let user = format!("--as={user}");
    let args = ["-n", namespace, "create", "--dry-run=server", &user];
    fed(&args, &object.to_string()).await.map(drop)
}

#[tokio::test]
async fn nobody_makes_pods_in_the_sandbox_but_the_operator_and_what_stands_behind_it() {
    let (system, sandbox, image) = places().await;
    for kind in MAKERS {
        let refused = would_apply(&sandbox, &maker(kind, &image)).await;
        let complaint = refused.expect_err(kind);
        assert!(complaint.contains("sandbox-lock"), "{kind}: {complaint}");
        assert!(complaint.contains("Change the Plugin instead"), "{kind}: {complaint}");
        // The lock is the sandbox's: the release's own namespace has its rules by rights alone.
        would_apply(&system, &maker(kind, &image)).await.expect(kind);
    }
    let table = [
        (format!("system:serviceaccount:{system}:{system}-operator"), "Deployment"),
        (format!("system:serviceaccount:{system}:{system}-operator"), "Job"),
        ("system:serviceaccount:kube-system:replicaset-controller".to_owned(), "Pod"),
        ("system:serviceaccount:kube-system:job-controller".to_owned(), "Pod"),
        ("system:serviceaccount:kube-system:deployment-controller".to_owned(), "ReplicaSet"),
    ];
    for (user, kind) in table {
        let made = would_create(&sandbox, &user, &maker(kind, &image)).await;
        made.unwrap_or_else(|complaint| panic!("{user} {kind}: {complaint}"));
    }
    for account in ["app", "operator", "backup"] {
        let user = format!("system:serviceaccount:{system}:{system}-{account}");
        let refused = would_create(&sandbox, &user, &maker("Pod", &image)).await;
        refused.expect_err(account);
    }
}

#[tokio::test]
async fn a_pod_of_the_sandbox_is_not_changed_by_its_owner() {
    let (system, sandbox, image) = places().await;
    let operator = format!("--as=system:serviceaccount:{system}:{system}-operator");
    let mut made = maker("Deployment", &image);
    made["metadata"]["name"] = "posture-runs".into();
    let args = ["-n", &sandbox, "apply", "--server-side", &operator];
    fed(&args, &made.to_string()).await.unwrap();
    let pod = until("a Pod runs", LONG, async || {
        let pods = objects(&sandbox, "pods", "app=posture").await;
        let running = pods.iter().find(|pod| pod["status"]["phase"] == "Running");
        let running = running.ok_or_else(|| format!("{} Pods", pods.len()))?;
        Ok(running["metadata"]["name"].as_str().unwrap().to_owned())
    })
    .await;
    let status = ["patch", "pod", &pod, "--subresource=status", "--type=merge", "-p"];
    let by_status = |patch| [&status[..], &[patch]].concat();
    let relabelled = by_status(r#"{"metadata":{"labels":{"famulus.dev/callback":"allowed"}}}"#);
    // Both: where they differ, the API server takes the second from the first.
    let moved = by_status(r#"{"status":{"podIP":"192.0.2.1","podIPs":[{"ip":"192.0.2.1"}]}}"#);
    let attempts: [&[&str]; 6] = [
        &relabelled,
        &moved,
        &["label", "pod", &pod, "famulus.dev/callback=allowed"],
        &["debug", &pod, "--profile=restricted", "--image=localhost/famulus/any:1", "--", "true"],
        &["label", "deployment", "posture-runs", "famulus.dev/callback=allowed"],
        &["set", "image", "deployment/posture-runs", "posture=localhost/famulus/any:1"],
    ];
    let mut outcomes = String::new();
    for attempt in attempts {
        let mut args = vec!["-n", &sandbox];
        args.extend(attempt);
        let complaint = tried(&args).await.err().unwrap_or_default();
        if !complaint.contains("sandbox-lock") {
            let _ = writeln!(outcomes, "{attempt:?}: {complaint:?}");
        }
    }
    // As a network does that notes an address.
    let noted =
        by_status(r#"{"metadata":{"annotations":{"network.example/address":"192.0.2.1"}}}"#);
    let mut args = vec!["-n", &sandbox];
    args.extend(noted);
    let noted = tried(&args).await;
    let held_up = held_up(&sandbox, &pod).await;
    kubectl(&["-n", &sandbox, "delete", "deployment", "posture-runs"]).await;
    noted.expect("an annotation may be written by the status");
    assert_eq!(held_up, Vec::<String>::new(), "these tell what becomes of a Pod");
    assert_eq!(outcomes, "", "these were not refused by the lock");
}

/// Those parts of the cluster that tell what becomes of Pods, and may not. What each tells here is more than
/// anybody else may: a condition, and an address, which is what a kubelet tells.
async fn held_up(sandbox: &str, pod: &str) -> Vec<String> {
    /// The one of them that has rights of its own only on some clusters.
    const SEPARATE: &str = "taint-eviction-controller";
    let of_pod = object(sandbox, "pod", pod).await.unwrap();
    let kubelet = format!("system:node:{}", of_pod["spec"]["nodeName"].as_str().unwrap());
    let names = ["pod-garbage-collector", "node-controller", "disruption-controller", SEPARATE];
    let mut tellers =
        names.map(|name| format!("system:serviceaccount:kube-system:{name}")).to_vec();
    tellers.extend(["system:kube-scheduler".to_owned(), kubelet]);
    let told = json!({"status": {
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "Posture"}],
        "podIP": "192.0.2.1", "podIPs": [{"ip": "192.0.2.1"}],
    }});
    let server = Server::open().await;
    let path = format!("/api/v1/namespaces/{sandbox}/pods/{pod}/status?{TRY}");
    let mut held_up = Vec::new();
    for teller in tellers {
        let mut who = vec![("impersonate-user", teller.as_str())];
        if teller.starts_with("system:node:") {
            who.push(("impersonate-group", "system:nodes"));
        }
        let Err(refusal) = server.ask_as(&who, Method::PATCH, &path, Some(&told)).await else {
            continue;
        };
        let has_no_right = refusal["message"].as_str().unwrap().contains("cannot patch resource");
        if !(teller.ends_with(SEPARATE) && has_no_right) {
            held_up.push(format!("{teller}: {refusal}"));
        }
    }
    held_up
}

#[tokio::test]
async fn both_namespaces_refuse_a_pod_that_is_not_restricted() {
    let (system, sandbox, image) = places().await;
    let mut open = maker("Pod", &image);
    open["spec"]["containers"][0]["securityContext"] = json!({"allowPrivilegeEscalation": true});
    for namespace in [&system, &sandbox] {
        let refused = would_apply(namespace, &open).await;
        let complaint = refused.expect_err(namespace);
        assert!(complaint.contains("violates PodSecurity \"restricted"), "{complaint}");
    }
}

/// Account, place (R: the release's namespace, S: the sandbox), and what it may do there.
const RIGHTS: [(&str, char, &[&str]); 6] = [
    ("app", 'R', &[]),
    (
        "app",
        'S',
        &[
            "plugins.famulus.dev [] [create delete get list patch watch]",
            "plugins.famulus.dev/scale [] [patch]",
            "pods [] [list watch]",
            "pods/log [] [get]",
            "secrets [] [create]",
        ],
    ),
    (
        "operator",
        'R',
        &[
            "leases.coordination.k8s.io [RELEASE-operator] [get update]",
            "leases.coordination.k8s.io [] [create]",
        ],
    ),
    (
        "operator",
        'S',
        &[
            "deployments.apps [] [list watch create patch]",
            "events [] [list watch]",
            "events.events.k8s.io [] [create patch]",
            "jobs.batch [] [list watch create patch delete]",
            "persistentvolumeclaims [] [list watch create patch]",
            "plugins.famulus.dev [] [list watch]",
            "plugins.famulus.dev/finalizers [] [update]",
            "plugins.famulus.dev/status [] [patch]",
            "pods [] [list watch patch delete]",
            "secrets [] [get create patch delete]",
            "serviceaccounts [] [list watch create patch]",
        ],
    ),
    ("backup", 'R', &[]),
    (
        "backup",
        'S',
        &[
            "plugins.famulus.dev [] [list]",
            "plugins.famulus.dev/scale [] [patch]",
            "pods [] [list]",
        ],
    ),
];

#[tokio::test]
async fn the_accounts_of_the_release_may_do_this_and_no_more() {
    let (system, sandbox, _) = places().await;
    for (account, place, rights) in RIGHTS {
        let namespace = if place == 'R' { &system } else { &sandbox };
        let expected: BTreeSet<String> =
            rights.iter().map(|right| right.replace("RELEASE", &system)).collect();
        let found = rights_of(&format!("{system}-{account}"), &system, namespace).await;
        assert_eq!(found, expected, "{account} in {namespace}");
    }
    // The accounts of Jobs are gone with their Jobs, and so are their rights; anything else has none.
    for account in ["default", "RELEASE-bootstrap", "RELEASE-postgres", "RELEASE-resolver"] {
        let account = account.replace("RELEASE", &system);
        for namespace in [&system, &sandbox] {
            let found = rights_of(&account, &system, namespace).await;
            assert_eq!(found, BTreeSet::new(), "{account} in {namespace}");
        }
    }
    let elsewhere = rights_of(&format!("{system}-operator"), &system, "default").await;
    assert_eq!(elsewhere, BTreeSet::new());
}

/// What an account may do in a namespace, beyond what everybody may ask about themselves.
async fn rights_of(account: &str, system: &str, namespace: &str) -> BTreeSet<String> {
    let user = format!("--as=system:serviceaccount:{system}:{account}");
    let said = kubectl(&["-n", namespace, "auth", "can-i", "--list", "--no-headers", &user]).await;
    let rights = said.lines().filter_map(|line| {
        // Resources, [URLs], [names], [verbs]: the first column may be empty.
        let (resource, rest) = line.split_once('[')?;
        let columns: Vec<&str> = rest.split('[').map(str::trim).collect();
        let [_, names, verbs] = columns[..] else { panic!("{line:?} is unexpected") };
        let resource = resource.trim();
        let of_everybody = resource.is_empty() || resource.starts_with("selfsubject");
        (!of_everybody).then(|| format!("{resource} [{names} [{verbs}"))
    });
    rights.collect()
}
