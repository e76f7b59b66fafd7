//! A thousand Plugins that nobody would write, tried on the API server; some of those that it takes are
//! applied, and whatever is made for them is checked by somebody else.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use reqwest::Method;
use serde_json::Value;

use famulus_cluster_tests::kubectl::{LONG, condition, object, objects, until};
use famulus_cluster_tests::release::{self, Release};
use famulus_cluster_tests::server::{Server, TRY, plugins};

use crate::checker::{Bounds, pod, violations};
use crate::generator;

const ALL: u64 = 1_000;
const APPLIED: usize = 12;
/// Requests at once.
const LANES: u64 = 8;

/// The numbers of those that the server takes, in order.
async fn taken(sandbox: &str) -> Vec<u64> {
    let server = Arc::new(Server::open().await);
    let path = format!("{}?{TRY}", plugins(sandbox));
    let lanes = (0..LANES).map(|lane| {
        let (server, path) = (Arc::clone(&server), path.clone());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            for number in (lane..ALL).step_by(LANES.try_into().unwrap()) {
                let plugin = generator::plugin(number);
                match server.ask(Method::POST, &path, Some(&plugin)).await {
                    Ok(object) => {
                        is_plain(&object);
                        taken.push(number);
                    }
                    Err(refusal) => {
                        let code = refusal["code"].as_u64().unwrap();
                        assert!((400..500).contains(&code), "{number}: {refusal}");
                        assert_ne!(refusal["message"], "", "{number}");
                    }
                }
            }
            taken
        })
    });
    let mut taken = Vec::new();
    for lane in lanes.collect::<Vec<_>>() {
        taken.extend(lane.await.unwrap());
    }
    taken.sort_unstable();
    taken
}

/// What was taken has nothing that a shell, a path, a Pod or another namespace would read.
fn is_plain(plugin: &Value) {
    const FIELDS: [&str; 9] = [
        "name",
        "source",
        "revision",
        "configSecretRef",
        "permissions",
        "egress",
        "state",
        "runner",
        "suspend",
    ];
    let spec = &plugin["spec"];
    for field in spec.as_object().unwrap().keys() {
        assert!(FIELDS.contains(&field.as_str()), "{plugin}");
    }
    let name = spec["name"].as_str().unwrap();
    let of_the_guide = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    assert!((1..=63).contains(&name.len()) && name.chars().all(of_the_guide), "{name:?}");
    if let Some(url) = spec["source"]["git"]["url"].as_str() {
        is_plain_address(url);
    }
    for file in spec["source"]["inline"]["files"].as_array().into_iter().flatten() {
        let path = file["path"].as_str().unwrap();
        assert!(!path.starts_with('/') && path.split('/').all(|part| part != ".."), "{path}");
    }
}

/// Nothing that git could run or take for an option, no password, and a user only for ssh.
fn is_plain_address(address: &str) {
    let (scheme, rest) = address.split_once("://").unwrap_or(("ssh", address));
    assert!(["https", "http", "git", "ssh"].contains(&scheme), "{address}");
    let end = if address.contains("://") { '/' } else { ':' };
    let (server, path) = rest.split_once(end).unwrap_or_else(|| panic!("{address}"));
    assert!(!path.is_empty() && (end == '/' || !path.starts_with('-')), "{address}");
    let (user, host) = match server.split_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, server),
    };
    assert!(user.is_none() || scheme == "ssh", "{address}");
    for part in user.into_iter().chain([host]) {
        assert!(!part.is_empty() && !part.starts_with('-'), "{address}");
        assert!(
            !part.contains(|c: char| "@$`'\"\\;".contains(c) || c.is_whitespace()),
            "{address}"
        );
    }
    assert!(!user.is_some_and(|user| user.contains(':')), "{address}");
}

#[tokio::test]
async fn nothing_that_is_made_for_generated_plugins_is_less_than_confined() {
    let release = Release::open().await;
    let taken = taken(&release.sandbox).await;
    assert!((100..900).contains(&taken.len()), "{} of {ALL} are taken", taken.len());

    let server = Server::open().await;
    let mut applied: BTreeMap<String, Value> = BTreeMap::new();
    for number in taken.iter().step_by(taken.len() / APPLIED).take(APPLIED) {
        let plugin = generator::plugin(*number);
        let path = plugins(&release.sandbox);
        let made = server.ask(Method::POST, &path, Some(&plugin)).await.unwrap();
        applied.insert(made["metadata"]["name"].as_str().unwrap().to_owned(), made);
    }
    let images = images().await;
    let found = RefCell::new(Found::default());
    until("a Pod of each generated Plugin, or the reason why there is none", LONG, async || {
        let now = look(&release.sandbox, &images, &applied).await;
        found.borrow_mut().seen.extend(now.seen);
        found.borrow_mut().wrong.extend(now.wrong);
        found.borrow_mut().with_pod.extend(now.with_pod);
        let mut open = Vec::new();
        for plugin in objects(&release.sandbox, "plugins", "").await {
            let name = plugin["metadata"]["name"].as_str().unwrap();
            let has_pod = found.borrow().with_pod.contains(name);
            if applied.contains_key(name) && !has_pod && !is_settled(&plugin) {
                open.push(format!("{name}: {}", plugin["status"]));
            }
        }
        if open.is_empty() { Ok(()) } else { Err(open.join("\n")) }
    })
    .await;
    let Found { seen, wrong, .. } = found.into_inner();
    assert_eq!(wrong, BTreeSet::new(), "of {} objects", seen.len());
    for kind in ["ServiceAccount", "Secret", "Deployment", "Job", "Pod", "PersistentVolumeClaim"] {
        assert!(seen.iter().any(|(of, _)| of == kind), "no {kind} was looked at");
    }
    let names: Vec<&str> = applied.keys().map(String::as_str).collect();
    release.delete(&names).await;
}

