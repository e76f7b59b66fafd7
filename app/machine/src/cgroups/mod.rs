//! Control groups: what all processes of one sandbox together may take of this machine.
//!
//! ```text
//! hierarchies ─► folders below which groups are made ─► limits of one sandbox ─► launcher: makes, enters, removes
//! ```
//!
//! Where there are none, the runner alone holds what it starts: it counts processes, and the memory that each call
//! holds. What a launcher that was killed left behind is ended and removed before anything is started.

mod hierarchies;
mod leftover;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use famulus_protocol::launch::{ControlGroup, GroupLimit, LaunchLimits, LimitFile, Place};

use self::hierarchies::{Controller, Hierarchy, Version};
use crate::order::Purpose;

/// Where a sandbox sees its limits.
pub(crate) const LIMITS: &str = "/famulus/limits";

/// Half of what a process has that is in no group, where there is not time enough for all. A Pod asks for less
/// beside other Pods; here less would be nothing beside the owner's own programs. A share and no quota: what has used a
/// quota up waits whoever it is, and behind hundreds of processes the supervisor that is to end them never has its turn.
const SHARES: &str = "512";
const WEIGHT: &str = "50";

/// Processes and threads: as many as tools of a user of their own may have, and some with which the runner ends
/// those.
const TASKS: u64 = 1024 + 256;

/// The runner counts a page once in each process that shares it, so that many of one program seem to hold several
/// times what they do.
const COUNTED_AGAIN: u64 = 4;

/// Bytes of memory, as much as a Pod has by default.
fn memory(purpose: Purpose) -> u64 {
    match purpose {
        Purpose::Serve | Purpose::Check => 256 << 20,
        Purpose::Bundle | Purpose::Fetch | Purpose::Build | Purpose::Give | Purpose::Take => {
            1 << 30
        }
    }
}

/// Where groups of this installation are made.
#[derive(Debug)]
pub(crate) struct Cgroups {
    hierarchies: Vec<Hierarchy>,
    /// How the names of its groups begin: nobody else's do.
    mark: String,
}

/// The limits of a sandbox, and what it sees of them.
#[derive(Debug, Default)]
pub(crate) struct Limited {
    pub(crate) limits: LaunchLimits,
    /// The group in which its memory is counted.
    pub(crate) seen: Option<Place>,
}

/// Finds where groups can be made for who has this data folder, and ends what is left there. `None`: nowhere.
pub(crate) async fn find(data_dir: &Path) -> Option<Cgroups> {
    let found = match Cgroups::find(Path::new("/"), data_dir) {
        Ok(found) => found?,
        Err(error) => {
            tracing::warn!(%error, "control groups of this machine cannot be read; sandboxes are in none");
            return None;
        }
    };
    found.clear().await;
    Some(found)
}

impl Cgroups {
    /// Looks below `root`, which is that of this machine. `None`: no group can be made here.
    fn find(root: &Path, data_dir: &Path) -> io::Result<Option<Self>> {
        let hierarchies = hierarchies::find(root)?;
        if hierarchies.is_empty() {
            return Ok(None);
        }
        let data = fs::metadata(data_dir)?;
        let mark = format!("famulus-{:x}-{:x}-", data.dev(), data.ino());
        Ok(Some(Self { hierarchies, mark }))
    }

    /// Ends and removes what launchers left that were killed with the assistant.
    async fn clear(&self) {
        for hierarchy in &self.hierarchies {
            if let Err(error) = leftover::clear(&hierarchy.folder, &self.mark).await {
                let folder = hierarchy.folder.display();
                tracing::warn!(%error, "control groups of sandboxes that ended stay below {folder}");
            }
        }
    }

    fn limits(&self, id: &str, purpose: Purpose) -> Vec<ControlGroup> {
        let name = format!("{}{id}-{}", self.mark, purpose.step().unwrap_or("serve"));
        let memory = memory(purpose);
        let group = |hierarchy: &Hierarchy| ControlGroup {
            folder: hierarchy.folder.join(&name),
            limits: limits(hierarchy, memory),
        };
        self.hierarchies.iter().map(group).collect()
    }

    /// Where the memory of a sandbox is counted, and where the sandbox sees it.
    fn seen(&self, groups: &[ControlGroup]) -> Option<Place> {
        let counted = |(hierarchy, _): &(&Hierarchy, _)| hierarchy.has(Controller::Memory);
        let (hierarchy, group) = self.hierarchies.iter().zip(groups).find(counted)?;
        let to = match hierarchy.version {
            Version::One => Path::new(LIMITS).join("memory"),
            Version::Two => PathBuf::from(LIMITS),
        };
        Some(Place { from: Some(group.folder.clone()), to, writable: false })
    }
}

/// What a sandbox of the plugin may take. `id` names the plugin.
pub(crate) fn limited(cgroups: Option<&Cgroups>, id: &str, purpose: Purpose) -> Limited {
    let groups = cgroups.map(|found| found.limits(id, purpose)).unwrap_or_default();
    let seen = cgroups.and_then(|found| found.seen(&groups));
    let files = if seen.is_some() { Vec::new() } else { vec![counted(purpose)] };
    Limited { limits: LaunchLimits { groups, files }, seen }
}

/// The limit to which a runner holds what a call's processes hold, where no group counts.
fn counted(purpose: Purpose) -> LimitFile {
    let bytes = memory(purpose) * COUNTED_AGAIN;
    LimitFile { path: Path::new(LIMITS).join("memory.max"), text: bytes.to_string() }
}

