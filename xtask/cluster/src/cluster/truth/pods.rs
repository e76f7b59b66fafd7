//! That Pods run as they ask for, and that what must be refused is refused.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::images::BUSYBOX;
use crate::cluster::kubectl::Kubectl;
use crate::cluster::node::GVISOR;
use crate::cluster::wait;

use super::report::Report;

/// A namespace where only restricted Pods may be.
pub(super) const NAMESPACE: &str = "restricted";

/// How long a Pod may take; the first one of a runtime takes longest.
const LIMIT: Duration = Duration::from_mins(1);

/// How a Pod is kept apart from the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Runc,
    UserNamespace,
    Gvisor,
}

/// A Pod that a namespace for restricted ones accepts.
pub(super) struct Pod<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) label: &'a str,
    pub(super) kind: Kind,
    /// What it does instead of sleeping: serve HTTP on a port.
    pub(super) serves: Option<u16>,
}

pub(super) async fn check(report: &mut Report, kubectl: &Kubectl) {
    report.note("a restricted Pod becomes Ready", becomes_ready(kubectl).await);
    report.note("with a user namespace root is nobody", user_namespace(kubectl).await);
    report.note("with gVisor the kernel is another one", gvisor(kubectl).await);
    report.note("Pod Security refuses an ordinary Pod", refuses_ordinary(kubectl));
    report.note("nothing may be privileged", refuses_privileged(kubectl));
}

pub(super) async fn becomes_ready(kubectl: &Kubectl) -> Result<String> {
    make_namespace(kubectl, NAMESPACE).await?;
    let took = ready(kubectl, "plain", Kind::Runc).await?;
    let version = inside(kubectl, "plain", &["cat", "/proc/version"])?;
    ensure!(
        version == fs::read_to_string("/proc/version")?,
        "it runs on another kernel: {version}"
    );
    Ok(took)
}

async fn user_namespace(kubectl: &Kubectl) -> Result<String> {
    let took = ready(kubectl, "user-namespace", Kind::UserNamespace).await?;
    let map = inside(kubectl, "user-namespace", &["cat", "/proc/self/uid_map"])?;
    let outside: u64 = map.split_whitespace().nth(1).unwrap_or_default().parse()?;
    ensure!(outside >= 65_536, "its root is the user {outside} of the machine");
    Ok(took)
}

async fn gvisor(kubectl: &Kubectl) -> Result<String> {
    let took = ready(kubectl, "gvisor", Kind::Gvisor).await?;
    let version = inside(kubectl, "gvisor", &["cat", "/proc/version"])?;
    ensure!(version != fs::read_to_string("/proc/version")?, "it runs on the machine's kernel");
    Ok(took)
}

fn refuses_ordinary(kubectl: &Kubectl) -> Result<String> {
    let pod = Pod {
        namespace: NAMESPACE,
        name: "ordinary",
        label: "test",
        kind: Kind::Runc,
        serves: None,
    };
    let mut ordinary = pod.object();
    ordinary["spec"]["securityContext"] = json!({});
    ordinary["spec"]["containers"][0]["securityContext"] = json!({});
    refused(kubectl, &ordinary, "PodSecurity")
}

fn refuses_privileged(kubectl: &Kubectl) -> Result<String> {
    let pod = Pod {
        namespace: "default",
        name: "privileged",
        label: "test",
        kind: Kind::Runc,
        serves: None,
    };
    let mut privileged = pod.object();
    privileged["spec"]["containers"][0]["securityContext"] = json!({"privileged": true});
    refused(kubectl, &privileged, "disallowed by cluster policy")
}

fn refused(kubectl: &Kubectl, object: &Value, reason: &str) -> Result<String> {
    let Err(error) = kubectl.apply(std::slice::from_ref(object)) else {
        bail!("it was accepted");
    };
    ensure!(format!("{error:#}").contains(reason), "the reason is another one: {error:#}");
    Ok(String::new())
}

async fn ready(kubectl: &Kubectl, name: &str, kind: Kind) -> Result<String> {
    let pod = Pod { namespace: NAMESPACE, name, label: "test", kind, serves: None };
    let begun = Instant::now();
    kubectl.apply(&[pod.object()])?;
    pod.ready(kubectl).await?;
    Ok(format!("{:.2} s", begun.elapsed().as_secs_f64()))
}

pub(super) fn inside(kubectl: &Kubectl, pod: &str, command: &[&str]) -> Result<String> {
    let exec = ["exec", "-n", NAMESPACE, pod, "--"];
    kubectl.call(&[&exec[..], command].concat())
}

/// A namespace for restricted Pods, in which Pods can be made already.
pub(super) async fn make_namespace(kubectl: &Kubectl, name: &str) -> Result<()> {
    kubectl.apply(&[json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "labels": {"pod-security.kubernetes.io/enforce": "restricted"},
        },
    })])?;
    for namespace in [name, "default"] {
        let account = || Ok(kubectl.get(namespace, "serviceaccount", "default")?.map(drop));
        wait::until("the namespace's service account", LIMIT, account).await?;
    }
    Ok(())
}

impl Pod<'_> {
    pub(super) fn object(&self) -> Value {
        let mut container = json!({
            "name": "main",
            "image": BUSYBOX,
            "imagePullPolicy": "Never",
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
        });
        if let Some(port) = self.serves {
            container["command"] = json!(["httpd", "-f", "-p", port.to_string(), "-h", "/etc"]);
            // The node itself must always reach its Pods.
            container["readinessProbe"] = json!({"tcpSocket": {"port": port}, "periodSeconds": 1});
        }
        let mut spec = json!({
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": false,
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": 65_532,
                "runAsGroup": 65_532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
        });
        match self.kind {
            Kind::Runc => {}
            Kind::UserNamespace => spec["hostUsers"] = json!(false),
            Kind::Gvisor => spec["runtimeClassName"] = json!(GVISOR),
        }
        json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app": self.label},
            },
            "spec": spec,
        })
    }

    /// Waits until it is Ready, and returns its address.
    pub(super) async fn ready(&self, kubectl: &Kubectl) -> Result<String> {
        let mut last = Value::Null;
        let waited = wait::until("Ready", LIMIT, || {
            last = kubectl.get(self.namespace, "pod", self.name)?.unwrap_or_default();
            let conditions = last["status"]["conditions"].as_array();
            let is_ready = conditions
                .into_iter()
                .flatten()
                .any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
            let address = last["status"]["podIP"].as_str().map(str::to_owned);
            Ok(if is_ready { address } else { None })
        });
        match waited.await {
            Ok(address) => Ok(address),
            Err(error) => bail!("{error}; {}", self.reason(kubectl, &last)),
        }
    }

    /// Why it is not Ready: its containers' states and its last events.
    fn reason(&self, kubectl: &Kubectl, last: &Value) -> String {
        let of = format!("involvedObject.name={}", self.name);
        let events = kubectl.call(&[
            "get",
            "events",
            "-n",
            self.namespace,
            "--field-selector",
            &of,
            "-o",
            "jsonpath={range .items[*]}{.message}; {end}",
        ]);
        let events = events.unwrap_or_else(|error| format!("{error:#}"));
        format!("its containers: {}; its events: {events}", last["status"]["containerStatuses"])
    }
}