/// Built, not built for a reason that is told, or a Pod that waits for what no node has.
fn is_settled(plugin: &Value) -> bool {
    let found = |kind: &str| condition(plugin, kind).cloned().unwrap_or_default();
    let (built, ready) = (found("Built"), found("Ready"));
    const ENDS: [&str; 4] = ["Unschedulable", "SpecInvalid", "NameTaken", "NoRuntimeClass"];
    ["True", "False"].iter().any(|status| built["status"] == *status)
        || ENDS.iter().any(|reason| ready["reason"] == *reason)
        || condition(plugin, "Confined").is_some_and(|it| it["status"] == "False")
}

#[derive(Default)]
struct Found {
    /// Kind and name.
    seen: BTreeSet<(String, String)>,
    wrong: BTreeSet<String>,
    /// Plugins of which a Pod was seen.
    with_pod: BTreeSet<String>,
}

/// Checks everything that belongs to one of the Plugins.
async fn look(sandbox: &str, images: &[String; 3], applied: &BTreeMap<String, Value>) -> Found {
    let mut found = Found::default();
    let mut all = Vec::new();
    // What names others first, so that these are there.
    let pods = objects(sandbox, "pods", "famulus.dev/plugin").await;
    for kind in ["jobs", "deployments", "serviceaccounts", "secrets", "pvc"] {
        all.extend(objects(sandbox, kind, "famulus.dev/plugin").await);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for plugin in applied.values() {
        let of_it = |object: &&Value| {
            object["metadata"]["ownerReferences"][0]["uid"] == plugin["metadata"]["uid"]
        };
        let objects: Vec<&Value> = all.iter().filter(of_it).collect();
        let named = |object: &&Value| (text(&object["kind"]), text(&object["metadata"]["name"]));
        let mut own: Vec<(String, String)> = objects.iter().map(named).collect();
        // The order of a build has its name, and is gone before it.
        let builds = own.iter().filter(|(kind, _)| kind == "Job");
        let orders: Vec<_> = builds.map(|(_, job)| ("Secret".to_owned(), job.clone())).collect();
        own.extend(orders);
        let accounts = own.iter().find(|(kind, _)| kind == "ServiceAccount");
        let stem = accounts.map(|(_, name)| name.replace("-identity", "")).unwrap_or_default();
        let of_stem = |pod: &&Value| pod["metadata"]["labels"]["famulus.dev/plugin"] == stem;
        for pod in pods.iter().filter(of_stem) {
            let job = text(&pod["metadata"]["labels"]["job-name"]);
            if job.starts_with(&format!("{stem}-build-")) {
                own.push(("Secret".to_owned(), job));
            }
        }
        let [chosen, slim, full] = images;
        let image = match plugin["spec"]["runner"]["flavour"].as_str() {
            Some("Slim") => slim,
            Some("Full") => full,
            _ => chosen,
        };
        let bounds = Bounds { plugin, namespace: sandbox, image, own: &own };
        for object in objects {
            found.wrong.extend(violations(object, &bounds));
        }
        for one in pods.iter().filter(of_stem) {
            let name = text(&one["metadata"]["name"]);
            found.wrong.extend(pod(one, &bounds).into_iter().map(|what| format!("{name}: {what}")));
            found.seen.insert(("Pod".to_owned(), name));
            found.with_pod.insert(text(&plugin["metadata"]["name"]));
        }
        found.seen.extend(own);
    }
    found
}

/// The images that Pods of plugins have: where the Plugin names none, the slim and the full one.
async fn images() -> [String; 3] {
    let name = release::name();
    let operator = object(&name, "deployment", &format!("{name}-operator")).await.unwrap();
    let variables = operator["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let variables = variables.as_array().unwrap();
    ["", "_SLIM", "_FULL"].map(|flavour| {
        let name = format!("FAMULUS_OPERATOR_RUNNER_IMAGE{flavour}");
        let image = variables.iter().find(|one| one["name"] == *name).unwrap();
        image["value"].as_str().unwrap().to_owned()
    })
}
