//! That a claim gets a volume of its own size, which keeps what is in it and goes with the claim.

use std::time::Duration;

use anyhow::{Result, bail, ensure};
use serde_json::{Value, json};

use crate::cluster::kubectl::Kubectl;
use crate::cluster::place::Place;
use crate::cluster::{storage, wait};

use super::pods::{Kind, NAMESPACE, Pod, inside};
use super::report::Report;

const CLAIM: &str = "data";
const GROUP: u32 = 4_000;

const LIMIT: Duration = Duration::from_secs(20);

pub(super) async fn check(report: &mut Report, kubectl: &Kubectl, place: &Place) {
    report.note("a volume is its group's and has its size", writes(kubectl).await);
    report.note("a volume keeps what is in it", keeps(kubectl).await);
    report.note("a volume goes with its claim", goes(kubectl, place).await);
}

/// Without a class a claim waits, and nobody answers it.
pub(super) fn absent(kubectl: &Kubectl) -> Result<String> {
    let classes = kubectl.list("storageclass")?;
    ensure!(classes.is_empty(), "there is a class: {}", classes[0]["metadata"]["name"]);
    Ok(String::new())
}

async fn writes(kubectl: &Kubectl) -> Result<String> {
    kubectl.apply(&[claim()])?;
    run(kubectl, "writer", Kind::Runc).await?;
    inside(kubectl, "writer", &["sh", "-c", "echo kept >/data/note"])?;
    let fills = "dd if=/dev/zero of=/data/fill bs=1M count=100 2>&1; rm /data/fill";
    let said = inside(kubectl, "writer", &["sh", "-c", fills])?;
    ensure!(said.contains("No space left"), "a full volume takes more: {said}");
    Ok(String::new())
}

/// Other kinds of Pods find what the first one wrote.
async fn keeps(kubectl: &Kubectl) -> Result<String> {
    for (name, kind) in [("reader", Kind::UserNamespace), ("gvisor-reader", Kind::Gvisor)] {
        run(kubectl, name, kind).await?;
        let note = inside(kubectl, name, &["sh", "-c", "cat /data/note; echo kept >>/data/note"])?;
        ensure!(note.starts_with("kept\n"), "{name} finds {note:?}");
    }
    Ok(String::new())
}

async fn goes(kubectl: &Kubectl, place: &Place) -> Result<String> {
    kubectl.call(&["delete", "pod", "writer", "reader", "gvisor-reader", "-n", NAMESPACE])?;
    kubectl.call(&["delete", "pvc", CLAIM, "-n", NAMESPACE])?;
    let gone = || {
        let is_gone = kubectl.list("pv")?.is_empty() && storage::loops(place).is_empty();
        Ok(is_gone.then_some(()))
    };
    match wait::until("the end of the volume", LIMIT, gone).await {
        Ok(()) => Ok(String::new()),
        Err(error) => bail!("{error}; devices: {:?}", storage::loops(place)),
    }
}

async fn run(kubectl: &Kubectl, name: &str, kind: Kind) -> Result<()> {
    let pod = Pod { namespace: NAMESPACE, name, label: "volumes", kind, serves: None };
    let mut object = pod.object();
    let spec = &mut object["spec"];
    spec["securityContext"]["fsGroup"] = json!(GROUP);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "data", "mountPath": "/data"}]);
    spec["volumes"] = json!([{"name": "data", "persistentVolumeClaim": {"claimName": CLAIM}}]);
    kubectl.apply(&[object])?;
    pod.ready(kubectl).await.map(drop)
}

fn claim() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM, "namespace": NAMESPACE},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "32Mi"}},
        },
    })
}
