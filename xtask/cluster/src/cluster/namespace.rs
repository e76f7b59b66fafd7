//! The namespaces of a cluster: processes, mounts and the network.
//!
//! They live as long as their first process, which does nothing but sleep and let the kernel bury
//! orphans. It is found again by a mark in its environment, not by a file, so a crash at any moment
//! leaves nothing that cannot be found.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use xtask_shell::output_of;

use super::place::{HIDDEN, NODE_ADDRESS, NODE_GATEWAY, NODE_INTERFACE, Place};
use super::{sysctls, wait};

/// Names the work folder in the environment of everything that a cluster starts.
const MARK: &str = "FAMULUS_CLUSTER";

/// The kernel buries the children of a process that ignores their end. A shell's `trap` does not
/// hand that on to the program that it becomes.
const FIRST: [&str; 4] = ["env", "--ignore-signal=CHLD", "sleep", "infinity"];

/// A link in the work folder: the network, as `nsenter` wants it.
pub(super) const NETWORK: &str = "net";

/// How long namespaces may take to come and to go.
const LIMIT: Duration = Duration::from_mins(1);

/// The namespaces of a running cluster.
pub(super) struct Namespaces {
    /// Their first process, as seen from outside.
    pub(super) first: u32,
}

/// A process inside.
pub(super) struct Inside {
    pub(super) pid: u32,
    /// Its id as seen from inside.
    pub(super) inner: u32,
}

impl Namespaces {
    /// The namespaces of the cluster, if it has any.
    pub(super) fn find(place: &Place) -> Result<Option<Self>> {
        let mark = mark(place);
        let first = processes()?.into_iter().find(|pid| {
            let in_two = own_ids(*pid).is_some_and(|ids| ids.len() == 2 && ids[1] == 1);
            in_two && is_marked(*pid, &mark) && name(*pid) == "sleep"
        });
        Ok(first.map(|first| Self { first }))
    }

    /// The namespaces of a cluster that must run.
    pub(super) fn running(place: &Place) -> Result<Self> {
        let name = &place.name;
        Self::find(place)?.with_context(|| {
            format!("cluster {name} does not run; start it: cargo xtask cluster up --name {name}")
        })
    }

    /// Makes new ones, with a node's address and without any way out.
    pub(super) async fn create(place: &Place) -> Result<Self> {
        let mut holder = spawn(place)?;
        let found = wait::until("the namespaces", LIMIT, || {
            if let Some(status) = holder.try_wait()? {
                bail!("unshare ended ({status}); does this machine allow namespaces?");
            }
            Self::find(place)
        });
        let namespaces = found.await?;
        namespaces.isolate(place)?;
        namespaces.connect()?;
        Ok(namespaces)
    }

    /// `program`, run inside. Its working folder is `/`.
    pub(super) fn enter(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--mount", "--net", "--pid", "--"]);
        command.arg(program.as_ref());
        command
    }

    pub(super) fn run(&self, words: &[&str]) -> Result<()> {
        output_of(self.enter(words[0]).args(&words[1..])).map(drop)
    }

    /// Sets the way into the network down, for those who stay while it comes and goes.
    pub(super) fn show(&self, place: &Place) -> Result<()> {
        let link = place.at(NETWORK);
        if link.is_symlink() {
            fs::remove_file(&link)?;
        }
        Ok(symlink(format!("/proc/{}/ns/net", self.first), link)?)
    }

    /// Gives the node places of its own where programs leave things outside of the work folder.
    fn isolate(&self, place: &Place) -> Result<()> {
        self.run(&["mount", "--make-rshared", "/"])?;
        for folder in HIDDEN {
            self.run(&["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", folder])?;
        }
        self.run(&["mount", "-t", "bpf", "bpf", "/sys/fs/bpf"])?;
        for (own, machine) in sysctls::shadows(place)? {
            self.run(&["mount", "--bind", &own, &machine])?;
        }
        // A Pod with a user namespace gets a `/proc` only where one is to be seen with nothing
        // covered.
        self.run(&["mkdir", "/run/proc"])?;
        self.run(&["mount", "-t", "proc", "proc", "/run/proc"])
    }

