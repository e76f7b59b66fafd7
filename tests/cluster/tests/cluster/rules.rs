//! The rules of a Plugin, as the API server that runs applies them: each is broken once, and what it
//! says names field, cause and remedy. The samples are kept as they were written.

use std::collections::BTreeSet;

use reqwest::Method;
use serde_json::{Value, json};

use famulus_cluster_tests::kubectl::kubectl;
use famulus_cluster_tests::server::{Server, TRY, plugins};

/// No operator looks there, so that nothing is built.
const NAMESPACE: &str = "rules";

fn plugin(name: &str) -> Value {
    json!({
        "apiVersion": "famulus.dev/v1alpha1",
        "kind": "Plugin",
        "metadata": {"name": name},
        "spec": {
            "name": name,
            "source": {"git": {"url": "https://example.org/weather.git"}},
        },
    })
}

/// A field of the spec, the value that breaks a rule, and the field that is named.
fn broken() -> Vec<(&'static str, Value, &'static str)> {
    let inline = |path: &str, content: &str| {
        let manifest = json!({"path": "manifest.json", "content": "{}"});
        json!({"inline": {"files": [manifest, {"path": path, "content": content}]}})
    };
    let without = json!({"inline": {"files": [{"path": "a", "content": ""}]}});
    let git = |url: &str, name: &str| json!({"git": {"url": url, "ref": name}});
    let plain = "https://example.org/a.git";
    let much = "x".repeat(65_536);
    vec![
        ("name", json!("My_Plugin"), "spec.name"),
        ("source", json!({}), "spec.source"),
        ("source", without, "spec.source.inline.files"),
        ("source", inline("big", &much), "spec.source.inline.files"),
        ("source", inline("../a", ""), "spec.source.inline.files[1].path"),
        ("source", git("svn://example.org/a.git", "main"), "spec.source.git.url"),
        ("source", git("https://user:key@example.org/a.git", "main"), "spec.source.git.url"),
        ("source", git(plain, "--upload-pack=id"), "spec.source.git.ref"),
        ("revision", json!("main"), "spec.revision"),
        ("configSecretRef", json!({"name": "My_Secret"}), "spec.configSecretRef.name"),
        ("permissions", json!({"tools": ["a/b"]}), "spec.permissions.tools"),
        ("runner", json!({"runtimeClassName": "G_Visor"}), "spec.runner.runtimeClassName"),
        ("runner", json!({"max": 2}), "spec.runner.max"),
    ]
}

/// Changes that no Plugin takes.
fn immutable() -> [(Value, &'static str); 2] {
    [(json!({"name": "renamed"}), "spec.name"), (json!({"state": "Ephemeral"}), "spec.state")]
}

/// Bounds and types, by the words of the API server.
fn bounds() -> Vec<(&'static str, Value, &'static str)> {
    let runner = |field: &str, value: Value| json!({ field: value });
    let limits = |cpu: Value| json!({"resources": {"limits": {"cpu": cpu}}});
    vec![
        ("name", json!(""), "spec.name"),
        ("name", json!("a".repeat(64)), "spec.name"),
        ("state", json!("Sometimes"), "spec.state"),
        ("egress", json!({"mode": "Everything"}), "spec.egress.mode"),
        ("egress", json!({"init": "Everything"}), "spec.egress.init"),
        ("runner", runner("replicas", json!(-1)), "spec.runner.replicas"),
        ("runner", runner("flavour", json!("Huge")), "spec.runner.flavour"),
        ("runner", runner("idleSeconds", json!(0)), "spec.runner.idleSeconds"),
        ("runner", limits(json!("much")), "spec.runner.resources.limits.cpu"),
        ("runner", limits(json!(-1)), "spec.runner.resources.limits.cpu"),
        ("suspend", json!("yes"), "spec.suspend"),
        ("permissions", json!({"tools": vec!["a"; 257]}), "spec.permissions.tools"),
    ]
}

/// The fields that a refusal names, each with what it says of it.
fn causes(status: &Value) -> Vec<(String, String)> {
    let causes = status["details"]["causes"].as_array().cloned().unwrap_or_default();
    let text = |cause: &Value, key: &str| cause[key].as_str().unwrap_or_default().to_owned();
    causes.iter().map(|cause| (text(cause, "field"), text(cause, "message"))).collect()
}

/// The words of every rule in a schema.
fn rules(schema: &Value, found: &mut BTreeSet<String>) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        found.insert(rule["message"].as_str().unwrap().to_owned());
    }
    let below = schema["properties"].as_object().into_iter().flat_map(|fields| fields.values());
    for schema in below.chain([&schema["items"], &schema["additionalProperties"]]) {
        if schema.is_object() {
            rules(schema, found);
        }
    }
}

