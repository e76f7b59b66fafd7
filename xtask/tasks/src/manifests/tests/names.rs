//! Kinds, names and namespaces: nothing unexpected, nothing in a place that it was not given, and no
//! two releases in each other's way.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{CASES, called, containers, kind, list, name, namespace, objects, pod, release, text};

/// Every kind that the chart has, and whether it belongs to a namespace.
const KINDS: [(&str, bool); 23] = [
    ("ConfigMap", true),
    ("CronJob", true),
    ("CustomResourceDefinition", false),
    ("Deployment", true),
    ("Ingress", true),
    ("Job", true),
    ("LimitRange", true),
    ("Namespace", false),
    ("NetworkPolicy", true),
    ("Plugin", true),
    ("Pod", true),
    ("PodDisruptionBudget", true),
    ("PriorityClass", false),
    ("PrometheusRule", true),
    ("ResourceQuota", true),
    ("Role", true),
    ("RoleBinding", true),
    ("Service", true),
    ("ServiceAccount", true),
    ("ServiceMonitor", true),
    ("StatefulSet", true),
    ("ValidatingAdmissionPolicy", false),
    ("ValidatingAdmissionPolicyBinding", false),
];

#[test]
fn every_object_is_of_a_known_kind_and_in_its_place() {
    for case in &CASES {
        for object in objects(case) {
            let called = called(case, &object);
            let known = KINDS.iter().find(|(known, _)| *known == kind(&object));
            let (_, namespaced) = known.unwrap_or_else(|| panic!("{called} is unexpected"));
            assert_eq!(!namespace(&object).is_empty(), *namespaced, "{called}");
            let place = ["", "assistant", "assistant-sandbox", "cage"];
            assert!(place.contains(&namespace(&object)), "{called}");
        }
    }
}

/// What a cluster has once carries the release's name and its namespace, or the definition's.
#[test]
fn two_releases_live_side_by_side() {
    let places = |name: &str, namespace: &str| -> BTreeSet<(String, String, String)> {
        let everything = super::EVERYTHING;
        let objects = release(name, namespace, everything);
        let own = |object: &&Value| kind(object) != "CustomResourceDefinition";
        let place = |object: &Value| {
            let parts = [kind(object), super::namespace(object), super::name(object)];
            let [kind, namespace, name] = parts.map(str::to_owned);
            (kind, namespace, name)
        };
        objects.iter().filter(own).map(place).collect()
    };
    let releases = [places("a", "one"), places("a", "two"), places("b", "three")];
    for (number, one) in releases.iter().enumerate() {
        for other in &releases[number + 1..] {
            let shared: Vec<_> = one.intersection(other).collect();
            assert!(shared.is_empty(), "{shared:?}");
        }
    }
}

#[test]
fn one_value_names_the_registry_of_all_images() {
    let args = ["--set-string", "image.registry=registry.example/famulus,image.tag=7"];
    let mut images = BTreeSet::new();
    for object in release("home", "assistant", &args) {
        for container in pod(&object).into_iter().flat_map(containers) {
            images.insert(text(container, "/image").to_owned());
            let is_image = |variable: &&Value| {
                text(variable, "/name").starts_with("FAMULUS_OPERATOR_RUNNER_IMAGE")
            };
            let runners = list(container, "/env").iter().filter(is_image);
            images.extend(runners.map(|runner| text(runner, "/value").to_owned()));
        }
    }
    let expected = [
        "app:7",
        "operator:7",
        "postgres:7",
        "postgres:7-backup",
        "resolver:7",
        "runner:7-full",
        "runner:7-slim",
    ];
    assert_eq!(images, expected.map(|image| format!("registry.example/famulus/{image}")).into());
}

#[test]
fn a_digest_goes_before_the_tag_and_a_reference_before_both() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let digest_of_app = format!("image.app.digest={digest}");
    let args =
        ["--set", &digest_of_app, "--set", "image.postgres.reference=pgvector/pgvector:pg17"];
    let objects = release("home", "assistant", &args);
    let image = |kind, name| {
        let object = super::one(&objects, kind, name);
        text(object, "/spec/template/spec/containers/0/image").to_owned()
    };
    assert_eq!(image("Deployment", "home"), format!("localhost/famulus/app@{digest}"));
    assert_eq!(image("StatefulSet", "home-postgres"), "pgvector/pgvector:pg17");
}

/// What stays when the release goes: definitions and the namespace of the plugins. Volumes and
/// Secrets are no part of it.
#[test]
fn an_uninstall_keeps_these() {
    let objects = objects(&CASES[0]);
    let kept = objects
        .iter()
        .filter(|object| text(object, "/metadata/annotations/helm.sh~1resource-policy") == "keep");
    let kept: Vec<(&str, &str)> = kept.map(|object| (kind(object), name(object))).collect();
    assert_eq!(
        kept,
        [("Namespace", "assistant-sandbox"), ("CustomResourceDefinition", "plugins.famulus.dev"),]
    );
    let postgres = super::one(&objects, "StatefulSet", "home-postgres");
    let retention = &postgres["spec"]["persistentVolumeClaimRetentionPolicy"];
    assert_eq!(retention["whenDeleted"], "Retain");
}
