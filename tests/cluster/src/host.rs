//! The machine below a node of `cargo xtask cluster`, where its processes can be killed.

use std::fs::{self, File};
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use crate::beside::{node, run};
use crate::kubectl::{LONG, objects, until};

/// What everything that a cluster starts has in its environment, with the cluster's folder.
const MARK: &str = "FAMULUS_CLUSTER";

/// Kills the first process of a Pod's container, as a machine out of memory does. Returns the Pod.
pub async fn kill_container(namespace: &str, selector: &str) -> Value {
    let what = format!("a Pod with {selector} runs");
    let (pod, pid) = until(&what, LONG, async || {
        let pods = objects(namespace, "pods", selector).await;
        let found = pods.iter().find_map(|pod| Some((pod.clone(), running(pod)?)));
        found.ok_or_else(|| format!("{} Pods", pods.len()))
    })
    .await;
    kill(pid);
    pod
}

/// Kills the first process of this Pod's container, if it runs.
pub fn kill_container_of(pod: &Value) {
    running(pod).into_iter().for_each(kill);
}

fn running(pod: &Value) -> Option<i32> {
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str()?;
    first_of(id.trim_start_matches("containerd://"))
}

/// Kills all that a Pod in gVisor is on the machine: its kernel, and what serves its files.
pub fn kill_all(pod: &Value) {
    let is_shim = |pid: &i32| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        name.starts_with("containerd-shim")
    };
    of_pod(pod).into_iter().filter(|pid| !is_shim(pid)).for_each(kill);
}

/// The processes of a Pod, as the machine calls them.
pub fn of_pod(pod: &Value) -> Vec<i32> {
    let mark = format!("pod{}", pod["metadata"]["uid"].as_str().unwrap());
    let mut all = processes();
    all.retain(|pid| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|groups| groups.contains(&mark))
    });
    all
}

/// Kills a part of the node by the name of its program; nobody starts it again.
pub fn kill_part(name: &str) {
    let mark = format!("{MARK}={}", node().display());
    let is_it = |pid: &i32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_ours = read("environ").split(|byte| *byte == 0).any(|it| it == mark.as_bytes());
        is_ours && read("comm").trim_ascii_end() == name.as_bytes()
    };
    let pid = processes().into_iter().find(is_it);
    kill(pid.unwrap_or_else(|| panic!("{name} does not run")));
}

/// Starts parts of the node again; without one, the node is switched off and on.
pub fn restart(parts: &[&str]) {
    let xtask = std::env::var("FAMULUS_TEST_XTASK").unwrap_or_else(|_| {
        panic!("FAMULUS_TEST_XTASK is not set: run these tests by `cargo xtask cluster suite`")
    });
    let folder = node();
    let name = folder.file_name().unwrap().to_str().unwrap();
    run(&xtask, &[&["cluster", "restart", "--name", name], parts].concat(), &folder);
    enter();
}

/// Brings this thread into the network of the node, which is another one since it was switched on.
pub fn enter() {
    let network = File::open(node().join("net")).unwrap();
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

/// The process with the id 1 of a container, as the machine calls it.
fn first_of(container: &str) -> Option<i32> {
    processes().into_iter().find(|pid| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}"));
        let is_inside = read("cgroup").is_ok_and(|groups| groups.contains(container));
        let status = read("status").unwrap_or_default();
        let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        is_inside && ids.is_some_and(|ids| ids.split_whitespace().last() == Some("1"))
    })
}

fn processes() -> Vec<i32> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// Its end may have come by that of another one.
fn kill(pid: i32) {
    match kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => {}
        Err(error) => panic!("{pid} cannot be killed: {error}"),
    }
}