fn limits(hierarchy: &Hierarchy, memory: u64) -> Vec<GroupLimit> {
    let mut limits = Vec::new();
    for controller in &hierarchy.controllers {
        limits.extend(match (hierarchy.version, controller) {
            (Version::Two, Controller::Memory) => {
                vec![limit("memory.max", memory), optional("memory.swap.max", 0)]
            }
            // The second is of memory and swap together.
            (Version::One, Controller::Memory) => vec![
                limit("memory.limit_in_bytes", memory),
                optional("memory.memsw.limit_in_bytes", memory),
            ],
            (Version::One | Version::Two, Controller::Pids) => vec![limit("pids.max", TASKS)],
            (Version::Two, Controller::Cpu) => vec![optional("cpu.weight", WEIGHT)],
            (Version::One, Controller::Cpu) => vec![optional("cpu.shares", SHARES)],
        });
    }
    limits
}

fn limit(file: &str, value: impl ToString) -> GroupLimit {
    GroupLimit { file: file.to_owned(), value: value.to_string(), is_optional: false }
}

fn optional(file: &str, value: impl ToString) -> GroupLimit {
    GroupLimit { is_optional: true, ..limit(file, value) }
}

/// Who limits what, for the owner.
pub(crate) fn words(cgroups: Option<&Cgroups>) -> String {
    let limited = |controller| {
        cgroups.is_some_and(|found| found.hierarchies.iter().any(|one| one.has(controller)))
    };
    let (mut kernel, mut runner) = (Vec::new(), Vec::new());
    for (controller, name) in [(Controller::Memory, "memory"), (Controller::Pids, "processes")] {
        let names = if limited(controller) { &mut kernel } else { &mut runner };
        names.push(name);
    }
    if limited(Controller::Cpu) {
        kernel.push("share of the processors");
    }
    let (kernel, runner) = (listed(&kernel), listed(&runner));
    match (kernel.is_empty(), runner.is_empty()) {
        (false, true) => format!("{kernel} limited by the kernel"),
        (false, false) => format!(
            "{kernel} limited by the kernel, {runner} by its runner alone (the kernel counts that in no control group \
             that can be written here)"
        ),
        (true, _) => format!(
            "{runner} limited by its runner alone (no control group can be written here: run famulus as root, or \
             as a service of systemd with Delegate=yes)"
        ),
    }
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cgroups(version: Version, controllers: &[Controller]) -> Cgroups {
        let hierarchy =
            Hierarchy { folder: "/groups".into(), version, controllers: controllers.to_vec() };
        Cgroups { hierarchies: vec![hierarchy], mark: "famulus-1-".to_owned() }
    }

    const ALL: [Controller; 3] = [Controller::Memory, Controller::Pids, Controller::Cpu];

    #[test]
    fn a_sandbox_may_take_what_a_pod_may() {
        let check = |version, purpose, name: &str, expected: &[(&str, &str)]| {
            let limited = limited(Some(&cgroups(version, &ALL)), "0b0e", purpose);
            let [group] = &limited.limits.groups[..] else { panic!("{limited:?}") };
            assert_eq!(group.folder, Path::new("/groups").join(name));
            let set: Vec<(&str, &str)> =
                group.limits.iter().map(|one| (&*one.file, &*one.value)).collect();
            assert_eq!(set, expected);
            assert_eq!(limited.limits.files, []);
            let seen = limited.seen.unwrap();
            assert_eq!((seen.from.as_ref(), seen.writable), (Some(&group.folder), false));
            seen.to
        };
        let one = [
            ("memory.limit_in_bytes", "268435456"),
            ("memory.memsw.limit_in_bytes", "268435456"),
            ("pids.max", "1280"),
            ("cpu.shares", "512"),
        ];
        let seen = check(Version::One, Purpose::Serve, "famulus-1-0b0e-serve", &one);
        assert_eq!(seen, Path::new("/famulus/limits/memory"));
        let two = [
            ("memory.max", "1073741824"),
            ("memory.swap.max", "0"),
            ("pids.max", "1280"),
            ("cpu.weight", "50"),
        ];
        let seen = check(Version::Two, Purpose::Build, "famulus-1-0b0e-build", &two);
        assert_eq!(seen, Path::new("/famulus/limits"));
    }

    #[test]
    fn where_no_group_counts_memory_the_runner_is_told_a_limit() {
        for found in [None, Some(&cgroups(Version::One, &[Controller::Pids]))] {
            let limited = limited(found, "0b0e", Purpose::Serve);
            assert_eq!(limited.seen, None);
            let files: Vec<_> =
                limited.limits.files.iter().map(|file| (&*file.path, &*file.text)).collect();
            assert_eq!(files, [(Path::new("/famulus/limits/memory.max"), "1073741824")]);
        }
    }

    #[test]
    fn the_owner_is_told_who_limits_what() {
        let check = |controllers: Option<&[Controller]>, expected: &str| {
            let found = controllers.map(|all| cgroups(Version::Two, all));
            let said = words(found.as_ref());
            assert!(said.starts_with(expected), "{said}");
        };
        check(Some(&ALL), "memory, processes and share of the processors limited by the kernel");
        check(Some(&ALL[..2]), "memory and processes limited by the kernel");
        let part = "processes limited by the kernel, memory by its runner alone (the kernel counts";
        check(Some(&[Controller::Pids]), part);
        check(None, "memory and processes limited by its runner alone (no control group can be");
    }
}