#[tokio::test]
async fn every_rule_is_kept_and_says_field_cause_and_remedy() {
    let server = Server::open().await;
    let crd = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/plugins.famulus.dev";
    let definition = server.ask(Method::GET, crd, None).await.unwrap();
    let mut unbroken = BTreeSet::new();
    rules(&definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &mut unbroken);
    assert!(unbroken.len() >= 15, "{unbroken:?}");

    let place = plugins("default");
    let tried = format!("{place}?{TRY}");
    server.ask(Method::POST, &tried, Some(&plugin("whole"))).await.unwrap();
    let mut refusals = Vec::new();
    for (field, value, named) in broken() {
        let mut object = plugin("whole");
        object["spec"][field] = value;
        let refusal = server.ask(Method::POST, &tried, Some(&object)).await;
        refusals.push((named, refusal.expect_err(named)));
    }
    // For these there must be one that can be changed.
    kubectl(&["create", "namespace", NAMESPACE]).await;
    let (place, name) = (plugins(NAMESPACE), "lasting");
    server.ask(Method::POST, &place, Some(&plugin(name))).await.unwrap();
    for (spec, named) in immutable() {
        let patch = json!({ "spec": spec });
        let path = format!("{place}/{name}?{TRY}");
        let refusal = server.ask(Method::PATCH, &path, Some(&patch)).await;
        refusals.push((named, refusal.expect_err(named)));
    }
    let allowed = json!({"spec": {"suspend": true}});
    server.ask(Method::PATCH, &format!("{place}/{name}?{TRY}"), Some(&allowed)).await.unwrap();
    samples_are_kept(&server).await;
    kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).await;

    for (named, refusal) in refusals {
        assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(422), &json!("Invalid")));
        let causes = causes(&refusal);
        let [(field, said)] = &causes[..] else { panic!("{named}: {causes:?}") };
        assert_eq!(field, named, "{said}");
        let rule = unbroken.iter().find(|rule| said.ends_with(*rule)).cloned();
        let rule =
            rule.unwrap_or_else(|| panic!("{named} is refused by no rule of its own: {said}"));
        // The field by its name, the cause, and behind it what to do.
        let plain = named.split('[').next().unwrap();
        assert!(rule.starts_with(plain), "{named}: {rule}");
        let (cause, remedy) = rule.split_once([';', ',']).unwrap_or_else(|| panic!("{rule}"));
        assert!(cause.len() > plain.len() && !remedy.is_empty(), "{rule}");
        unbroken.remove(&rule);
    }
    assert_eq!(unbroken, BTreeSet::new(), "these rules are broken by no test");
}

#[tokio::test]
async fn bounds_are_kept_and_unknown_fields_are_refused() {
    let server = Server::open().await;
    let tried = format!("{}?{TRY}", plugins("default"));
    for (field, value, named) in bounds() {
        let mut object = plugin("whole");
        object["spec"][field] = value;
        let refusal = server.ask(Method::POST, &tried, Some(&object)).await.expect_err(named);
        let named_at_all = causes(&refusal).iter().any(|(field, _)| field == named);
        assert!(named_at_all, "{named}: {refusal}");
    }
    for field in ["serviceAccountName", "image", "hostNetwork", "securityContext"] {
        let mut object = plugin("whole");
        object["spec"]["runner"] = json!({ field: "any" });
        let refusal = server.ask(Method::POST, &tried, Some(&object)).await.expect_err(field);
        let said = refusal["message"].as_str().unwrap();
        assert!(said.contains(&format!("unknown field \"spec.runner.{field}\"")), "{said}");
    }
}

/// What was written is read back, with defaults beside it; and what is read can be written again
/// without a change.
async fn samples_are_kept(server: &Server) {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/samples");
    let mut seen = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap().path().display().to_string();
        let create = ["create", "--dry-run=client", "-o", "json", "-f", &file];
        let sample: Value = serde_json::from_str(&kubectl(&create).await).unwrap();
        kubectl(&["-n", NAMESPACE, "apply", "--validate=strict", "-f", &file]).await;
        let name = sample["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", plugins(NAMESPACE));
        let read = server.ask(Method::GET, &path, None).await.unwrap();
        assert_eq!(lost("spec", &sample["spec"], &read["spec"]), Vec::<String>::new(), "{file}");
        let written = server.ask(Method::PUT, &path, Some(&read)).await.unwrap();
        assert_eq!(written["metadata"]["resourceVersion"], read["metadata"]["resourceVersion"]);
        seen += 1;
    }
    assert_eq!(seen, 2);
}

/// What was written and is not there.
fn lost(path: &str, written: &Value, read: &Value) -> Vec<String> {
    match (written, read) {
        // The same as left out.
        (Value::Null, _) => Vec::new(),
        (Value::Object(fields), Value::Object(_)) => {
            let below = fields.iter();
            below.flat_map(|(name, it)| lost(&format!("{path}.{name}"), it, &read[name])).collect()
        }
        (Value::Array(items), Value::Array(others)) if items.len() == others.len() => {
            let below = items.iter().zip(others).enumerate();
            below.flat_map(|(n, (it, other))| lost(&format!("{path}[{n}]"), it, other)).collect()
        }
        (written, read) if written == read => Vec::new(),
        (written, read) => vec![format!("{path}: {written} became {read}")],
    }
}
