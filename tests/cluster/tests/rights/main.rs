//! What app, operator and backups did, by the audit log of a node of `cargo xtask cluster`, held against
//! what they may do. It comes last: whatever the other tests had them do is in the log.
//!
//! ```text
//! audit log ─► (account, place, resource, verb) ◄─► Roles
//! ```

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use serde_json::Value;

use famulus_cluster_tests::audit::{ACCOUNTS, Right, read};
use famulus_cluster_tests::kubectl::{LONG, kubectl, object, objects, ready_pod, until};
use famulus_cluster_tests::release::{self, Release, inline};

/// Rights that no test uses, each with its reason.
const UNUSED: [(&str, &str, &str); 1] = [(
    "operator",
    "plugins.famulus.dev/finalizers update",
    "asked for by clusters that guard owner references; the test node does not",
)];

#[tokio::test]
async fn app_operator_and_backups_use_what_they_may_do_and_were_refused_nothing() {
    // What no other test may have asked for.
    let release = Release::open().await;
    let by = "  configSecretRef: {name: logged-config}\n";
    release.apply(&configuration("before")).await;
    for (plugin, more) in [("logged", by), ("idle", "")] {
        release.apply(&inline(plugin, "try", "#!/bin/sh\necho '{}'\n", more)).await;
        release.condition(plugin, "Ready=True").await;
    }
    release.run("logged", "try", &serde_json::json!({})).await;
    tell_the_runner(&release).await;
    lose_the_runner(&release).await;
    let (status, logs) = release.ask(Method::GET, "/v1/plugins/logged/logs", None).await;
    assert_eq!(status, 200, "{logs}");
    let system = release::name();
    back_up(&system).await;
    release.delete(&["logged", "idle"]).await;
    kubectl(&["-n", &release.sandbox, "delete", "secret", "logged-config"]).await;

    let done = read(&system);
    assert!(done.requests > 100, "{} requests are in the log", done.requests);
    assert_eq!(done.refused, BTreeMap::new());

    let granted = granted(&system).await;
    let ungranted: Vec<&Right> = done.used.difference(&granted).collect();
    assert!(ungranted.is_empty(), "done without a Role that says so: {ungranted:?}");
    let unused: Vec<&Right> = granted.difference(&done.used).collect();
    let explained = |(account, _, right): &&Right| {
        UNUSED.iter().any(|(whose, what, _)| whose == account && what == right)
    };
    let (explained, unexplained): (Vec<&Right>, Vec<&Right>) =
        unused.into_iter().partition(explained);
    assert!(unexplained.is_empty(), "granted and never used: {unexplained:?}");
    assert_eq!(explained.len(), UNUSED.len(), "these are used after all: {UNUSED:?}");
}

/// What `logged` is configured by.
fn configuration(value: &str) -> String {
    let labels = serde_json::json!({"famulus.dev/config-for": "logged"});
    let secret = serde_json::json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"value": value},
        "metadata": {"name": "logged-config", "labels": labels},
    });
    secret.to_string()
}

/// Changes what a plugin is configured by while its runner is there, and waits until the operator
/// touched that Pod.
async fn tell_the_runner(release: &Release) {
    release.apply(&configuration("after")).await;
    until("the runner is told of its new configuration", LONG, async || {
        let pods = objects(&release.sandbox, "pods", "famulus.dev/plugin=logged").await;
        let told =
            |pod: &Value| pod["metadata"]["annotations"].get("famulus.dev/rendered").is_some();
        if pods.iter().any(told) { Ok(()) } else { Err(format!("{} Pods", pods.len())) }
    })
    .await;
}

/// Has the runner evicted, and its volume emptied: the operator deletes what is left of that Pod.
async fn lose_the_runner(release: &Release) {
    let pod = ready_pod(&release.sandbox, "famulus.dev/plugin=logged").await;
    let pod = pod["metadata"]["name"].as_str().unwrap();
    release.evict(pod).await;
    release.empty("logged").await;
    assert!(object(&release.sandbox, "pods", pod).await.is_none(), "{pod} holds nothing");
    release.condition("logged", "Ready=True").await;
    release.run("logged", "try", &serde_json::json!({})).await;
}

/// Takes a backup by hand, which no clock may have done meanwhile.
async fn back_up(system: &str) {
    let (from, job) =
        (format!("--from=cronjob/{system}-backup"), format!("{system}-backup-rights"));
    kubectl(&["-n", system, "create", "job", &from, &job]).await;
    let job = format!("job/{job}");
    kubectl(&["-n", system, "wait", "--for=condition=Complete", "--timeout=5m", &job]).await;
    kubectl(&["-n", system, "delete", &job]).await;
}

/// What the Roles of these accounts say.
async fn granted(system: &str) -> BTreeSet<Right> {
    let mut rights = BTreeSet::new();
    for namespace in [system.to_owned(), format!("{system}-sandbox")] {
        let roles = objects(&namespace, "roles", "").await;
        for binding in objects(&namespace, "rolebindings", "").await {
            for account in ACCOUNTS {
                let own = format!("{system}-{account}");
                let subjects = binding["subjects"].as_array().into_iter().flatten();
                if !subjects.into_iter().any(|subject| subject["name"] == own.as_str()) {
                    continue;
                }
                let named = |role: &&Value| role["metadata"]["name"] == binding["roleRef"]["name"];
                let role = roles.iter().find(named).unwrap_or_else(|| panic!("{binding}"));
                for right in role["rules"].as_array().unwrap().iter().flat_map(rights_of) {
                    rights.insert((account, namespace.clone(), right));
                }
            }
        }
    }
    rights
}

/// A rule, verb by verb.
fn rights_of(rule: &Value) -> Vec<String> {
    let list = |key: &str| -> Vec<String> {
        let items = rule[key].as_array().into_iter().flatten();
        items.map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    let mut rights = Vec::new();
    for group in list("apiGroups") {
        for resource in list("resources") {
            let what = match (group.as_str(), resource.split_once('/')) {
                ("", _) => resource,
                (group, Some((resource, part))) => format!("{resource}.{group}/{part}"),
                (group, None) => format!("{resource}.{group}"),
            };
            rights.extend(list("verbs").iter().map(|verb| format!("{what} {verb}")));
        }
    }
    rights
}
