//! `cargo xtask cluster restart`: switches a node off and on, or starts single programs of it anew.
//!
//! Off is sudden: everything is killed at once, and what stood in memory is gone, the network and the
//! folders of a boot too. What was written is still there, also where no disk was asked to keep it: the
//! machine below goes on.

use std::fs;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use xtask_shell::{Shell, lock};

use super::kubectl::Kubectl;
use super::namespace::Namespaces;
use super::network;
use super::place::Place;
use super::processes::{self, start_again, until};
use super::{cgroups, down, internet, node, packages, storage};

/// Those without which the others end.
const FIRST: [&str; 3] = ["etcd", "kube-apiserver", "containerd"];

/// What a machine keeps in memory.
const OF_ONE_BOOT: [&str; 3] = ["ids", "containerd/state", "cilium/state"];

pub(super) async fn run(shell: &mut Shell, place: &Place, parts: &[String]) -> Result<()> {
    packages::root()?;
    let _lock = lock::take(shell, &place.lock(), "changes this cluster").await?;
    let begun = Instant::now();
    let namespaces = Namespaces::running(place)?;
    for part in parts {
        end(&namespaces, place, part)?;
        start_again(&namespaces, place, part)?;
        println!("{part} runs again");
    }
    if parts.is_empty() {
        switch_off_and_on(place).await?;
        println!("cluster {} is up again after {:.1} s", place.name, begun.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Kills a program, if it runs.
fn end(namespaces: &Namespaces, place: &Place, name: &str) -> Result<()> {
    let inside = namespaces.processes()?;
    let found = processes::find(place, &inside, name);
    if let Some(pid) = found.and_then(|one| Pid::from_raw(one.pid as i32)) {
        kill_process(pid, Signal::KILL).with_context(|| format!("cannot end {name}"))?;
    }
    Ok(())
}

async fn switch_off_and_on(place: &Place) -> Result<()> {
    let all = processes::started(place);
    down::end(place).await?;
    for folder in OF_ONE_BOOT.map(|folder| place.at(folder)) {
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(folder)?;
    }
    network::forget(place)?;

    cgroups::create(place)?;
    let namespaces = Namespaces::create(place).await?;
    namespaces.show(place)?;
    let is_wanted = |name: &str| all.contains(&name);
    if is_wanted("internet-dns") {
        internet::connect(&namespaces)?;
    }
    storage::mount_again(place, &namespaces)?;
    let (first, rest): (Vec<_>, Vec<_>) = all.iter().partition(|name| FIRST.contains(*name));
    for name in first {
        start_again(&namespaces, place, name)?;
    }
    let kubectl = Kubectl::of(place);
    until(&namespaces, place, "containerd", || {
        UnixStream::connect(place.at("containerd/containerd.sock")).is_ok()
    })
    .await?;
    until(&namespaces, place, "the API server", || {
        kubectl.call(&["get", "--raw", "/readyz"]).is_ok()
    })
    .await?;
    // What it knows of the node is from before.
    let before = heartbeat(&kubectl);
    for name in rest {
        start_again(&namespaces, place, name)?;
    }
    if is_wanted("cilium-agent") {
        let is_ready = || network::is_ready(place).unwrap_or(false);
        until(&namespaces, place, "the policy enforcer", is_ready).await?;
    }
    let is_ready = || heartbeat(&kubectl).is_some_and(|now| Some(now) != before);
    until(&namespaces, place, "the node", is_ready).await
}

/// When the node said last that it is ready.
fn heartbeat(kubectl: &Kubectl) -> Option<Value> {
    node::ready(kubectl).map(|condition| condition["lastHeartbeatTime"].clone())
}
