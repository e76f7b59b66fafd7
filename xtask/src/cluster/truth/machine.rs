//! What a cluster could change on the machine around it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::cluster::sysctls;

/// Where programs of a node leave things when nothing keeps them from it.
const TRACES: [&str; 10] = [
    "/etc/cni",
    "/opt/cni",
    "/run/cilium",
    "/run/containerd",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// Folders whose entries are counted.
const LISTED: [&str; 3] = ["/run/netns", "/sys/class/net", "/sys/fs/bpf"];

/// Everything that is looked at, one thing a line.
pub(super) fn facts() -> Result<BTreeSet<String>> {
    let mut facts: BTreeSet<String> = sysctls::of_the_machine().into_iter().collect();
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    facts.extend(mounts.lines().map(|line| format!("mount {line}")));
    let traces = TRACES.iter().filter(|path| Path::new(path).exists());
    facts.extend(traces.map(|path| (*path).to_owned()));
    for folder in LISTED {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        facts.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    groups(Path::new("/sys/fs/cgroup"), &mut facts);
    Ok(facts)
}

/// Fails with every difference.
pub(super) fn compare(before: &BTreeSet<String>) -> Result<String> {
    let after = facts()?;
    let new = after.difference(before).map(|fact| format!("new: {fact}"));
    let gone = before.difference(&after).map(|fact| format!("gone: {fact}"));
    let all: Vec<String> = new.chain(gone).collect();
    if !all.is_empty() {
        bail!("{}", all.join("; "));
    }
    Ok(format!("{} facts", after.len()))
}

/// Control groups that have to do with clusters, at any depth.
fn groups(folder: &Path, facts: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["cluster-", "kubepods", "k8s.io"].iter().any(|part| name.contains(part)) {
                facts.insert(entry.path().display().to_string());
            }
            groups(&entry.path(), facts);
        }
    }
}
