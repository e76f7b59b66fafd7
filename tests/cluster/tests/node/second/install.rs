//! The second release: secrets that are known, a model that writes down, packages of its own.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use famulus_cluster_tests::helm::{CHART, VALUES, helm};
use famulus_cluster_tests::kubectl::{self, kubectl, object};
use famulus_cluster_tests::release;

use super::canary::Canary;
use super::{KEEPER, database, packages, private};

pub(super) const NAME: &str = "second";
/// The owner's Secret with the configuration of a plugin.
pub(super) const CONFIG: &str = "keeper-values";
/// The one with the password for packages.
const INDEX: &str = "mirror";
/// The one with what private repositories want.
const REACH: &str = "reach";

/// Each has letters that an address writes in another way. The root key has 32 bytes.
const SECRETS: [(&str, &str); 8] = [
    ("root key", "canary-of+the/root key=012345678"),
    ("token", "canary-of+the/token=0123456789abcdef"),
    ("database password", "canary-of+the/database password=0123"),
    ("model key", "canary-of+the/model=key-0123456789"),
    ("webhook secret", "canary-of+the/webhook secret=0123456"),
    ("configuration", "canary-of+a/plugin's configuration=01"),
    ("password of the index", "canary-of+the/index=password-01"),
    ("password of repositories", "canary-of+the/repositories=pass"),
];

fn secret(namespace: &str, name: &str, values: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values})
}

/// A Secret that is given to a plugin.
fn config(namespace: &str, name: &str, plugin: &str, values: &Value) -> Value {
    let mut secret = secret(namespace, name, values);
    secret["metadata"]["labels"] = json!({"famulus.dev/config-for": plugin});
    secret
}

/// Installs it, and returns its secrets.
pub(super) async fn install() -> Vec<Canary> {
    let sandbox = format!("{NAME}-sandbox");
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}});
    let [root, token, password, model, hook, given, index, reach] = SECRETS.map(|(_, value)| value);
    let in_address = password.replace('+', "%2B").replace('/', "%2F").replace(' ', "%20");
    let in_address = in_address.replace('=', "%3D");
    let place = database::start(password).await;
    let url = format!("postgres://famulus:{in_address}@{place}/famulus?sslmode=disable");
    let mut objects = vec![
        namespace,
        secret(NAME, "given-root-key", &json!({"key": root})),
        secret(NAME, "given-token", &json!({"token": token})),
        secret(NAME, "given-database", &json!({"url": url})),
        secret(NAME, "given-model", &json!({"api-key": model})),
        secret(NAME, "given-hook", &json!({"secret": hook})),
    ];
    objects.extend(writing_model().await);
    apply(NAME, &objects).await;

    helm(&[
        "upgrade",
        "--install",
        NAME,
        "-n",
        NAME,
        "--wait",
        "--timeout",
        "10m",
        CHART,
        "-f",
        VALUES,
        "--set",
        "crds.enabled=false",
        "--set",
        &format!(
            "plugins.packages.python={},plugins.packages.npm={}",
            packages::PYTHON,
            packages::NPM
        ),
        "--set",
        &format!(
            "plugins.packages.existingSecret={INDEX},plugins.repositories.existingSecret={REACH}"
        ),
        "--set",
        "secrets.rootKey.existingSecret=given-root-key",
        "--set",
        "secrets.token.existingSecret=given-token",
        "--set",
        &format!("database.existingSecret=given-database,database.port={}", database::PORT),
        "--set",
        "app.model.existingSecret=given-model,app.model.name=scripted",
        "--set",
        "app.model.baseUrl=http://model.second:8080/v1",
    ])
    .await;
    // The chart mounts no secret of a webhook: an owner adds it.
    let variable = |name: &str, value: &str| json!({"name": name, "value": value});
    let from = json!({"secretKeyRef": {"name": "given-hook", "key": "secret"}});
    let added = json!([
        {"name": "HOOK_SECRET", "valueFrom": from},
        variable("FAMULUS_CHANNELS__HTTP__WEBHOOK_URL", "http://model.second:8080/hook"),
        variable("FAMULUS_CHANNELS__HTTP__WEBHOOK_SECRET__ENV", "HOOK_SECRET"),
    ]);
    let containers = json!([{"name": "app", "env": added}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}}).to_string();
    kubectl(&["-n", NAME, "patch", "deployment", NAME, "-p", &patch]).await;
    kubectl(&["-n", NAME, "rollout", "status", "--timeout=10m", &format!("deployment/{NAME}")])
        .await;
    let values = json!({"api_key": given});
    let credentials = secret(&sandbox, INDEX, &packages::credentials(index));
    let repositories = secret(&sandbox, REACH, &private::credentials(reach));
    let config = config(&sandbox, CONFIG, KEEPER, &values);
    apply(&sandbox, &[config, credentials, repositories]).await;

    let places = [
        vec![format!("{NAME}/given-root-key")],
        vec![format!("{NAME}/given-token")],
        vec![format!("{NAME}/given-database")],
        vec![format!("{NAME}/given-model")],
        vec![format!("{NAME}/given-hook")],
        vec![format!("{sandbox}/keeper-mounted"), format!("{sandbox}/{CONFIG}")],
        vec![format!("{sandbox}/{INDEX}")],
        vec![format!("{sandbox}/{REACH}")],
    ];
    let canaries = SECRETS.into_iter().zip(places);
    canaries
        .map(|((name, value), places)| Canary { name, value: value.to_owned(), places })
        .collect()
}

pub(super) async fn uninstall() {
    helm(&["uninstall", NAME, "-n", NAME, "--wait", "--timeout", "10m"]).await;
    let sandbox = format!("{NAME}-sandbox");
    let all = [NAME, &sandbox, database::NAMESPACE];
    kubectl(&[&["delete", "namespace", "--ignore-not-found"], &all[..]].concat()).await;
}

/// A Pod and its Service, which keep to what the namespace will ask of Pods.
async fn writing_model() -> [Value; 2] {
    let first = release::name();
    let operator = object(&first, "deployment", &format!("{first}-operator")).await.unwrap();
    let variables = operator["spec"]["template"]["spec"]["containers"][0]["env"].clone();
    let mut variables = variables.as_array().unwrap().iter();
    let image = variables.find(|one| one["name"] == "FAMULUS_OPERATOR_RUNNER_IMAGE").unwrap();
    let confined = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let identity = json!({
        "runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    let labels = json!({"app": "model"});
    let metadata = json!({"name": "model", "namespace": NAME, "labels": labels});
    let container = json!({
        "name": "model", "image": image["value"], "securityContext": confined,
        "command": ["python3", "-u", "-c", include_str!("model.py")],
        "readinessProbe": {"tcpSocket": {"port": 8080}, "periodSeconds": 1},
    });
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": metadata,
        "spec": {
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 0,
            "securityContext": identity, "containers": [container],
        },
    });
    let ports = json!([{"port": 8080}]);
    let spec = json!({"selector": labels, "ports": ports});
    [pod, json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})]
}

async fn apply(namespace: &str, objects: &[Value]) {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    kubectl::apply(namespace, &list.to_string()).await.unwrap();
}

/// What the keys of a Secret hold, one after another.
pub(super) fn content(secret: &Value) -> String {
    let values = secret["data"].as_object().into_iter().flat_map(|data| data.values());
    let values = values.map(|value| STANDARD.decode(value.as_str().unwrap()).unwrap());
    values.map(|value| String::from_utf8_lossy(&value).into_owned() + "\n").collect()
}
