//! What is to be made and what is to be removed, told from the claims and volumes alone.

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cluster::place::NODE;

use super::PROVISIONER;

/// What a sweep has to do.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) make: Vec<Volume>,
    /// The names of volumes whose claims are gone.
    pub(super) remove: Vec<String>,
    /// Why a claim gets nothing.
    pub(super) refused: Vec<String>,
}

/// A volume that a claim waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) bytes: u64,
    claim: Value,
}

/// `objects` are all claims and all volumes.
pub(super) fn plan(objects: &[Value]) -> Plan {
    let mut plan = Plan::default();
    for object in objects {
        if object["kind"] == "PersistentVolume" && is_done(object) {
            plan.remove.push(object["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        }
        if object["kind"] == "PersistentVolumeClaim" && waits(object) {
            let name = &object["metadata"]["name"];
            match Volume::for_claim(object) {
                Ok(volume) if exists(objects, &volume.name) => {}
                Ok(volume) => plan.make.push(volume),
                Err(error) => plan.refused.push(format!("the claim {name}: {error:#}")),
            }
        }
    }
    plan
}

/// Whether a claim is ours and its Pod has found its node.
fn waits(claim: &Value) -> bool {
    let notes = &claim["metadata"]["annotations"];
    notes["volume.kubernetes.io/storage-provisioner"] == PROVISIONER
        && notes["volume.kubernetes.io/selected-node"] == NODE
        && claim["metadata"]["deletionTimestamp"].is_null()
        && claim["spec"]["volumeName"].is_null()
}

fn exists(objects: &[Value], volume: &str) -> bool {
    let is_it = |object: &Value| {
        object["kind"] == "PersistentVolume" && object["metadata"]["name"] == volume
    };
    objects.iter().any(is_it)
}

fn is_done(volume: &Value) -> bool {
    volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == PROVISIONER
        && volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
        && volume["status"]["phase"] == "Released"
}

impl Volume {
    fn for_claim(claim: &Value) -> Result<Self> {
        let id = claim["metadata"]["uid"].as_str().context("it has no id")?;
        anyhow::ensure!(claim["spec"]["volumeMode"] != "Block", "there are no block volumes");
        let size = &claim["spec"]["resources"]["requests"]["storage"];
        let size = size.as_str().context("it asks for no size")?;
        Ok(Self { name: format!("pvc-{id}"), bytes: bytes(size)?, claim: claim.clone() })
    }

    /// The object, for a filesystem that is mounted at `path`.
    pub(super) fn object(&self, path: &str) -> Value {
        let Self { name, claim, .. } = self;
        let metadata = &claim["metadata"];
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {
                "name": name,
                "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
            },
            "spec": {
                "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                "accessModes": claim["spec"]["accessModes"],
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": claim["spec"]["storageClassName"],
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": metadata["namespace"],
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                },
                "local": {"path": path},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [{
                    "key": "kubernetes.io/hostname",
                    "operator": "In",
                    "values": [NODE],
                }]}]}},
            },
        })
    }
}

/// A quantity of Kubernetes as the API server writes it down: whole, with or without a unit.
fn bytes(quantity: &str) -> Result<u64> {
    let end = quantity.find(|c: char| !c.is_ascii_digit()).unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(end);
    let factor = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1_u64 << 40,
        _ => anyhow::bail!("{quantity} is not understood as a size"),
    };
    let number: u64 = number.parse().with_context(|| format!("{quantity} is no size"))?;
    number.checked_mul(factor).with_context(|| format!("{quantity} is too large"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(size: &str, node: Value, volume: Value) -> Value {
        json!({
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": "data", "namespace": "default", "uid": "1",
                "annotations": {
                    "volume.kubernetes.io/storage-provisioner": PROVISIONER,
                    "volume.kubernetes.io/selected-node": node,
                },
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": size}},
                "volumeName": volume,
            },
        })
    }

    fn volume(by: &str, policy: &str, phase: &str) -> Value {
        json!({
            "kind": "PersistentVolume",
            "metadata": {
                "name": "pvc-1",
                "annotations": {"pv.kubernetes.io/provisioned-by": by},
            },
            "spec": {"persistentVolumeReclaimPolicy": policy},
            "status": {"phase": phase},
        })
    }

    #[test]
    fn a_claim_gets_a_volume_once_its_pod_has_a_node() {
        let check = |objects: &[Value], made: &[(&str, u64)], refused: usize| {
            let plan = plan(objects);
            let told: Vec<_> = plan.make.iter().map(|one| (one.name.as_str(), one.bytes)).collect();
            assert_eq!((told.as_slice(), plan.refused.len()), (made, refused), "{objects:?}");
        };
        let waiting = claim("64Mi", json!(NODE), Value::Null);
        check(&[], &[], 0);
        check(std::slice::from_ref(&waiting), &[("pvc-1", 64 << 20)], 0);
        check(&[claim("64Mi", Value::Null, Value::Null)], &[], 0);
        check(&[claim("64Mi", json!("other"), Value::Null)], &[], 0);
        check(&[claim("64Mi", json!(NODE), json!("pvc-1"))], &[], 0);
        check(&[claim("64Qi", json!(NODE), Value::Null)], &[], 1);
        check(&[waiting, volume(PROVISIONER, "Delete", "Available")], &[], 0);
    }

    #[test]
    fn a_volume_goes_when_its_claim_is_gone() {
        let check = |volume: Value, removed: usize| {
            assert_eq!(plan(std::slice::from_ref(&volume)).remove.len(), removed, "{volume}");
        };
        check(volume(PROVISIONER, "Delete", "Released"), 1);
        check(volume(PROVISIONER, "Delete", "Bound"), 0);
        check(volume(PROVISIONER, "Retain", "Released"), 0);
        check(volume("another", "Delete", "Released"), 0);
    }

    #[test]
    fn a_size_is_read_as_kubernetes_writes_it() {
        let check =
            |text: &str, wanted: Option<u64>| assert_eq!(bytes(text).ok(), wanted, "{text}");
        check("1", Some(1));
        check("2k", Some(2_000));
        check("1536Mi", Some(1536 << 20));
        check("1Gi", Some(1 << 30));
        check("Gi", None);
        check("1.5Gi", None);
        check("99999999Ti", None);
    }
}
