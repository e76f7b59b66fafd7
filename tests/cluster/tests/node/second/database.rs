//! A Postgres that the owner has already: elsewhere, on a port of its own, without anything of ours. It is
//! made ready by the words of docs/OPERATIONS.md.

use std::fs;
use std::path::Path;

use serde_json::json;

use famulus_cluster_tests::kubectl::{self, kubectl, object};
use famulus_cluster_tests::release;

pub(super) const NAMESPACE: &str = "second-house";
pub(super) const PORT: &str = "5433";
const NAME: &str = "house";

/// Starts it, and returns where it is.
pub(super) async fn start(password: &str) -> String {
    let first = release::name();
    let postgres = object(&first, "statefulset", &format!("{first}-postgres")).await.unwrap();
    let image = &postgres["spec"]["template"]["spec"]["containers"][0]["image"];
    let labels = json!({"app": NAME});
    let metadata = json!({"name": NAME, "namespace": NAMESPACE, "labels": labels});
    let mounts = [("data", "/var/lib/postgresql/data"), ("other", "/run/other")];
    let mounts = mounts.map(|(name, path)| json!({"name": name, "mountPath": path}));
    let container = json!({
        "name": "postgres", "image": image, "args": ["-c", format!("port={PORT}")],
        "env": [
            {"name": "POSTGRES_USER", "value": "other"},
            {"name": "POSTGRES_DB", "value": "other"},
            {"name": "POSTGRES_PASSWORD_FILE", "value": "/run/other/password"},
        ],
        "startupProbe": {
            "exec": {"command": ["pg_isready", "-q", "-h", "127.0.0.1", "-p", PORT]},
            "periodSeconds": 1, "failureThreshold": 300,
        },
        "volumeMounts": mounts,
    });
    let objects = json!([
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "other", "namespace": NAMESPACE},
            "stringData": {"password": "of another"},
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {
                "terminationGracePeriodSeconds": 0,
                "securityContext": {"runAsUser": 70, "runAsGroup": 70, "fsGroup": 70},
                "containers": [container],
                "volumes": [
                    {"name": "data", "emptyDir": {}},
                    {"name": "other", "secret": {"secretName": "other"}},
                ],
            },
        },
        {
            "apiVersion": "v1", "kind": "Service", "metadata": metadata,
            "spec": {"selector": labels, "ports": [{"port": PORT.parse::<u16>().unwrap()}]},
        },
    ]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kubectl::apply(NAMESPACE, &list.to_string()).await.unwrap();
    kubectl(&["-n", NAMESPACE, "wait", "--for=condition=Ready", "--timeout=5m", "pod/house"]).await;
    // As one comes that never heard of us.
    inside("psql -U postgres -d template1 -c 'drop extension vector'").await;
    inside(&format!("psql -U postgres -v ON_ERROR_STOP=1 <<'END'\n{}\nEND", words(password))).await;
    format!("{NAME}.{NAMESPACE}:{PORT}")
}

/// Runs a command beside it, which knows its port.
pub(super) async fn inside(command: &str) -> String {
    let command = format!("export PGPORT={PORT}; {command}");
    kubectl(&["-n", NAMESPACE, "exec", NAME, "--", "/bin/sh", "-ec", &command]).await
}

/// What the document has an owner say, with a password.
fn words(password: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/OPERATIONS.md");
    let text = fs::read_to_string(file).unwrap();
    let chapter = text.split("\n## A Postgres of your own\n").nth(1).unwrap();
    let words = chapter.split("```sql\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(words.contains("password '…'"), "{words}");
    words.replace('…', password)
}
