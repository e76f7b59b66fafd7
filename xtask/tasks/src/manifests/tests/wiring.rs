//! What one part is told of another is what that other part is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};
use xtask_shell::workspace::root;

use super::{
    CASES, called, containers, kind, list, namespace, objects, one, pod, release, text, variable,
};

fn environment(object: &Value) -> BTreeMap<&str, &str> {
    let container = &list(pod(object).unwrap(), "/containers")[0];
    let variables = list(container, "/env").iter();
    variables.map(|variable| (text(variable, "/name"), text(variable, "/value"))).collect()
}

#[test]
fn the_app_is_told_where_it_is() {
    let objects = objects(&CASES[0]);
    let app = one(&objects, "Deployment", "home");
    let environment = environment(app);
    let table = [
        ("FAMULUS_API__LISTEN", "0.0.0.0:3000"),
        ("FAMULUS_API__INTERNAL_LISTEN", "0.0.0.0:3001"),
        ("FAMULUS_API__CALLBACK_LISTEN", "0.0.0.0:3002"),
        ("FAMULUS_API__CANARY_LISTEN", "0.0.0.0:3003"),
        ("FAMULUS_CLUSTER__SANDBOX_NAMESPACE", "assistant-sandbox"),
        ("FAMULUS_CLUSTER__ROOT_KEY_FILE", "/run/famulus/root-key/key"),
        ("FAMULUS_CLUSTER__CALLBACK_URL", "http://home-callback:3002"),
        ("FAMULUS_CLUSTER__KEPT_BUNDLES", "5"),
        ("FAMULUS_CLUSTER__TOKEN_SECRET__NAMESPACE", "assistant"),
        ("FAMULUS_CLUSTER__TOKEN_SECRET__NAME", "home-token"),
    ];
    for (name, value) in table {
        assert_eq!(environment.get(name), Some(&value), "{name}");
    }
}

#[test]
fn the_app_is_told_where_the_daemon_of_signal_is() {
    let told = |args: &[&str]| {
        let objects = release("home", "assistant", args);
        let app = environment(one(&objects, "Deployment", "home"));
        app.get("FAMULUS_CHANNELS__SIGNAL__URL").map(|url| (*url).to_owned())
    };
    assert_eq!(told(&[]), None);
    let own = told(&["--set", "signal.image=registry.example/signal-cli:1"]);
    assert_eq!(own.as_deref(), Some("http://home-signal:8080"));
    let elsewhere = told(&["--set", "app.signal.url=http://192.168.1.9:8080"]);
    assert_eq!(elsewhere.as_deref(), Some("http://192.168.1.9:8080"));
    let objects = objects(&CASES[5]);
    let app = environment(one(&objects, "Deployment", "home"));
    assert_eq!(app["FAMULUS_CHANNELS__SIGNAL__ACCOUNT"], "+491701234567");
    assert_eq!(app["FAMULUS_CHANNELS__SIGNAL__SERVES_EVERYBODY"], "true");
    // Two of them would keep each other from the account.
    let daemon = one(&objects, "StatefulSet", "home-signal");
    assert_eq!(daemon["spec"]["replicas"], 1);
    assert_eq!(daemon["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"], "Retain");
}

