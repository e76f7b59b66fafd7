//! No manifest holds a secret, and none differs from one rendering to the next.

use super::{
    CASES, Case, called, containers, helm, kind, list, name, objects, one, pod, release, text,
    variable,
};

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
    assert_eq!(holders(&objects(&CASES[5]), "identity"), ["home-backup-verify"]);
}

/// Whoever has it is given what plugins keep and are configured by: not the app, and not a Pod that holds the
/// key with which backups are read.
#[test]
fn the_key_for_what_plugins_keep_is_for_operator_and_backups_alone() {
    let holders = |case: &Case| {
        let mut holders = holders(&objects(case), "home-keeper-key");
        holders.sort();
        holders
    };
    assert_eq!(holders(&CASES[0]), ["home-backup", "home-operator"]);
    let restored = holders(&CASES[6]);
    let [backup, operator, restore] = &restored[..] else { panic!("{restored:?}") };
    assert_eq!([&**backup, &**operator], ["home-backup", "home-operator"]);
    assert!(
        restore.starts_with("home-restore-") && *restore != "home-restore-secrets",
        "{restore}"
    );
    let without = release("home", "assistant", &["--set", "backup.enabled=false"]);
    assert!(!serde_json::to_string(&without).unwrap().contains("keeper"));
}

/// It is in the Pod of a daemon that others make, so it opens nothing else.
#[test]
fn the_key_for_what_a_daemon_keeps_is_for_its_pod_and_backups_alone() {
    let with = ["--set", "signal.image=signal-cli:1"];
    let holders = |more: &[&str]| {
        let mut holders =
            holders(&release("home", "assistant", &[&with, more].concat()), "home-signal-key");
        holders.sort();
        holders
    };
    assert_eq!(holders(&[]), ["home-backup", "home-signal"]);
    let restored =
        holders(&["--set", "restore.from=latest,backup.s3.bucket=b,backup.s3.existingSecret=s3"]);
    let [backup, restore, signal] = &restored[..] else { panic!("{restored:?}") };
    assert_eq!([&**backup, &**signal], ["home-backup", "home-signal"]);
    assert!(
        restore.starts_with("home-restore-") && *restore != "home-restore-secrets",
        "{restore}"
    );
    // Without anybody who asks, nobody answers.
    let without =
        release("home", "assistant", &[&with[..], &["--set", "backup.enabled=false"]].concat());
    let without = serde_json::to_string(&without).unwrap();
    assert!(!without.contains("signal-key") && !without.contains("shareProcessNamespace"));
}

/// The objects with a Pod that mounts this Secret.
fn holders(objects: &[serde_json::Value], secret: &str) -> Vec<String> {
    let mounts = |object: &&serde_json::Value| {
        let volumes = pod(object).map_or(&[][..], |pod| list(pod, "/volumes"));
        volumes.iter().any(|volume| text(volume, "/secret/secretName") == secret)
    };
    objects.iter().filter(mounts).map(|object| name(object).to_owned()).collect()
}

/// The Secrets that Pods name are those that the bootstrap makes, or that the values name.
#[test]
fn every_secret_is_made_or_given() {
    let check = |case: &Case, given: &[&str]| {
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
    let all =
        ["home-root-key", "home-keeper-key", "home-token", "home-database", "home-backup-database"];
    let keys = ["home-root-key", "home-keeper-key", "home-token"];
    let with_a_daemon = [&all[..2], &["home-signal-key"], &all[2..]].concat();
    let [defaults, own_postgres, _, _, existing, everything, restored, own_backups] = &CASES;
    assert_eq!(check(defaults, &[]), all);
    assert_eq!(check(own_postgres, &["mine"]), ["home-root-key", "home-token"]);
    assert_eq!(
        check(existing, &["root", "token", "pg", "keeper"]),
        ["home-backup-database"],
        "the others are given"
    );
    assert_eq!(
        check(everything, &["model", "bot", "speech", "s3", "ca", "identity"]),
        with_a_daemon
    );
    assert_eq!(check(restored, &["s3"]), all);
    assert_eq!(check(own_backups, &["mine", "reader"]), keys);
}
