//! A look at the sandbox from inside, before its program begins: what was asked of the kernel is found there.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use famulus_network::INTERFACE;
use famulus_protocol::launch::{Launch, LaunchNetwork};
use famulus_runner_harness::mounts;
use rustix::mount::MountFlags;
use rustix::process::{getpid, getuid};

use crate::error::LaunchError;
use crate::root::{is_in_root, taken};

/// The kinds of namespaces, as the kernel names them; that of users is only left by who is no root.
const KINDS: [&str; 6] = ["mnt", "pid", "net", "ipc", "uts", "cgroup"];
const USERS: &str = "user";

/// By which programs speak to themselves.
const LOOPBACK: &str = "lo";

/// What a line of `/proc/self/status` says of somebody without any capability.
const NO_CAPABILITIES: &str = "0000000000000000";

/// The namespaces of this process, in one text.
pub(crate) fn namespaces() -> io::Result<String> {
    let names = KINDS.iter().chain([&USERS]).map(|kind| namespace(kind));
    Ok(names.collect::<io::Result<Vec<_>>>()?.join(","))
}

fn namespace(kind: &str) -> io::Result<String> {
    Ok(fs::read_link(format!("/proc/self/ns/{kind}"))?.display().to_string())
}

/// Refuses what is not as the order wants it.
pub(crate) fn look(order: &Launch, outside: &str) -> Result<(), LaunchError> {
    let read = |what: &'static str| {
        move |error: io::Error| LaunchError::NotAsWanted(format!("{what} cannot be read ({error})"))
    };
    let kinds = KINDS.iter().chain(order.user.is_none().then_some(&USERS));
    for kind in kinds {
        let own = namespace(kind).map_err(read("its namespaces"))?;
        if outside.is_empty() || outside.split(',').any(|other| other == own) {
            return wrong(format!("its namespace `{kind}` is that of the machine"));
        }
    }
    if getpid().as_raw_nonzero().get() != 1 {
        return wrong("its first process is not the first".to_owned());
    }
    let status = fs::read_to_string("/proc/self/status").map_err(read("its rights"))?;
    rights(&status, order.user.unwrap_or_else(|| getuid().as_raw()))?;
    let devices = fs::read_to_string("/proc/self/net/dev").map_err(read("its network"))?;
    match order.network {
        LaunchNetwork::None => interfaces(&devices, &[LOOPBACK])?,
        LaunchNetwork::Internet { .. } => interfaces(&devices, &[LOOPBACK, INTERFACE])?,
    }
    let mounted = mounts::read().map_err(read("what is mounted"))?;
    for mounts::Mounted { point, flags } in mounted {
        let less = taken(order, &point).unwrap_or(MountFlags::NOSUID | MountFlags::NODEV);
        if !flags.contains(less) {
            return wrong(format!("{} allows more than it is to", point.display()));
        }
    }
    for entry in fs::read_dir("/").map_err(read("its root"))? {
        let name = entry.map_err(read("its root"))?.file_name();
        if !is_in_root(order, Path::new(&name)) {
            return wrong(format!("/{} is in it", name.display()));
        }
    }
    Ok(())
}

fn rights(status: &str, user: u32) -> Result<(), LaunchError> {
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map(|line| line.split_ascii_whitespace().collect::<Vec<_>>())
    };
    for name in ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"] {
        if line(name).as_deref() != Some(&[NO_CAPABILITIES]) {
            return wrong(format!("it has capabilities ({name})"));
        }
    }
    if line("NoNewPrivs").as_deref() != Some(&["1"]) {
        return wrong("programs can give it new privileges".to_owned());
    }
    let id = user.to_string();
    if user == 0 || line("Uid").is_none_or(|ids| ids.len() != 4 || ids.iter().any(|one| *one != id))
    {
        return wrong(format!("its user is not {id}"));
    }
    Ok(())
}

/// Two lines of heading, and one for each interface.
fn interfaces(devices: &str, wanted: &[&str]) -> Result<(), LaunchError> {
    let names = devices.lines().skip(2).filter_map(|line| line.split(':').next().map(str::trim));
    let names: BTreeSet<&str> = names.collect();
    if names == wanted.iter().copied().collect() {
        return Ok(());
    }
    let names: Vec<&str> = names.into_iter().collect();
    wrong(format!("its network has the interfaces {}", names.join(", ")))
}

fn wrong<T>(what: String) -> Result<T, LaunchError> {
    Err(LaunchError::NotAsWanted(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_has_a_right_left_runs_nothing() {
        let status = |capabilities: &str, new: &str, user: &str| {
            let names = ["CapInh", "CapPrm", "CapEff", "CapBnd"]
                .map(|name| format!("{name}:\t{NO_CAPABILITIES}\n"));
            format!(
                "Name:\tx\nUid:\t{user}\n{}CapAmb:\t{capabilities}\nNoNewPrivs:\t{new}\n",
                names.concat()
            )
        };
        let check = |status: &str, user, expected: Option<&str>| {
            let said = rights(status, user).err().map(|error| error.to_string());
            let right = match (&said, expected) {
                (None, None) => true,
                (Some(said), Some(part)) => said.contains(part),
                (None, Some(_)) | (Some(_), None) => false,
            };
            assert!(right, "{status}: {said:?}");
        };
        check(&status(NO_CAPABILITIES, "1", "7\t7\t7\t7"), 7, None);
        check(&status("0000000000000001", "1", "7\t7\t7\t7"), 7, Some("CapAmb"));
        check(&status(NO_CAPABILITIES, "0", "7\t7\t7\t7"), 7, Some("new privileges"));
        check(&status(NO_CAPABILITIES, "1", "7\t0\t7\t7"), 7, Some("its user"));
        check(&status(NO_CAPABILITIES, "1", "0\t0\t0\t0"), 0, Some("its user"));
        check("", 7, Some("CapInh"));
    }

    #[test]
    fn only_the_interfaces_that_are_wanted_are_there() {
        let head = "Inter-|   Receive\n face |bytes\n";
        let check = |devices: &str, wanted: &[&str], fits: bool| {
            let found = interfaces(&format!("{head}{devices}"), wanted);
            assert_eq!(found.is_ok(), fits, "{devices:?}: {found:?}");
        };
        check("    lo:       0\n", &["lo"], true);
        check("    lo: 0\n  eth0: 1\n", &["lo"], false);
        check("    lo: 0\n  net0: 1\n", &["lo", "net0"], true);
        check("    lo: 0\n  net0: 1\n  eth0: 1\n", &["lo", "net0"], false);
        check("    lo: 0\n", &["lo", "net0"], false);
        check("", &["lo"], false);
    }
}
