//! Everything that the project has people apply, against the schemas of the API server that runs: a
//! field that it does not know is an error there, and so is a value of another type.

use serde_json::{Value, json};

use famulus_cluster_tests::helm::helm;
use famulus_cluster_tests::kubectl::{fed, kubectl};

/// Where the objects would be: nothing is there with which they could be at odds.
const NAMESPACE: &str = "strict";
const CLASS: &str = "strict.strict";

fn root(path: &str) -> String {
    format!("{}/../../{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Values of the chart, so that every template says all that it can say. A ServiceMonitor is left out:
/// its definition is another operator's.
fn values() -> [(&'static str, Value); 4] {
    let scheduling = json!({
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "famulus", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}},
        ]}},
        "topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"a": "b"}},
        }],
    });
    let part = json!({"replicas": 2, "scheduling": scheduling});
    let mut app = part.clone();
    app["owner"] = json!({"name": "Ada", "timeZone": "Europe/Berlin"});
    app["model"] = json!({
        "baseUrl": "https://model.example/v1", "name": "any", "existingSecret": "model",
    });
    app["config"] = json!("[turns]\nconcurrency = 2\n");
    app["ingress"] = json!({
        "enabled": true, "className": "nginx", "host": "famulus.example", "tlsSecret": "tls",
        "annotations": {"a": "b"},
    });
    let peer = json!([{"namespaceSelector": {"matchLabels": {"a": "b"}}}]);
    let rule = json!([{"ports": [{"protocol": "TCP", "port": 8443}]}]);
    let everything = json!({
        "image": {"pullSecrets": ["registry"]},
        "app": app,
        "operator": part,
        "resolver": {"replicas": 2, "scheduling": scheduling, "forwardTo": ["192.0.2.1@5353"]},
        "postgres": {"scheduling": scheduling, "settings": {"work_mem": "8MB"},
            "persistence": {"storageClass": "fast"}},
        "backup": {"recipient": "age1abc", "identity": {"existingSecret": "identity"},
            "s3": {"bucket": "backups", "prefix": "home", "endpoint": "https://s3.example:9000",
                "existingSecret": "s3", "ca": {"existingSecret": "ca"}},
            "keep": {"yearly": 7}, "scheduling": scheduling},
        "plugins": {"runtimeClassName": "gvisor", "nodeSelector": {"disk": "fast"},
            "tolerations": [{"operator": "Exists"}], "state": {"storageClass": "fast"},
            "buildResources": {"limits": {"memory": "1Gi"}}},
        "sandbox": {"breakGlass": {"users": ["ada"], "groups": ["admins"]},
            "limitRange": {"max": {"memory": "2Gi"}}},
        "network": {"appFrom": peer, "metricsFrom": peer, "extraAppEgress": rule,
            "extraOperatorEgress": rule, "extraBackupEgress": rule, "clusterRanges": ["192.0.2.0/24"],
            "buildHosts": [{"host": "git.home.example", "cidr": "192.168.1.20/32", "port": 443}]},
        "priorityClass": {"create": true},
        "telemetry": {"otlpEndpoint": "http://collector.monitoring:4318"},
    });
    let outside = json!({
        "database": {"existingSecret": "database"},
        "backup": {"database": {"existingSecret": "reader"},
            "persistence": {"existingClaim": "backups"}},
        "secrets": {"rootKey": {"existingSecret": "root"}, "token": {"existingSecret": "token"}},
        "network": {"enabled": false},
        "sandbox": {"quota": {"enabled": false}, "limitRange": {"enabled": false}},
    });
    let plain =
        json!({"hooks": {"enabled": false}, "postgres": {"persistence": {"enabled": false}}});
    [("defaults", json!({})), ("everything", everything), ("outside", outside), ("plain", plain)]
}

/// `kubectl apply` without keeping anything; what it did with each object, or its complaint.
async fn tried(manifests: &str) -> Result<String, String> {
    let args =
        ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict"];
    fed(&args, manifests).await
}

/// All of these manifests are taken; how many objects they are.
async fn taken(what: &str, manifests: &str) -> usize {
    let said = tried(manifests).await.unwrap_or_else(|complaint| panic!("{what}: {complaint}"));
    let objects = manifests.lines().filter(|line| line.starts_with("kind: ")).count();
    assert_eq!(said.lines().count(), objects, "{what}: {said}");
    objects
}

#[tokio::test]
async fn every_object_of_chart_base_and_samples_fits_the_schemas_of_the_server() {
    let sandbox = format!("{NAMESPACE}-sandbox");
    for namespace in [NAMESPACE, &sandbox] {
        kubectl(&["create", "namespace", namespace]).await;
    }
    // Pods name it, and what names it is looked at before it would be there.
    kubectl(&["create", "priorityclass", CLASS, "--value=100000"]).await;
    let file = std::env::temp_dir().join(format!("famulus-values-{}.json", std::process::id()));
    let path = file.to_str().unwrap();
    let mut seen = 0;
    for (what, values) in values() {
        std::fs::write(&file, values.to_string()).unwrap();
        let chart = root("charts/famulus");
        let args = ["template", NAMESPACE, &chart, "-n", NAMESPACE, "-f", path];
        seen += taken(what, &helm(&args).await).await;
    }
    std::fs::remove_file(&file).unwrap();
    let base = std::fs::read_to_string(root("config/base/famulus.yaml")).unwrap();
    let base = base.replace("namespace: famulus-sandbox\n", &format!("namespace: {sandbox}\n"));
    let base = base.replace("namespace: famulus\n", &format!("namespace: {NAMESPACE}\n"));
    seen += taken("config/base", &base).await;
    for sample in ["plugin-git", "plugin-inline"] {
        let sample =
            std::fs::read_to_string(root(&format!("config/samples/{sample}.yaml"))).unwrap();
        let sample = sample.replace("metadata:\n", &format!("metadata:\n  namespace: {sandbox}\n"));
        seen += taken("a sample", &sample).await;
    }
    assert!(seen > 150, "{seen} objects");

    // A field with a slip of the pen is found, wherever it stands.
    for (right, wrong, field) in [
        (
            "automountServiceAccountToken: false\n",
            "autoMountServiceAccountToken: false\n",
            "autoMount",
        ),
        ("  podSelector:\n", "  podSelektor:\n", "podSelektor"),
    ] {
        let slipped = base.replacen(right, wrong, 1);
        assert_ne!(slipped, base, "{right}");
        let complaint = tried(&slipped).await.unwrap_err();
        assert!(complaint.contains(field), "{complaint}");
    }
    for namespace in [NAMESPACE, &sandbox] {
        kubectl(&["delete", "namespace", namespace, "--wait=false"]).await;
    }
    kubectl(&["delete", "priorityclass", CLASS]).await;
}