    fn connect(&self) -> Result<()> {
        let address = format!("{NODE_ADDRESS}/24");
        self.run(&["ip", "link", "set", "lo", "up"])?;
        self.run(&["ip", "link", "add", NODE_INTERFACE, "type", "bridge"])?;
        self.run(&["ip", "address", "add", &address, "dev", NODE_INTERFACE])?;
        self.run(&["ip", "link", "set", NODE_INTERFACE, "up"])?;
        // The API server announces no address that it has no route for.
        self.run(&["ip", "route", "add", "default", "via", NODE_GATEWAY, "dev", NODE_INTERFACE])?;
        self.run(&["sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
    }

    /// Every process inside that runs, the first one too.
    pub(super) fn processes(&self) -> Result<Vec<Inside>> {
        let Some(own) = namespace(self.first, "pid") else { return Ok(Vec::new()) };
        let inside = |pid: u32| {
            // Containers have namespaces of their own below this one; `own_ids` tells of all.
            let ids = own_ids(pid).filter(|ids| ids.len() >= 2)?;
            let is_here = namespace(pid, "pid")? == own || is_below(pid, self.first);
            (is_here && runs(pid)).then_some(Inside { pid, inner: ids[1] })
        };
        Ok(processes()?.into_iter().filter_map(inside).collect())
    }

    /// Ends the first process, and with it everything inside.
    pub(super) async fn end(self) -> Result<()> {
        let inside = self.processes()?;
        let inside: Vec<Known> = inside.iter().filter_map(|one| Known::of(one.pid)).collect();
        if let Some(pid) = Pid::from_raw(self.first as i32) {
            let _ = kill_process(pid, Signal::KILL);
        }
        wait::until("the end of the cluster's processes", LIMIT, || {
            Ok((!inside.iter().any(Known::is_there)).then_some(()))
        })
        .await
    }
}

fn spawn(place: &Place) -> Result<Child> {
    let log = fs::File::create(place.make_folder("log")?.join("namespaces.log"))?;
    Command::new("unshare")
        .args(["--mount", "--net", "--pid", "--fork", "--mount-proc", "--propagation", "private"])
        .arg("--")
        .args(FIRST)
        .current_dir("/")
        .env(MARK, &place.folder)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .context("cannot run unshare")
}

/// What a program that is started inside gets into its environment, so that it is known as ours.
pub(super) fn tag(command: &mut Command, place: &Place) {
    command.env(MARK, &place.folder);
}

/// Processes outside of any namespace of the cluster that carry its mark or use its network.
pub(super) fn stragglers(place: &Place, network: Option<&str>) -> Result<Vec<u32>> {
    let mark = mark(place);
    let is_ours = |pid: &u32| {
        let in_network = network.is_some() && namespace(*pid, "net").as_deref() == network;
        runs(*pid) && (is_marked(*pid, &mark) || in_network)
    };
    Ok(processes()?.into_iter().filter(is_ours).collect())
}

/// The name of a process's namespace of a kind; nothing when the process is gone.
pub(super) fn namespace(pid: u32, kind: &str) -> Option<String> {
    let link = fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()?;
    Some(link.to_string_lossy().into_owned())
}

fn mark(place: &Place) -> Vec<u8> {
    [MARK.as_bytes(), b"=", place.folder.as_os_str().as_encoded_bytes()].concat()
}

fn is_marked(pid: u32, mark: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

fn processes() -> Result<Vec<u32>> {
    let entries = fs::read_dir("/proc").context("cannot list the processes")?;
    let pid = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    Ok(entries.filter_map(|entry| pid(entry.ok()?)).collect())
}

/// What a process runs, as short as the kernel keeps it.
pub(super) fn name(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// A process's ids, the outermost first, one for each namespace that it is in.
fn own_ids(pid: u32) -> Option<Vec<u32>> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    ids.split_whitespace().map(|id| id.parse().ok()).collect()
}

/// A process of which is known when it began: once it is gone, its id is soon another's.
#[derive(PartialEq)]
struct Known {
    pid: u32,
    /// Ticks of the kernel's clock.
    began: u64,
}

impl Known {
    /// Nothing when it is gone.
    fn of(pid: u32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // What stands before is its name, which may hold anything.
        let (_, fields) = stat.rsplit_once(')')?;
        Some(Self { pid, began: fields.split_whitespace().nth(19)?.parse().ok()? })
    }

    fn is_there(&self) -> bool {
        runs(self.pid) && Self::of(self.pid).as_ref() == Some(self)
    }
}

/// Whether a process exists and is not only waiting to be buried.
fn runs(pid: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find_map(|line| line.strip_prefix("State:")).unwrap_or("X");
    !matches!(state.trim().chars().next(), Some('Z' | 'X'))
}

/// Whether a process descends from another one.
fn is_below(pid: u32, ancestor: u32) -> bool {
    let parent = |pid: u32| -> Option<u32> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
    };
    std::iter::successors(Some(pid), |pid| parent(*pid)).any(|pid| pid == ancestor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_is_gone_is_not_there_whoever_has_its_id() {
        let mut sleeps = Command::new("sleep").arg("100").spawn().unwrap();
        let known = Known::of(sleeps.id()).unwrap();
        assert!(known.is_there());
        let before = Known { began: known.began - 1, ..known };
        assert!(!before.is_there(), "another had the id before");
        sleeps.kill().unwrap();
        sleeps.wait().unwrap();
        assert!(!known.is_there());
        assert!(Known::of(sleeps.id()).is_none());
    }
}
