//! What runs Pods: containerd with its runtimes, the kubelet and the proxy of Services.

use anyhow::Result;
use clap::ValueEnum;
use serde_json::{Value, json};

use super::build::Programs;
use super::images::PAUSE;
use super::kubectl::Kubectl;
use super::network;
use super::place::{DNS_SERVICE, DOMAIN, NODE, NODE_ADDRESS, PODS, Place};
use super::processes::Process;

/// The name under which Pods ask for gVisor.
pub(super) const GVISOR: &str = "gvisor";

/// How its handler is called in containerd.
const GVISOR_HANDLER: &str = "runsc";

/// Whether there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Nodes {
    /// One that runs Pods
    One,
    /// An API server alone: no controllers either, and what is chosen besides counts for nothing
    None,
}

/// Writes the configuration of all of them.
pub(super) fn write_configuration(place: &Place) -> Result<()> {
    for folder in ["containerd", "kubelet", "log/pods", network::CONFIGURATION] {
        place.make_folder(folder)?;
    }
    place.write("containerd.toml", containerd_configuration(place))?;
    place.write("kubelet.json", serde_json::to_vec_pretty(&kubelet_configuration(place))?)?;
    Ok(())
}

/// The programs stand first on the search path, so that its own shims and runtimes are taken.
pub(super) fn containerd(place: &Place, programs: &Programs, path: &str) -> Result<Process> {
    Ok(Process {
        name: "containerd",
        program: programs.path("containerd")?,
        args: vec![format!("--config={}", place.text("containerd.toml"))],
        env: vec![
            ("PATH", format!("{}:{path}", programs.search_path())),
            // The network's plugin inherits it.
            ("CILIUM_SOCK", place.text(network::SOCKET)),
        ],
    })
}

pub(super) fn kubelet(place: &Place, programs: &Programs) -> Result<Process> {
    Ok(Process {
        name: "kubelet",
        program: programs.path("kubelet")?,
        args: vec![
            format!("--config={}", place.text("kubelet.json")),
            format!("--kubeconfig={}", place.text("keys/kubelet.kubeconfig")),
            format!("--hostname-override={NODE}"),
            format!("--node-ip={NODE_ADDRESS}"),
            format!("--root-dir={}", place.text("kubelet")),
        ],
        env: Vec::new(),
    })
}

pub(super) fn proxy(place: &Place, programs: &Programs) -> Result<Process> {
    Ok(Process {
        name: "kube-proxy",
        program: programs.path("kube-proxy")?,
        args: vec![
            format!("--kubeconfig={}", place.text("keys/proxy.kubeconfig")),
            "--proxy-mode=nftables".to_owned(),
            format!("--hostname-override={NODE}"),
            format!("--cluster-cidr={PODS}"),
            // Limits of the whole machine stay as they are.
            "--conntrack-max-per-core=0".to_owned(),
            "--conntrack-min=0".to_owned(),
            "--oom-score-adj=0".to_owned(),
        ],
        env: Vec::new(),
    })
}

/// Tells Pods how to ask for gVisor.
pub(super) fn runtime_class() -> Value {
    json!({
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": GVISOR},
        "handler": GVISOR_HANDLER,
    })
}

fn containerd_configuration(place: &Place) -> String {
    format!(
        r#"version = 3
root = "{root}"
state = "{state}"
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
address = "{socket}"

# Whoever unmounts a container's files waits until the machine's disk has written all there is to
# write, be it of others. Nothing of a container outlives it here.
[plugins."io.containerd.snapshotter.v1.overlayfs"]
mount_options = ["volatile"]

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{PAUSE}"

[plugins."io.containerd.cri.v1.runtime"]
# Lowering the score needs a capability that root does not have everywhere.
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{plugins}"]
conf_dir = "{networks}"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.{GVISOR_HANDLER}]
runtime_type = "io.containerd.runsc.v1"
"#,
        root = place.text("containerd/root"),
        state = place.text("containerd/state"),
        socket = place.text("containerd/containerd.sock"),
        plugins = place.text(network::PLUGINS),
        networks = place.text(network::CONFIGURATION),
    )
}

fn kubelet_configuration(place: &Place) -> Value {
    let key = |name: &str| place.text(&format!("keys/{name}"));
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": key("authority.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": key("kubelet.crt"),
        "tlsPrivateKeyFile": key("kubelet.key"),
        "containerRuntimeEndpoint":
            format!("unix://{}", place.text("containerd/containerd.sock")),
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": DOMAIN,
        // The machine's resolver is not the Pods' business.
        "resolvConf": "",
        "podLogsDir": place.text("log/pods"),
        "volumePluginDir": place.text("kubelet/volume-plugins"),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", place.cgroup()),
        "enforceNodeAllocatable": [],
        "failCgroupV1": false,
        "failSwapOn": false,
        "localStorageCapacityIsolation": true,
        "evictionHard": {"memory.available": "100Mi"},
        // What was not pulled cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "registryPullQPS": 0,
        "serializeImagePulls": false,
        "nodeStatusUpdateFrequency": "4s",
        // Of what root may have without further capabilities.
        "oomScoreAdj": 0,
        "maxOpenFiles": 20000,
    })
}

/// The node's word that it is ready, if that is its word now.
pub(super) fn ready(kubectl: &Kubectl) -> Option<Value> {
    let node = kubectl.get("", "node", NODE).ok().flatten()?;
    let conditions = node["status"]["conditions"].as_array()?;
    let is_ready = |one: &&Value| one["type"] == "Ready" && one["status"] == "True";
    conditions.iter().find(is_ready).cloned()
}