#[test]
fn the_operator_is_told_of_the_services_beside_it() {
    let objects = release("my-home", "assistant", &[]);
    let operator = one(&objects, "Deployment", "my-home-operator");
    let environment = environment(operator);
    let table = [
        ("FAMULUS_OPERATOR_RELEASE", "my-home"),
        ("FAMULUS_OPERATOR_SYSTEM_NAMESPACE", "assistant"),
        ("FAMULUS_OPERATOR_SANDBOX_NAMESPACE", "assistant-sandbox"),
        ("FAMULUS_OPERATOR_CALLBACK_HOST", "$(MY_HOME_CALLBACK_SERVICE_HOST)"),
        ("FAMULUS_OPERATOR_RESOLVER", "$(MY_HOME_RESOLVER_SERVICE_HOST)"),
        ("FAMULUS_OPERATOR_RUNNER_IMAGE", "localhost/famulus/runner:0.1.0-full"),
        ("FAMULUS_OPERATOR_RUNNER_IMAGE_SLIM", "localhost/famulus/runner:0.1.0-slim"),
        ("FAMULUS_OPERATOR_RUNNER_IMAGE_FULL", "localhost/famulus/runner:0.1.0-full"),
        ("FAMULUS_OPERATOR_UID_RANGE", "20000-65533"),
        ("FAMULUS_OPERATOR_ACCEPT_OPEN_NETWORK", "false"),
    ];
    for (name, value) in table {
        assert_eq!(environment.get(name), Some(&value), "{name}");
    }
    assert_eq!(pod(operator).unwrap()["enableServiceLinks"], true);
    one(&objects, "Service", "my-home-callback");
    one(&objects, "Service", "my-home-resolver");
    let resources = environment["FAMULUS_OPERATOR_RESOURCES"];
    let resources: Value = serde_json::from_str(resources).unwrap();
    assert_eq!(resources["limits"]["memory"], "256Mi");
    let builds = environment["FAMULUS_OPERATOR_BUILD_RESOURCES"];
    let builds: Value = serde_json::from_str(builds).unwrap();
    assert_eq!(builds["limits"], json!({"memory": "1Gi", "ephemeral-storage": "2Gi"}));
}

#[test]
fn each_flavour_of_the_runner_has_its_digest_and_an_image_of_ones_own_is_the_only_one() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let runners = |args: &[&str]| {
        let objects = release("home", "assistant", args);
        let environment = environment(one(&objects, "Deployment", "home-operator"));
        ["", "_SLIM", "_FULL"]
            .map(|of| environment[format!("FAMULUS_OPERATOR_RUNNER_IMAGE{of}").as_str()].to_owned())
    };
    let of_slim = format!("image.runner.slim.digest={digest}");
    let slim = format!("localhost/famulus/runner@{digest}");
    let full = "localhost/famulus/runner:0.1.0-full".to_owned();
    let chosen = ["--set", &of_slim, "--set", "image.runner.flavour=slim"];
    assert_eq!(runners(&chosen), [slim.clone(), slim, full]);
    let own = "registry.example/own:1";
    let reference = format!("image.runner.reference={own}");
    assert_eq!(runners(&["--set", &of_slim, "--set", &reference]), [own; 3]);
}

/// What one part asks of another stands in that other part's source.
#[test]
fn what_the_chart_asks_for_is_there() {
    let source = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let objects = objects(&CASES[5]);
    let sources =
        [("home", "app/api/src/routes/table.rs"), ("home-operator", "operator/src/health.rs")];
    for (deployment, path) in sources {
        let container = &pod(one(&objects, "Deployment", deployment)).unwrap()["containers"][0];
        for probe in ["livenessProbe", "readinessProbe"] {
            let asked = text(container, &format!("/{probe}/httpGet/path"));
            assert!(
                source(path).contains(&format!("\"{asked}\"")),
                "{path} does not serve {asked}"
            );
        }
    }
    let settings = source("operator/src/settings.rs");
    for name in environment(one(&objects, "Deployment", "home-operator")).keys() {
        let setting = name.strip_prefix("FAMULUS_OPERATOR_").unwrap();
        assert!(settings.contains(&format!("\"{setting}\"")), "the operator has no {setting}");
    }
    let standing = source("app/server/src/backup/standing.rs");
    let counted = standing + &source("app/server/src/backup/told.rs");
    for rule in list(one(&objects, "PrometheusRule", "home-backup"), "/spec/groups/0/rules") {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let words = text(rule, "/expr").split(|letter: char| !is_name(letter));
        let metrics: Vec<&str> = words.filter(|word| word.starts_with("famulus_")).collect();
        assert!(!metrics.is_empty(), "{rule}");
        for metric in metrics {
            assert!(counted.contains(&format!("!(\"{metric}\")")), "there is no metric {metric}");
        }
    }
}

