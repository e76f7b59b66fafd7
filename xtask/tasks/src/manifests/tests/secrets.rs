//! No manifest holds a secret, and none differs from one rendering to the next.

use super::{CASES, called, helm, kind, list, objects, one, pod, text};

#[test]
fn there_is_no_secret_in_any_manifest() {
    for case in &CASES {
        for object in objects(case) {
            assert_ne!(kind(&object), "Secret", "{}", called(case, &object));
        }
    }
}

#[test]
fn two_renderings_are_the_same() {
    for case in &CASES {
        let render = || helm().render("home", "assistant", case.args).unwrap();
        assert!(render() == render(), "{}: something is generated", case.name);
    }
}

/// The Secrets that Pods name are those that the bootstrap makes, or that the values name.
#[test]
fn every_secret_is_made_or_given() {
    let check = |case: &super::Case, given: &[&str]| {
        let objects = objects(case);
        let bootstrap = one(&objects, "Job", "home-bootstrap");
        let env = list(bootstrap, "/spec/template/spec/containers/0/env");
        let wanted = env.iter().find(|entry| entry["name"] == "FAMULUS_BOOTSTRAP_SECRETS");
        let wanted = text(wanted.unwrap(), "/value");
        let wanted: serde_json::Value = serde_json::from_str(wanted).unwrap();
        let made: Vec<&str> = list(&wanted, "").iter().map(|s| text(s, "/name")).collect();
        for object in &objects {
            let Some(pod) = pod(object) else { continue };
            let volumes = list(pod, "/volumes").iter().map(|v| text(v, "/secret/secretName"));
            let containers = list(pod, "/containers").iter();
            let variables = containers
                .flat_map(|container| list(container, "/env"))
                .map(|variable| text(variable, "/valueFrom/secretKeyRef/name"));
            for secret in volumes.chain(variables).filter(|secret| !secret.is_empty()) {
                let known = made.contains(&secret) || given.contains(&secret);
                assert!(known, "{} asks for {secret}", called(case, object));
            }
        }
        made.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let [defaults, own_postgres, _, _, existing, everything] = &CASES;
    assert_eq!(check(defaults, &[]), ["home-root-key", "home-token", "home-database"]);
    assert_eq!(check(own_postgres, &["mine"]), ["home-root-key", "home-token"]);
    assert_eq!(check(existing, &["root", "token", "pg"]), Vec::<String>::new());
    assert_eq!(check(everything, &["model"]).len(), 3);
}
