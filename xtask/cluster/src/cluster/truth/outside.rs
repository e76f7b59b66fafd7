//! That Pods find Services by name, and that the way out is there and can be closed.

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};
use xtask_shell::output_of;

use crate::cluster::internet;
use crate::cluster::kubectl::Kubectl;
use crate::cluster::namespace::Namespaces;
use crate::cluster::place::{DNS_SERVICE, Place};
use crate::cluster::wait;

use super::pods::{NAMESPACE, inside};
use super::report::Report;

/// A Pod that an earlier check has made, and its label.
const POD: &str = "plain";
const LABEL: &str = "test";

const POLICY: &str = "way-out";

/// How long a change of a policy may take.
const LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn check(report: &mut Report, kubectl: &Kubectl, place: &Place) {
    report.note("Services have names", names(kubectl));
    report.note("the internet serves files", serves_files(kubectl, place));
    report.note("the internet serves repositories", serves_repositories(place));
    report.note("policies close and open the way out", way_out(kubectl).await);
}

/// Without an internet its names are unknown, which is no failure, and those of Services are known.
pub(super) fn absent(kubectl: &Kubectl) -> Result<String> {
    let said = inside(kubectl, POD, &["sh", "-c", "nslookup canary.example || true"])?;
    ensure!(said.contains("NXDOMAIN"), "the answer is {said}");
    names(kubectl)
}

fn names(kubectl: &Kubectl) -> Result<String> {
    let said = inside(kubectl, POD, &["nslookup", "kube-dns.kube-system.svc.cluster.local"])?;
    ensure!(said.contains(&format!("Address: {DNS_SERVICE}\n")), "the answer is {said}");
    Ok(String::new())
}

fn serves_files(kubectl: &Kubectl, place: &Place) -> Result<String> {
    place.write(&format!("{}/index/simple/tool/index.html", internet::FOLDER), "a tool")?;
    let said = fetch(kubectl, "http://pypi.example/simple/tool/")?;
    ensure!(said == "a tool", "the answer is {said:?}");
    Ok(String::new())
}

fn serves_repositories(place: &Place) -> Result<String> {
    let repository = place.at(internet::FOLDER).join("git/empty.git");
    output_of(Command::new("git").args(["init", "--quiet", "--bare"]).arg(repository))?;
    let mut list = Namespaces::running(place)?.enter("git");
    output_of(list.args(["ls-remote", &format!("git://{}/empty.git", internet::GIT.address)]))?;
    Ok(String::new())
}

async fn way_out(kubectl: &Kubectl) -> Result<String> {
    let all = json!([{}]);
    let names = json!([{"ports": [{"port": 53, "protocol": "UDP"}]}]);
    let to = |block: Value| json!([names[0], {"to": [{"ipBlock": block}]}]);
    let canary = format!("{}/32", internet::CANARY.address);
    let others = json!({"cidr": "0.0.0.0/0", "except": [canary]});
    becomes(kubectl, true, "without a policy").await?;
    for (egress, is_open, what) in [
        (names.clone(), false, "when only names may be asked"),
        (to(json!({"cidr": canary})), true, "when its address is allowed"),
        (to(others), false, "when its address is excepted"),
        (all, true, "when all is allowed"),
    ] {
        kubectl.apply(&[policy(&egress)])?;
        becomes(kubectl, is_open, what).await?;
    }
    kubectl.call(&["delete", "networkpolicy", POLICY, "-n", NAMESPACE])?;
    Ok(String::new())
}

async fn becomes(kubectl: &Kubectl, is_open: bool, when: &str) -> Result<()> {
    let look = || {
        let reaches = fetch(kubectl, "http://canary.example/")?.contains("sings");
        Ok((reaches == is_open).then_some(()))
    };
    let state = if is_open { "closed" } else { "open" };
    match wait::until("the change", LIMIT, look).await {
        Ok(()) => Ok(()),
        Err(error) => bail!("{when} the way to the canary stays {state}: {error:#}"),
    }
}

/// What a Pod gets from a URL; nothing when it gets nothing.
fn fetch(kubectl: &Kubectl, url: &str) -> Result<String> {
    let script = format!("timeout 2 wget -q -O - {url} || true");
    inside(kubectl, POD, &["sh", "-c", &script])
}

fn policy(egress: &Value) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": POLICY, "namespace": NAMESPACE},
        "spec": {
            "podSelector": {"matchLabels": {"app": LABEL}},
            "policyTypes": ["Egress"],
            "egress": egress,
        },
    })
}
