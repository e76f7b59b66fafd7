//! The processes of sandboxes, as the machine knows them.

use super::owner::LOOK;
use anyhow::{Context, Result, ensure};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process},
};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::{Instant, sleep};

/// How long sandboxes take, at most, to end with who made them.
const ENDED: Duration = Duration::from_secs(10);

/// A process of a sandbox, or of who makes one.
#[derive(Debug)]
pub(crate) struct Process {
    pid: Pid,
    arguments: Vec<String>,
}

/// Whose death is played.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    /// Who makes the sandbox, outside of it.
    Launcher,
    /// The first process inside.
    Runner,
}

/// What a sandbox is for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Bundle,
    Build,
    Serve,
}

impl Process {
    pub(crate) fn is(&self, part: Part, step: Step) -> bool {
        let command: &[&str] = match step {
            Step::Bundle => &["/famulus/runner", "bundle"],
            Step::Build => &["/famulus/runner", "build"],
            Step::Serve => &["/famulus/runner"],
        };
        match part {
            Part::Launcher => {
                let order = self.arguments.get(2).filter(|_| self.arguments[1] == "launch");
                let asked = format!("\"command\":{}", serde_json::json!(command));
                order.is_some_and(|order| order.contains(&asked))
            }
            Part::Runner => self.arguments == command,
        }
    }

    /// Whether it is a script of the plugin, by the end of its path.
    pub(crate) fn runs(&self, script: &str) -> bool {
        self.arguments.iter().any(|argument| argument.ends_with(script))
    }

    pub(crate) fn kill(&self) -> Result<()> {
        match kill_process(self.pid, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            Err(error) => Err(error).with_context(|| format!("{self:?} cannot be killed")),
        }
    }
}

/// All that are for plugins with their folders below this one: they name it, or see something of it mounted.
pub(crate) fn of(data: &Path) -> Result<Vec<Process>> {
    let path = data.to_str().context("the folder has an odd name")?;
    let name = data.file_name().and_then(|name| name.to_str()).context("the folder has no name")?;
    let is_mounted = |mounts: &[u8]| String::from_utf8_lossy(mounts).contains(&format!("{name}/"));
    let (mut found, mut seen) = (Vec::new(), BTreeMap::new());
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(pid) = pid.and_then(Pid::from_raw) else { continue };
        // It may end in this moment; then there is nothing to read.
        let read = |file| fs::read(entry.path().join(file)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
        let names = line.contains("famulus-runner") && line.contains(path);
        // Those of one namespace see the same.
        let namespace = fs::read_link(entry.path().join("ns/mnt")).ok();
        let sees = seen.get(&namespace).copied().unwrap_or_else(|| {
            let mounts = read("mountinfo");
            let sees = is_mounted(&mounts);
            if !mounts.is_empty() {
                seen.insert(namespace, sees);
            }
            sees
        });
        if names || sees {
            let arguments = line.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
            found.push(Process { pid, arguments });
        }
    }
    Ok(found)
}

/// Waits until none is left, and with them no mount and no network of theirs.
pub(crate) async fn all_ended(data: &Path) -> Result<()> {
    let begun = Instant::now();
    loop {
        let left = of(data)?;
        if left.is_empty() {
            return Ok(());
        }
        ensure!(begun.elapsed() < ENDED, "sandboxes are left over: {left:#?}");
        sleep(LOOK).await;
    }
}

/// Waits for the same, and until none of their control groups is left.
pub(crate) async fn none_left(data: &Path) -> Result<()> {
    all_ended(data).await?;
    let groups = groups(data)?;
    ensure!(groups.is_empty(), "control groups are left over: {groups:?}");
    Ok(())
}

/// The control groups of sandboxes whose plugins have their folders below this one.
fn groups(data: &Path) -> Result<Vec<PathBuf>> {
    let folder = fs::metadata(data)?;
    let mark = format!("famulus-{:x}-{:x}-", folder.dev(), folder.ino());
    let (mut found, mut open) = (Vec::new(), vec![PathBuf::from("/sys/fs/cgroup")]);
    while let Some(group) = open.pop() {
        // Others come and go.
        for entry in fs::read_dir(group).into_iter().flatten().flatten() {
            if !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            if entry.file_name().to_string_lossy().starts_with(&mark) {
                found.push(entry.path());
            }
            open.push(entry.path());
        }
    }
    Ok(found)
}