/// A variable that is no key ends the program that reads it, in a backup at night.
#[test]
fn what_the_assistant_s_program_is_told_are_keys_of_its_configuration() {
    let keys = fs::read_to_string(root().join("app/server/src/config/keys.rs")).unwrap();
    let options = ["FAMULUS_CONFIG", "FAMULUS_URL", "FAMULUS_TOKEN"];
    let mut programs = BTreeSet::new();
    for case in &CASES {
        for object in objects(case) {
            let is_ours = |container: &&Value| {
                let image = text(container, "/image");
                image.starts_with("localhost/famulus/app:") || image.ends_with("-backup")
            };
            for container in pod(&object).into_iter().flat_map(containers).filter(is_ours) {
                programs.insert(text(container, "/name").to_owned());
                let names = list(container, "/env").iter().map(|variable| text(variable, "/name"));
                for name in names.filter(|name| !options.contains(name)) {
                    let Some(path) = name.strip_prefix("FAMULUS_") else { continue };
                    let key = path.to_lowercase().replace("__", ".");
                    let known = keys.contains(&format!("\"{key}\""));
                    assert!(known, "{}: the app has no key {key}", called(case, &object));
                }
            }
        }
    }
    let expected =
        ["app", "backup", "chat", "first-turn", "held", "migrate", "plugin", "restore", "restored"];
    assert_eq!(programs, expected.map(str::to_owned).into());
}

#[test]
fn every_claim_is_made_or_given() {
    let check = |objects: &[Value], made: &[&str], used: &[&str]| {
        let bootstrap = &pod(one(objects, "Job", "home-bootstrap")).unwrap()["containers"][0];
        let claims = variable(bootstrap, "FAMULUS_BOOTSTRAP_CLAIMS").unwrap_or("[]");
        let claims: Value = serde_json::from_str(claims).unwrap();
        let claims: Vec<&str> =
            list(&claims, "").iter().map(|claim| text(claim, "/name")).collect();
        assert_eq!(claims, made);
        let volumes = objects.iter().filter_map(pod).flat_map(|pod| list(pod, "/volumes"));
        let named: BTreeSet<&str> = volumes
            .filter_map(|volume| volume.pointer("/persistentVolumeClaim/claimName")?.as_str())
            .collect();
        assert_eq!(named, used.iter().copied().collect());
    };
    let [defaults, own_postgres, _, _, _, everything, restored, own_backups] = &CASES;
    check(&objects(defaults), &["home-backup"], &["home-backup"]);
    check(&objects(own_postgres), &[], &[]);
    check(&objects(everything), &[], &[]);
    check(&objects(restored), &[], &[]);
    check(&objects(own_backups), &["home-backup"], &["home-backup"]);
    let given = "backup.persistence.existingClaim=kept,restore.from=latest";
    check(&release("home", "assistant", &["--set", given]), &[], &["kept"]);
}

/// A Service that selects nobody, or a port that nobody has, is found here and not in a cluster.
#[test]
fn every_service_finds_its_pods_and_their_ports() {
    for case in &CASES {
        let objects = objects(case);
        for service in objects.iter().filter(|object| kind(object) == "Service") {
            let selector = service["spec"]["selector"].as_object().unwrap();
            let selected: Vec<&Value> = objects
                .iter()
                .filter(|object| namespace(object) == namespace(service))
                .filter(|object| matches!(kind(object), "Deployment" | "StatefulSet"))
                .filter(|object| {
                    let labels = &object["spec"]["template"]["metadata"]["labels"];
                    selector.iter().all(|(label, value)| labels[label] == *value)
                })
                .collect();
            let called = called(case, service);
            assert_eq!(selected.len(), 1, "{called}");
            let ports: Vec<&Value> = containers(pod(selected[0]).unwrap())
                .flat_map(|container| list(container, "/ports"))
                .collect();
            for port in list(service, "/spec/ports") {
                let target = &port["targetPort"];
                let has =
                    |port: &&Value| port["name"] == *target || port["containerPort"] == *target;
                assert!(ports.iter().any(has), "{called}: {target}");
            }
        }
    }
}

