//! Volumes: for each claim a filesystem of exactly the size that was asked for.
//!
//! A volume is a file in the work folder with an ext4 in it, mounted through a loop device inside
//! the cluster's mounts. The kernel lets the device go with its last mount, so nothing of it stays
//! when the cluster ends. Kubernetes sees a volume of the kind `local`: the kubelet gives it to a
//! Pod's `fsGroup`, and a full one is full.

mod disk;
mod plan;
mod provisioner;

use std::fs;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::build::Programs;
use super::place::Place;
use super::processes::Process;

pub(super) use disk::{loops, mount_again};
pub(super) use provisioner::run;

/// Who makes the volumes, as claims and volumes name it.
const PROVISIONER: &str = "famulus.test/disk";

/// The variants of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Storage {
    /// A default class that makes a filesystem for each claim
    Standard,
    /// No class: claims stay pending
    None,
}

impl Storage {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Standard => "standard",
            Self::None => "none",
        }
    }
}

/// The class that claims get when they name none.
pub(super) fn class() -> Value {
    json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {
            "name": Storage::Standard.name(),
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
        },
        "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// This program itself, as a part of the cluster: a copy, since the next build replaces it.
pub(super) fn process(place: &Place, programs: &Programs) -> Result<Process> {
    let program = place.at("provisioner");
    fs::copy("/proc/self/exe", &program).context("cannot copy this program")?;
    let kubectl = programs.path("kubectl")?.to_string_lossy().into_owned();
    let words = ["cluster", "provision", "--name", &place.name, "--kubectl", &kubectl];
    Ok(Process { name: "storage", program, args: words.map(str::to_owned).into(), env: Vec::new() })
}
