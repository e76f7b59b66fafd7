//! What a cluster could change on the machine around it. What plainly belongs to somebody else is left
//! out: others work on the machine meanwhile, with clusters of their own too.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use xtask_shell::workspace::cache;

use crate::cluster::place::Place;
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

/// Folders of the system: a mount elsewhere is somebody's own.
const SYSTEM: [&str; 8] = ["/dev", "/etc", "/opt", "/proc", "/run", "/sys", "/usr", "/var"];

/// Everything that is looked at, one thing a line. `ours` are the clusters under test.
pub(super) fn facts(ours: &[&Place]) -> Result<BTreeSet<String>> {
    let mut facts: BTreeSet<String> = sysctls::of_the_machine().into_iter().collect();
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mounts = mounts.lines().filter(|line| is_ours_or_the_systems(line, ours));
    facts.extend(mounts.map(|line| format!("mount {line}")));
    let traces = TRACES.iter().filter(|path| Path::new(path).exists());
    facts.extend(traces.map(|path| (*path).to_owned()));
    for folder in LISTED {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        facts.extend(entries.map(|entry| entry.path().display().to_string()));
    }
    let own: Vec<String> = ours.iter().map(|place| place.cgroup()).collect();
    groups(Path::new("/sys/fs/cgroup"), &own, &mut facts);
    Ok(facts)
}

/// Fails with every difference.
pub(super) fn compare(before: &BTreeSet<String>, ours: &[&Place]) -> Result<String> {
    let after = facts(ours)?;
    let new = after.difference(before).map(|fact| format!("new: {fact}"));
    let gone = before.difference(&after).map(|fact| format!("gone: {fact}"));
    let all: Vec<String> = new.chain(gone).collect();
    if !all.is_empty() {
        bail!("{}", all.join("; "));
    }
    Ok(format!("{} facts", after.len()))
}

/// Whether a line of the table of mounts may have to do with a cluster of ours.
fn is_ours_or_the_systems(line: &str, ours: &[&Place]) -> bool {
    let point = Path::new(line.split(' ').nth(1).unwrap_or_default());
    let is_systems = SYSTEM.iter().any(|folder| point.starts_with(folder));
    let is_ours = ours.iter().any(|place| point.starts_with(&place.folder));
    is_ours || (is_systems && !point.starts_with(cache()))
}

/// Control groups that have to do with clusters, at any depth, but not with those of others.
fn groups(folder: &Path, own: &[String], facts: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_others = name.starts_with("cluster-") && !own.contains(&name);
        if is_others || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if own.contains(&name) || ["kubepods", "k8s.io"].iter().any(|part| name.contains(part)) {
            facts.insert(entry.path().display().to_string());
        }
        groups(&entry.path(), own, facts);
    }
}
