//! A thousand Plugins that nobody would write: what is made for each is checked by somebody else.

use famulus_crds::plugin::Plugin;
use serde_json::{Value, json};

use crate::cases::{made, pods};
use crate::checker::{Bounds, violations};
use crate::generator;

#[test]
fn nothing_is_made_for_a_thousand_generated_plugins_that_is_not_confined() {
    let images = [("RUNNER_IMAGE_SLIM", "runner:slim"), ("RUNNER_IMAGE_FULL", "runner:full")];
    let settings = pods(&images).unwrap();
    let (mut refused, mut checked, mut wrong) = (0, 0, Vec::new());
    for number in 0..1_000 {
        let mut plugin = generator::plugin(number);
        plugin["metadata"]["namespace"] = json!("famulus-sandbox");
        plugin["metadata"]["uid"] = json!("uid-of-the-plugin");
        // What the API server lets pass is more than what the types read: both are tried here.
        if serde_json::from_value::<Plugin>(plugin.clone()).is_err() {
            refused += 1;
            continue;
        }
        for serving in [None, Some("sha256:00")] {
            let Ok(objects) = made(&plugin, serving, &settings) else {
                refused += 1;
                break;
            };
            let name = |object: &Value, key: &str| object[key].as_str().unwrap().to_owned();
            let own: Vec<(String, String)> = objects
                .iter()
                .map(|object| (name(object, "kind"), name(&object["metadata"], "name")))
                .collect();
            let image = match plugin["spec"]["runner"]["flavour"].as_str() {
                Some("Slim") => "runner:slim",
                Some("Full") => "runner:full",
                _ => settings.images.chosen.as_str(),
            };
            let namespace = "famulus-sandbox";
            let bounds = Bounds { plugin: &plugin, namespace, image, own: &own };
            wrong.extend(objects.iter().flat_map(|object| violations(object, &bounds)));
            checked += objects.len();
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "of {checked} objects");
    assert!(checked > 4_000 && refused > 50, "{checked} objects, {refused} Plugins refused");
}

#[test]
fn the_checker_sees_what_is_not_confined() {
    let settings = pods(&[]).unwrap();
    let mut plugin = generator::plugin(0);
    plugin["metadata"]["namespace"] = json!("famulus-sandbox");
    plugin["metadata"]["uid"] = json!("uid-of-the-plugin");
    plugin["spec"] = json!({"name": "a", "source": {"git": {"url": "https://git.example/a"}}});
    let objects = made(&plugin, None, &settings).unwrap();
    let own: Vec<(String, String)> = objects
        .iter()
        .map(|object| {
            let text = |it: &Value| it.as_str().unwrap().to_owned();
            (text(&object["kind"]), text(&object["metadata"]["name"]))
        })
        .collect();
    let (image, namespace) = (settings.images.chosen.as_str(), "famulus-sandbox");
    let bounds = Bounds { plugin: &plugin, namespace, image, own: &own };
    let runner = objects.iter().find(|object| object["kind"] == "Deployment").unwrap();
    assert_eq!(violations(runner, &bounds), Vec::<String>::new());
    let table = [
        ("/spec/template/spec/hostNetwork", json!(true)),
        ("/spec/template/spec/serviceAccountName", json!("famulus-operator")),
        ("/spec/template/spec/automountServiceAccountToken", json!(true)),
        ("/spec/template/spec/volumes/0", json!({"name": "a", "hostPath": {"path": "/"}})),
        ("/spec/template/spec/volumes/0", json!({"name": "a", "secret": {"secretName": "token"}})),
        ("/spec/template/spec/securityContext/runAsUser", json!(0)),
        ("/spec/template/spec/containers/0/image", json!("evil.example/x")),
        ("/spec/template/spec/containers/0/securityContext/privileged", json!(true)),
        ("/spec/template/spec/containers/0/securityContext/capabilities/drop", json!([])),
        ("/spec/template/metadata/labels/famulus.dev~1egress", json!("internet")),
        ("/metadata/namespace", json!("famulus")),
        ("/metadata/ownerReferences", json!([])),
    ];
    for (pointer, value) in table {
        let mut changed = runner.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let parent = changed.pointer_mut(parent).unwrap();
        match key.parse::<usize>() {
            Ok(index) => parent[index] = value,
            Err(_) => parent[key.replace("~1", "/")] = value,
        }
        assert!(!violations(&changed, &bounds).is_empty(), "{pointer}");
    }
}
