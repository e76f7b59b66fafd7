//! What decides: etcd, the API server, the controllers and the scheduler.

use anyhow::Result;
use serde_json::json;

use super::build::Programs;
use super::place::{NODE_ADDRESS, PODS, Place, SERVICES};
use super::processes::Process;

/// Loopback of the cluster's own network.
const ETCD: &str = "http://127.0.0.1:2379";
const ETCD_PEERS: &str = "http://127.0.0.1:2380";

const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// What the API server writes down of every request: who did what to which object, without content.
pub(super) fn write_audit_policy(place: &Place) -> Result<()> {
    let policy = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata"}],
    });
    place.write("audit-policy.json", serde_json::to_vec_pretty(&policy)?).map(drop)
}

pub(super) fn etcd(place: &Place, programs: &Programs) -> Result<Process> {
    let args = [
        ("data-dir", place.text("etcd")),
        ("listen-client-urls", ETCD.to_owned()),
        ("advertise-client-urls", ETCD.to_owned()),
        ("listen-peer-urls", ETCD_PEERS.to_owned()),
        ("initial-advertise-peer-urls", ETCD_PEERS.to_owned()),
        ("initial-cluster", format!("default={ETCD_PEERS}")),
        // It waits for no disk: a cluster that is thrown away need not outlive the machine, and where
        // builds keep the disk busy, the API server would not answer for minutes.
        ("unsafe-no-fsync", "true".to_owned()),
    ];
    process(programs, "etcd", args)
}

/// Admission and Pod Security stay as they are by default, and nothing may be privileged.
pub(super) fn apiserver(place: &Place, programs: &Programs) -> Result<Process> {
    let key = |name: &str| place.text(&format!("keys/{name}"));
    let args = [
        ("etcd-servers", ETCD.to_owned()),
        ("secure-port", "6443".to_owned()),
        ("advertise-address", NODE_ADDRESS.to_owned()),
        ("tls-cert-file", key("apiserver.crt")),
        ("tls-private-key-file", key("apiserver.key")),
        ("client-ca-file", key("authority.crt")),
        ("kubelet-client-certificate", key("apiserver-kubelet.crt")),
        ("kubelet-client-key", key("apiserver-kubelet.key")),
        // Else it looks for the node's name, which nobody resolves.
        ("kubelet-preferred-address-types", "InternalIP".to_owned()),
        ("service-account-issuer", ISSUER.to_owned()),
        ("service-account-key-file", key("accounts.pub")),
        ("service-account-signing-key-file", key("accounts.key")),
        ("service-cluster-ip-range", SERVICES.to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("enable-admission-plugins", "NodeRestriction".to_owned()),
        ("allow-privileged", "false".to_owned()),
        ("audit-policy-file", place.text("audit-policy.json")),
        ("audit-log-path", place.text("audit.log")),
        // Who reads it reads one file from its beginning; it is begun anew after 100 MB otherwise.
        ("audit-log-maxsize", "2048".to_owned()),
    ];
    process(programs, "kube-apiserver", args)
}

pub(super) fn controller_manager(place: &Place, programs: &Programs) -> Result<Process> {
    let key = |name: &str| place.text(&format!("keys/{name}"));
    let mut args = as_client(place, "controller-manager");
    args.extend([
        ("use-service-account-credentials", "true".to_owned()),
        ("service-account-private-key-file", key("accounts.key")),
        ("root-ca-file", key("authority.crt")),
        ("allocate-node-cidrs", "true".to_owned()),
        ("cluster-cidr", PODS.to_owned()),
        ("service-cluster-ip-range", SERVICES.to_owned()),
    ]);
    process(programs, "kube-controller-manager", args)
}

pub(super) fn scheduler(place: &Place, programs: &Programs) -> Result<Process> {
    process(programs, "kube-scheduler", as_client(place, "scheduler"))
}

fn as_client(place: &Place, name: &str) -> Vec<(&'static str, String)> {
    let kubeconfig = place.text(&format!("keys/{name}.kubeconfig"));
    let mut args: Vec<_> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .map(|name| (name, kubeconfig.clone()))
        .into();
    // There is only one of each.
    args.push(("leader-elect", "false".to_owned()));
    args
}

fn process(
    programs: &Programs,
    name: &'static str,
    args: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Process> {
    let args = args.into_iter().map(|(name, value)| format!("--{name}={value}")).collect();
    Ok(Process { name, program: programs.path(name)?, args, env: Vec::new() })
}
