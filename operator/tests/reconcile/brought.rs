//! Values of a configuration that the app brings.

use hyper::Method;
use k8s_openapi::ByteString;
use serde_json::{Value, json};

use crate::bench::{Bench, revision};
use crate::cluster::How;

const VALUES: &str = "famulus.dev/values";

/// The app brings changes, and says so.
fn bring(bench: &Bench, changes: &Value, when: &str) {
    put(bench, changes, "weather");
    bench.annotate(VALUES, when);
}

fn put(bench: &Bench, changes: &Value, of: &str) {
    let bytes = serde_json::to_value(ByteString(changes.to_string().into_bytes())).unwrap();
    bench.cluster.put(
        "secrets",
        json!({
            "metadata": {"name": "weather-values", "labels": {"famulus.dev/config-for": of}},
            "type": "Opaque", "data": {"values.json": bytes},
        }),
    );
}

fn config(bench: &Bench) -> Value {
    serde_json::from_str(&bench.mounted("config.json")).unwrap()
}

fn is_left(bench: &Bench) -> bool {
    bench.cluster.get("secrets", "weather-values").is_some()
}

#[tokio::test]
async fn values_come_one_after_the_other_and_go() {
    let bench = Bench::new();
    bench.plugin(json!({"runner": {"replicas": 1}}));
    bench.settle().await;
    bench.build_ends(&revision('a'), &["api_key"]);
    bench.settle().await;
    assert_eq!(bench.ready(), ("False".into(), "KeysMissing".into()));
    let before = bench.status()["rendered"].as_i64().unwrap();

    bring(&bench, &json!({"api_key": "canary"}), "1");
    bench.settle().await;
    assert_eq!(bench.condition("Configured"), ("True".into(), "ConfigComplete".into()));
    assert_eq!(config(&bench), json!({"api_key": "canary"}));
    assert_eq!(bench.status()["configKeys"], json!(["api_key"]));
    assert_eq!(bench.status()["rendered"], before + 1);
    assert!(!is_left(&bench), "it was taken");
    assert!(!bench.cluster.all_but("secrets").contains("canary"));

    bring(&bench, &json!({"units": "metric"}), "2");
    bench.settle().await;
    assert_eq!(config(&bench), json!({"api_key": "canary", "units": "metric"}));
    bring(&bench, &json!({"api_key": null}), "3");
    bench.settle().await;
    assert_eq!(config(&bench), json!({"units": "metric"}));
    assert!(!is_left(&bench));
}

#[tokio::test]
async fn a_death_at_any_step_loses_nothing_and_leaves_nothing() {
    let steps = [
        (Method::PATCH, "secrets/weather-mounted"),
        (Method::DELETE, "secrets/weather-values"),
        (Method::GET, "secrets/weather-values"),
        (Method::PATCH, "plugins/weather/status"),
    ];
    for (method, what) in steps {
        for how in [How::Status(500, "InternalError"), How::Late(500, "InternalError")] {
            for later in 0..3 {
                let mut bench = Bench::new();
                bench.build(json!({})).await;
                bring(&bench, &json!({"token": "t"}), "1");
                for _ in 0..later {
                    bench.try_reconcile().await.unwrap();
                }
                bench.cluster.fail(method.clone(), what, how);
                // What comes of it is no matter: the process dies.
                drop(bench.try_reconcile().await);
                bench.restart();
                bench.settle().await;
                // Where nothing asked for it meanwhile, it is met now.
                bench.settle().await;
                assert_eq!(config(&bench), json!({"token": "t"}), "{method} {what} {later}");
                assert!(!is_left(&bench), "{method} {what} {later}");
            }
        }
    }
}

#[tokio::test]
async fn what_is_for_another_plugin_is_not_read() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    put(&bench, &json!({"token": "t"}), "another");
    bench.annotate(VALUES, "1");
    bench.settle().await;
    assert_eq!(config(&bench), json!({}));
    assert!(is_left(&bench));
}

#[tokio::test]
async fn values_of_before_do_not_come_back_behind_a_secret_of_the_owners() {
    let bench = Bench::new();
    bench.build(json!({})).await;
    bring(&bench, &json!({"token": "t"}), "1");
    bench.settle().await;
    let bytes = serde_json::to_value(ByteString(b"theirs".to_vec())).unwrap();
    bench.cluster.put(
        "secrets",
        json!({
            "metadata": {"name": "mine", "labels": {"famulus.dev/config-for": "weather"}},
            "type": "Opaque", "data": {"token": bytes},
        }),
    );
    bench.plugin(json!({"configSecretRef": {"name": "mine"}}));
    bench.settle().await;
    assert_eq!(config(&bench), json!({"token": "theirs"}));
    bench.plugin(json!({}));
    bench.settle().await;
    assert_eq!(config(&bench), json!({}), "neither theirs nor ours");
}
