//! The names of Services: CoreDNS as a Pod, where every cluster has it, so that a policy that lets
//! Pods ask for names is the one that works elsewhere.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use super::images::COREDNS;
use super::internet::{self, Internet};
use super::kubectl::Kubectl;
use super::place::{DNS_SERVICE, DOMAIN, Place};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "coredns";
/// Policies select the Pods by this label.
const LABEL: &str = "kube-dns";
const PORT: u16 = 53;
const READY_PORT: u16 = 8181;

/// Everything that it consists of.
pub(super) fn objects(internet: Internet) -> Vec<Value> {
    vec![
        object("v1", "ServiceAccount", json!({})),
        role(),
        binding(),
        object("v1", "ConfigMap", json!({"data": {"Corefile": corefile(internet)}})),
        deployment(),
        service(),
    ]
}

/// Whether it answers.
pub(super) fn is_ready(kubectl: &Kubectl) -> bool {
    let found = kubectl.get(NAMESPACE, "deployment", NAME).ok().flatten().unwrap_or_default();
    found["status"]["readyReplicas"] == 1
}

/// The file that makes a program outside of Pods ask it.
pub(super) fn resolver(place: &Place) -> Result<PathBuf> {
    let content = format!("nameserver {DNS_SERVICE}\nsearch svc.{DOMAIN} {DOMAIN}\n");
    place.write("resolv.conf", content)
}

/// No cache: a test sees at once what has changed.
fn corefile(internet: Internet) -> String {
    let elsewhere = match internet {
        Internet::Beside => format!("forward . {}", internet::DNS),
        // Else it says that it failed, and whoever asked asks again.
        Internet::None => "template ANY ANY {\n        rcode NXDOMAIN\n    }".to_owned(),
    };
    format!(
        "{DOMAIN}:{PORT} in-addr.arpa:{PORT} {{
    errors
    ready :{READY_PORT}
    kubernetes {DOMAIN} in-addr.arpa {{
        pods insecure
    }}
}}
.:{PORT} {{
    errors
    {elsewhere}
}}
"
    )
}

/// An object of a kind, with `rest` beside its name.
fn object(version: &str, kind: &str, rest: Value) -> Value {
    let mut object = json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": NAME, "namespace": NAMESPACE},
    });
    if let (Value::Object(object), Value::Object(rest)) = (&mut object, rest) {
        object.extend(rest);
    }
    object
}

fn role() -> Value {
    let sees = ["endpoints", "namespaces", "pods", "services"];
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": NAME},
        "rules": [
            {"apiGroups": [""], "resources": sees, "verbs": ["list", "watch"]},
            {
                "apiGroups": ["discovery.k8s.io"],
                "resources": ["endpointslices"],
                "verbs": ["list", "watch"],
            },
        ],
    })
}

fn binding() -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
        "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
    })
}

fn deployment() -> Value {
    let labels = json!({"k8s-app": LABEL});
    object(
        "apps/v1",
        "Deployment",
        json!({"spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod()},
        }}),
    )
}

fn pod() -> Value {
    json!({
        "serviceAccountName": NAME,
        // It is the one that is asked.
        "dnsPolicy": "Default",
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": 65_532,
            "seccompProfile": {"type": "RuntimeDefault"},
            // A policy allows the port of the Pod, not that of the Service: they are the same.
            "sysctls": [{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}],
        },
        "containers": [{
            "name": NAME,
            "image": COREDNS,
            "imagePullPolicy": "Never",
            "ports": [
                {"name": "dns", "containerPort": PORT, "protocol": "UDP"},
                {"name": "dns-tcp", "containerPort": PORT, "protocol": "TCP"},
            ],
            "readinessProbe": {"httpGet": {"path": "/ready", "port": READY_PORT}, "periodSeconds": 1},
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "capabilities": {"drop": ["ALL"]},
                "readOnlyRootFilesystem": true,
            },
            "volumeMounts": [{"name": "configuration", "mountPath": "/etc/coredns"}],
        }],
        "volumes": [{"name": "configuration", "configMap": {"name": NAME}}],
    })
}

fn service() -> Value {
    let mut service = object(
        "v1",
        "Service",
        json!({"spec": {
            "clusterIP": DNS_SERVICE,
            "selector": {"k8s-app": LABEL},
            "ports": [
                {"name": "dns", "port": PORT, "protocol": "UDP"},
                {"name": "dns-tcp", "port": PORT, "protocol": "TCP"},
            ],
        }}),
    );
    // The name that everybody knows.
    service["metadata"]["name"] = json!(LABEL);
    service["metadata"]["labels"] = json!({"k8s-app": LABEL});
    service
}
