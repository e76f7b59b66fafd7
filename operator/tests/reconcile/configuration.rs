//! What the owner gives, and where it must not turn up.

use k8s_openapi::ByteString;
use serde_json::{Value, json};

use famulus_crds::bearer;

use crate::bench::{Bench, KEEPER_KEY, ROOT_KEY, revision};

fn secret(bench: &Bench, values: &[(&str, &str)]) {
    secret_for(bench, Some("weather"), values);
}

/// A Secret whose label names this plugin, or none.
fn secret_for(bench: &Bench, plugin: Option<&str>, values: &[(&str, &str)]) {
    let bytes: Vec<(&str, &[u8])> = values.iter().map(|(key, it)| (*key, it.as_bytes())).collect();
    secret_of_bytes(bench, plugin, &bytes);
}

fn secret_of_bytes(bench: &Bench, plugin: Option<&str>, values: &[(&str, &[u8])]) {
    let data: serde_json::Map<String, Value> = values
        .iter()
        .map(|(key, value)| {
            let value = ByteString(value.to_vec());
            ((*key).to_owned(), serde_json::to_value(value).unwrap())
        })
        .collect();
    bench.cluster.remove("secrets", "mine");
    let labels = plugin.map(|plugin| json!({"famulus.dev/config-for": plugin}));
    let metadata = json!({"name": "mine", "labels": labels});
    bench.cluster.put("secrets", json!({"metadata": metadata, "type": "Opaque", "data": data}));
}

const NAMED: fn() -> Value =
    || json!({"configSecretRef": {"name": "mine"}, "runner": {"replicas": 1}});

#[tokio::test]
async fn a_missing_value_is_named_and_its_arrival_reaches_the_running_pod() {
    let bench = Bench::new();
    bench.plugin(NAMED());
    bench.settle().await;
    assert_eq!(bench.condition("Configured").1, "SecretMissing");
    bench.build_ends(&revision('a'), &["api_key"]);
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "SecretMissing".into()));
    secret(&bench, &[("units", "metric")]);
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "KeysMissing".into()));
    assert!(bench.message("Ready").contains("the Secret mine has no value for api_key"));
    let bytes: [(&str, &[u8]); 2] = [("units", b"metric"), ("api_key", &[0xff, 0xfe])];
    secret_of_bytes(&bench, Some("weather"), &bytes);
    bench.settle().await;
    let said = bench.message("Ready");
    assert!(said.contains("what api_key holds is no UTF-8"), "{said}");
    bench.runner_starts();
    bench.settle().await;

    let before = bench.status()["rendered"].as_i64().unwrap();
    secret(&bench, &[("units", "metric"), ("api_key", "k")]);
    bench.try_reconcile().await.unwrap();
    let writes = bench.cluster.writes();
    let place = |write: &str| writes.iter().position(|it| it == write);
    assert!(
        place("PATCH secrets/weather-mounted") < place("PATCH pods/weather-runner-x"),
        "{writes:?}"
    );
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    assert_eq!(bench.status()["rendered"], before + 1);
    assert_eq!(bench.status()["configKeys"], json!(["api_key", "units"]));
    let pod = bench.cluster.get("pods", "weather-runner-x").unwrap();
    let told = &pod["metadata"]["annotations"]["famulus.dev/rendered"];
    assert_eq!(told, &json!((before + 1).to_string()));
    let config: Value = serde_json::from_str(&bench.mounted("config.json")).unwrap();
    assert_eq!(config, json!({"api_key": "k", "units": "metric"}));
}

#[tokio::test]
async fn the_bearer_is_that_of_the_number() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    assert_eq!(bench.mounted("bearer"), bearer::runner(ROOT_KEY, "uid-weather", 2));
    assert_eq!(bench.mounted("keeper"), bearer::keeper(KEEPER_KEY, "uid-weather", 2));
}

#[tokio::test]
async fn a_plugin_that_is_restored_waits_for_its_files_where_it_has_a_volume() {
    for (state, expected) in [("Persistent", json!("a backup")), ("Ephemeral", Value::Null)] {
        let bench = Bench::new();
        bench.plugin(json!({"state": state, "runner": {"replicas": 1}}));
        bench.cluster.change("plugins", "weather", |plugin| {
            plugin["metadata"]["annotations"] = json!({"famulus.dev/restored-from": "a backup"});
        });
        bench.settle().await;
        let awaits = || {
            let wanted: Value = serde_json::from_str(&bench.mounted("wanted.json")).unwrap();
            wanted["awaits"].clone()
        };
        assert_eq!(awaits(), expected, "{state}");
        bench.build_ends(&revision('a'), &[]);
        bench.settle().await;
        let said = bench.message("Ready");
        assert_eq!(said.contains("from the backup a backup"), state == "Persistent", "{said}");
        bench.cluster.change("plugins", "weather", |plugin| {
            plugin["metadata"]["annotations"] = Value::Null;
        });
        bench.settle().await;
        assert_eq!(awaits(), Value::Null, "{state}");
        assert!(!bench.message("Ready").contains("backup"));
    }
}