/// Hooks that Helm would run are for Helm alone: kubectl gets an ordinary Job that may be applied
/// again.
#[test]
fn manifests_for_kubectl_have_no_hooks() {
    let objects = objects(&CASES[3]);
    for object in &objects {
        assert!(!object.to_string().contains("helm.sh/hook"), "{object}");
    }
    let jobs: Vec<&Value> = objects.iter().filter(|object| kind(object) == "Job").collect();
    assert_eq!(jobs.len(), 1);
    assert_eq!(jobs[0]["spec"]["ttlSecondsAfterFinished"], json!(60));
}

/// Beside the Job, whatever it needs is there before it.
#[test]
fn a_hook_s_rights_come_before_its_job() {
    for case in [&CASES[0], &CASES[6]] {
        let objects = objects(case);
        let (hooks, others): (Vec<&Value>, Vec<&Value>) = objects
            .iter()
            .filter(|object| kind(object) == "Job")
            .partition(|job| !annotation(job, "hook").is_empty());
        let others: Vec<&str> = others
            .into_iter()
            .map(|job| text(job, "/spec/template/spec/serviceAccountName"))
            .collect();
        let restored = case.name == "restored from a bucket";
        assert_eq!(others, if restored { vec!["home-restore"] } else { vec![] });
        for job in hooks {
            let account = text(job, "/spec/template/spec/serviceAccountName");
            let needed = objects.iter().filter(|object| super::name(object) == account);
            for object in needed.filter(|object| kind(object) != "Job") {
                let called = called(case, object);
                assert_eq!(annotation(object, "hook"), annotation(job, "hook"), "{called}");
                assert!(weight(object) < weight(job), "{called}");
            }
        }
    }
}

fn annotation<'a>(object: &'a Value, name: &str) -> &'a str {
    text(object, &format!("/metadata/annotations/helm.sh~1{name}"))
}

fn weight(hook: &Value) -> i32 {
    annotation(hook, "hook-weight").parse().unwrap()
}

/// One that is good and lacks something is not taken twice more.
#[test]
fn a_job_ends_with_a_backup_that_is_incomplete() {
    let code = fs::read_to_string(root().join("app/server/src/backup/mod.rs")).unwrap();
    assert!(code.contains("EXIT_CODE: u8 = 3;"));
    let objects = objects(&CASES[0]);
    let rules = "/spec/jobTemplate/spec/podFailurePolicy/rules";
    let expected = json!({
        "action": "FailJob",
        "onExitCodes": {"containerName": "backup", "operator": "In", "values": [3]},
    });
    assert_eq!(list(one(&objects, "CronJob", "home-backup"), rules), [expected]);
}

/// Root key and token are back before a release makes its own, and nobody works on a database that
/// is not restored.
#[test]
fn a_restore_comes_before_what_it_restores_is_used() {
    let objects = objects(&CASES[6]);
    let words = |container: &Value| {
        let words = list(container, "/args").iter().filter_map(Value::as_str);
        words.map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    let at = "--at 2026-11-24T18:00:00Z";

    let secrets = one(&objects, "Job", "home-restore-secrets");
    assert_eq!(annotation(secrets, "hook"), "pre-install");
    assert!(weight(secrets) < weight(one(&objects, "Job", "home-bootstrap")));
    assert_eq!(
        words(&pod(secrets).unwrap()["containers"][0]),
        format!(
            "restore-secrets latest --release home --namespace assistant {at} \
             --root-key home-root-key --token home-token"
        )
    );

    let is_database = |object: &&Value| {
        kind(object) == "Job" && pod(object).unwrap()["serviceAccountName"] == "home-restore"
    };
    let database = objects.iter().find(is_database).unwrap();
    assert_eq!(words(&pod(database).unwrap()["containers"][0]), format!("restore latest {at}"));

    let app = pod(one(&objects, "Deployment", "home")).unwrap();
    let first: Vec<String> = list(app, "/initContainers").iter().map(words).collect();
    assert_eq!(first, ["restore latest --wait"]);

    let turn = one(&objects, "Job", "home-first-turn");
    assert_eq!(annotation(turn, "hook"), "post-install");
    assert!(words(&pod(turn).unwrap()["containers"][0]).starts_with("chat --new "));
}
