//! No manifest holds a secret, and none differs from one rendering to the next.

use super::{CASES, called, containers, helm, kind, list, name, objects, one, pod, text, variable};

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

/// Whoever has it and the backups reads everything.
#[test]
fn the_private_key_of_backups_is_for_those_alone_who_read_them() {
    let objects = objects(&CASES[5]);
    let holders: Vec<&str> = objects
        .iter()
        .filter(|object| {
            let volumes = pod(object).map_or(&[][..], |pod| list(pod, "/volumes"));
            volumes.iter().any(|volume| text(volume, "/secret/secretName") == "identity")
        })
        .map(name)
        .collect();
    assert_eq!(holders, ["home-backup-verify"]);
}

/// The Secrets that Pods name are those that the bootstrap makes, or that the values name.
#[test]
fn every_secret_is_made_or_given() {
    let check = |case: &super::Case, given: &[&str]| {
        let objects = objects(case);
        let bootstrap = one(&objects, "Job", "home-bootstrap");
        let container = &pod(bootstrap).unwrap()["containers"][0];
        let wanted = variable(container, "FAMULUS_BOOTSTRAP_SECRETS").unwrap();
        let wanted: serde_json::Value = serde_json::from_str(wanted).unwrap();
        let made: Vec<&str> = list(&wanted, "").iter().map(|s| text(s, "/name")).collect();
        for object in &objects {
            let Some(pod) = pod(object) else { continue };
            let volumes = list(pod, "/volumes").iter().filter(|v| v.get("secret").is_some());
            let volumes = volumes.map(|volume| text(volume, "/secret/secretName"));
            let variables = containers(pod)
                .flat_map(|container| list(container, "/env"))
                .filter_map(|variable| variable.pointer("/valueFrom/secretKeyRef"))
                .map(|of| text(of, "/name"));
            for secret in volumes.chain(variables) {
                let known = made.contains(&secret) || given.contains(&secret);
                assert!(known, "{} asks for {secret}", called(case, object));
            }
        }
        made.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = ["home-root-key", "home-token", "home-database", "home-backup-database"];
    let [defaults, own_postgres, _, _, existing, everything, restored, own_backups] = &CASES;
    assert_eq!(check(defaults, &[]), all);
    assert_eq!(check(own_postgres, &["mine"]), ["home-root-key", "home-token"]);
    assert_eq!(check(existing, &["root", "token", "pg"]), ["home-backup-database"]);
    assert_eq!(check(everything, &["model", "s3", "ca", "identity"]), all);
    assert_eq!(check(restored, &["s3"]), all);
    assert_eq!(check(own_backups, &["mine", "reader"]), ["home-root-key", "home-token"]);
}
