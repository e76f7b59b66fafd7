//! What connects the Pods: with an enforcer of network policies, or without one.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use serde_json::json;

use super::build::{Programs, copy};
use super::kubectl::Kubectl;
use super::pins::{self, Module};
use super::place::{NODE, NODE_ADDRESS, NODE_INTERFACE, NODE_PODS, PODS, Place};
use super::processes::Process;

/// Where containerd looks for the networks of Pods; one file there is one network.
pub(super) const CONFIGURATION: &str = "network/configuration";
/// The programs that connect a Pod.
pub(super) const PLUGINS: &str = "network/plugins";
/// Where the plugin finds the enforcer.
pub(super) const SOCKET: &str = "cilium/cilium.sock";

/// What the enforcer writes when it is ready.
const READY: &str = "05-cilium.conflist";
/// The same again.
const AGAIN: &str = "06-cilium.conflist";

/// The variants of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Network {
    /// Cilium, which enforces network policies
    Cilium,
    /// Plain interfaces: every network policy is ignored
    None,
}

impl Network {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cilium => "cilium",
            Self::None => "none",
        }
    }

    /// What a cluster with this network needs beside what every cluster has.
    pub(super) fn modules(self) -> Option<&'static Module> {
        match self {
            Self::Cilium => Some(&pins::CILIUM),
            Self::None => None,
        }
    }

    /// Sets down what has to be there before containerd starts.
    pub(super) fn prepare(self, place: &Place, programs: &Programs) -> Result<()> {
        let plugins = place.make_folder(PLUGINS)?;
        let of_variant = match self {
            Self::Cilium => ["loopback", "cilium-cni"].as_slice(),
            Self::None => ["loopback", "ptp", "host-local"].as_slice(),
        };
        for plugin in of_variant {
            symlink(programs.path(plugin)?, plugins.join(plugin))?;
        }
        match self {
            Self::Cilium => prepare_cilium(place, programs),
            Self::None => write_plain(place),
        }
    }
}

/// Every Pod has an interface that leads to the node, and the node routes.
fn write_plain(place: &Place) -> Result<()> {
    let configuration = json!({
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{
            "type": "ptp",
            "ipam": {
                "type": "host-local",
                "ranges": [[{"subnet": NODE_PODS}]],
                "routes": [{"dst": "0.0.0.0/0"}],
            },
        }],
    });
    let path = format!("{CONFIGURATION}/10-plain.conflist");
    place.write(&path, serde_json::to_vec_pretty(&configuration)?).map(drop)
}

/// The enforcer compiles its sources for each Pod, in a folder where it may write.
fn prepare_cilium(place: &Place, programs: &Programs) -> Result<()> {
    place.make_folder("cilium/state")?;
    let sources = place.make_folder("cilium/lib")?.join("bpf");
    copy(&programs.path("bpf")?, &sources).context("cannot copy the enforcer's sources")?;
    // The compiler is newer than the sources: some of its warnings are new, and warnings are errors.
    let clang = place.write("cilium/bin/clang", "#!/bin/sh\nexec clang-19 \"$@\" -w\n")?;
    fs::set_permissions(&clang, fs::Permissions::from_mode(0o755))?;
    let llc = place.write("cilium/bin/llc", "#!/bin/sh\nexec llc-19 \"$@\"\n")?;
    Ok(fs::set_permissions(&llc, fs::Permissions::from_mode(0o755))?)
}

/// Applies the kinds of objects in which the enforcer keeps what it knows.
pub(super) fn apply_kinds(kubectl: &Kubectl, programs: &Programs) -> Result<()> {
    let kinds = programs.path("crds")?;
    let (newer, older) = (kinds.join("v2"), kinds.join("v2alpha1"));
    let (newer, older) = (newer.to_string_lossy(), older.to_string_lossy());
    kubectl.call(&["apply", "--server-side", "-f", &newer, "-f", &older]).map(drop)
}

pub(super) fn cilium(place: &Place, programs: &Programs, path: &str) -> Result<Process> {
    let args = [
        ("k8s-kubeconfig-path", place.text("keys/admin.kubeconfig")),
        ("k8s-api-server", format!("https://{NODE_ADDRESS}:6443")),
        ("kube-proxy-replacement", "false".to_owned()),
        ("enable-ipv4", "true".to_owned()),
        ("enable-ipv6", "false".to_owned()),
        ("enable-ipv4-masquerade", "false".to_owned()),
        ("ipam", "kubernetes".to_owned()),
        ("identity-allocation-mode", "crd".to_owned()),
        ("routing-mode", "native".to_owned()),
        ("ipv4-native-routing-cidr", PODS.to_owned()),
        ("devices", NODE_INTERFACE.to_owned()),
        ("direct-routing-device", NODE_INTERFACE.to_owned()),
        ("enable-local-node-route", "true".to_owned()),
        ("enable-l7-proxy", "false".to_owned()),
        ("enable-hubble", "false".to_owned()),
        ("enable-health-checking", "false".to_owned()),
        ("enable-endpoint-health-checking", "false".to_owned()),
        ("enable-bpf-clock-probe", "false".to_owned()),
        ("preallocate-bpf-maps", "false".to_owned()),
        ("bpf-root", "/sys/fs/bpf".to_owned()),
        ("lib-dir", place.text("cilium/lib")),
        ("state-dir", place.text("cilium/state")),
        ("socket-path", place.text(SOCKET)),
        ("write-cni-conf-when-ready", place.text(&format!("{CONFIGURATION}/{READY}"))),
        ("cni-exclusive", "false".to_owned()),
    ];
    Ok(Process {
        name: "cilium-agent",
        program: programs.path("cilium-agent")?,
        args: args.iter().map(|(name, value)| format!("--{name}={value}")).collect(),
        env: vec![
            ("K8S_NODE_NAME", NODE.to_owned()),
            ("PATH", format!("{}:{path}", place.text("cilium/bin"))),
        ],
    })
}

/// Forgets that the enforcer was ready.
pub(super) fn forget(place: &Place) -> Result<()> {
    for file in [READY, AGAIN] {
        let file = place.at(CONFIGURATION).join(file);
        if file.exists() {
            fs::remove_file(file)?;
        }
    }
    Ok(())
}

/// Whether the enforcer is ready. Then its configuration is written once more under another name:
/// containerd overlooks a file that was renamed into the folder.
pub(super) fn is_ready(place: &Place) -> Result<bool> {
    let folder = place.at(CONFIGURATION);
    let is_written = |file: &Path| fs::metadata(file).is_ok_and(|metadata| metadata.len() > 0);
    if !is_written(&folder.join(READY)) {
        return Ok(false);
    }
    let again = folder.join(AGAIN);
    if !is_written(&again) {
        fs::copy(folder.join(READY), again)?;
    }
    Ok(true)
}