#[tokio::test]
async fn a_secret_stands_in_secrets_alone() {
    let bench = Bench::new();
    secret(&bench, &[("api_key", "canary-of-the-owner")]);
    bench.plugin(NAMED());
    bench.settle().await;
    let both = |number| {
        let uid = "uid-weather";
        [bearer::runner(ROOT_KEY, uid, number), bearer::keeper(KEEPER_KEY, uid, number)]
    };
    let bearers: Vec<String> = (1..4).flat_map(both).collect();
    let canaries = || bearers.iter().map(String::as_str).chain(["canary-of-the-owner"]);
    let clean = || {
        let all = bench.cluster.all_but("secrets");
        for canary in canaries() {
            assert!(!all.contains(canary), "{canary}");
        }
        let mounted = bench.cluster.get("secrets", "weather-mounted").unwrap();
        for canary in canaries() {
            assert!(!mounted["metadata"].to_string().contains(canary), "the record holds {canary}");
        }
    };
    clean();
    bench.build_ends(&revision('a'), &["api_key"]);
    bench.settle().await;
    bench.runner_starts();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    clean();
}

#[tokio::test]
async fn a_secret_that_is_not_the_owners_is_not_given_to_a_plugin() {
    let table = [
        json!({"metadata": {"name": "mine", "labels": {"app.kubernetes.io/managed-by": "famulus-operator"}}}),
        json!({"metadata": {"name": "mine"}, "type": "kubernetes.io/service-account-token"}),
    ];
    for secret in table {
        let bench = Bench::new();
        bench.cluster.put("secrets", secret);
        bench.plugin(NAMED());
        bench.settle().await;
        assert_eq!(bench.ready(), ("False".into(), "SpecInvalid".into()));
        assert_eq!(bench.cluster.names("jobs"), [""; 0]);
    }
}

/// What the owner is told to do, so that the plugin `weather` gets the Secret.
const COMMAND: &str = "label secret mine famulus.dev/config-for=weather --overwrite";

#[tokio::test]
async fn a_secret_is_given_to_the_plugin_that_its_label_names_and_to_no_other() {
    for label in [None, Some("mail")] {
        let bench = Bench::new();
        secret_for(&bench, label, &[("api_key", "canary-of-another")]);
        bench.plugin(NAMED());
        bench.settle().await;
        bench.build_ends(&revision('a'), &["api_key"]);
        bench.settle().await;
        assert_eq!(bench.mounted("config.json"), "{}", "{label:?}");
        assert_eq!(bench.ready(), ("False".into(), "SecretNotGranted".into()), "{label:?}");
        assert!(bench.message("Ready").contains(COMMAND), "{}", bench.message("Ready"));
        secret(&bench, &[("api_key", "k")]);
        bench.settle().await;
        assert_eq!(bench.condition("Configured").1, "ConfigComplete", "{label:?}");
        assert!(bench.mounted("config.json").contains("\"k\""));
    }
    // It says so, too, of a plugin that could do without.
    let bench = Bench::new();
    secret_for(&bench, None, &[("units", "metric")]);
    bench.build(json!({})).await;
    bench.plugin(NAMED());
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "SecretNotGranted".into()));
}

#[tokio::test]
async fn what_serves_with_a_secret_without_the_label_goes_on_and_is_told_the_command() {
    let mut bench = Bench::new();
    secret(&bench, &[("api_key", "first")]);
    bench.plugin(NAMED());
    bench.settle().await;
    bench.build_ends(&revision('a'), &["api_key"]);
    bench.settle().await;
    bench.runner_starts();
    bench.settle().await;
    let before = bench.status()["rendered"].clone();
    // As after an upgrade, from an operator that asked for no label.
    secret_for(&bench, None, &[("api_key", "second")]);
    bench.restart();
    bench.settle().await;
    assert_eq!(bench.ready().1, "Running");
    assert_eq!(bench.condition("Configured"), ("False".into(), "SecretNotGranted".into()));
    assert!(bench.message("Configured").contains(COMMAND), "{}", bench.message("Configured"));
    assert!(bench.mounted("config.json").contains("first"), "what it has it keeps");
    assert_eq!(bench.status()["rendered"], before);
    secret(&bench, &[("api_key", "second")]);
    bench.settle().await;
    assert_eq!(bench.condition("Configured").1, "ConfigComplete");
    assert!(bench.mounted("config.json").contains("second"));
}

#[tokio::test]
async fn a_foreign_secret_with_the_name_is_not_overwritten() {
    let bench = Bench::new();
    bench.plugin(json!({}));
    bench.cluster.put("secrets", json!({"metadata": {"name": "weather-mounted"}, "data": {}}));
    let error = bench.try_reconcile().await.unwrap_err();
    assert_eq!(error.kind().name(), "blocked");
    assert_eq!(bench.cluster.writes(), [""; 0]);
}
