//! The descendants of a process: who they are, and their end.

use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, wait, waitpid};

/// How long killed processes are waited for. They are gone at once, unless the kernel holds them in
/// a device.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// Between two looks at processes that were killed.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    /// It has ended, and nobody has asked how.
    pub(super) ended: bool,
    /// Memory that is its own or shared, in pages.
    pub(super) pages: u64,
}

/// All living and ended descendants of `root`, without itself.
pub(super) fn descendants(root: Pid) -> io::Result<Vec<Process>> {
    Ok(beneath(root.as_raw_nonzero().get(), &all()?))
}

fn all() -> io::Result<Vec<Process>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
        // A process that ended since is none.
        if let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            found.extend(parse(pid, &stat));
        }
    }
    Ok(found)
}

/// Reads `PID (NAME) STATE PARENT …`; the name may hold anything, so that its last bracket counts.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    /// Places of fields behind the name.
    const STATE: usize = 0;
    const PARENT: usize = 1;
    const RESIDENT_PAGES: usize = 21;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(PARENT)?.parse().ok()?,
        ended: ["Z", "X"].contains(fields.get(STATE)?),
        pages: fields.get(RESIDENT_PAGES).and_then(|pages| pages.parse().ok()).unwrap_or(0),
    })
}

fn beneath(root: i32, all: &[Process]) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            parents.push(process.pid);
            found.push(*process);
        }
    }
    found
}

/// Sends the signal to each of them that lives.
pub(super) fn signal(processes: &[Process], signal: Signal) {
    for process in processes.iter().filter(|process| !process.ended) {
        if let Some(pid) = Pid::from_raw(process.pid) {
            // It may have ended since.
            let _gone = kill_process(pid, signal);
        }
    }
}

/// Asks ended children of this process how they ended, so that their numbers become free. The one
/// that somebody else waits for is left to them.
pub(super) fn reap(processes: &[Process], own: Pid, left_out: Pid) {
    let is_ours = |process: &&Process| {
        process.ended
            && process.parent == own.as_raw_nonzero().get()
            && process.pid != left_out.as_raw_nonzero().get()
    };
    for process in processes.iter().filter(is_ours) {
        // Somebody may have asked already.
        let _asked = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
    }
}

/// Ends all descendants of this process, which must be their subreaper and have nobody else waiting
/// for children. Returns how many different ones were found alive.
///
/// A process without children has no descendants, because whoever loses their parent becomes its
/// child: the kernel's answer *no children* is the proof of the end, free of races.
pub(super) fn end_all(own: Pid) -> Result<u32, Surviving> {
    let mut killed = std::collections::BTreeSet::new();
    let begun = Instant::now();
    loop {
        loop {
            // Children of every group: a daemon has one of its own.
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_no_children) => return Ok(killed.len() as u32),
            }
        }
        let living: Vec<Process> =
            descendants(own).unwrap_or_default().into_iter().filter(|one| !one.ended).collect();
        if begun.elapsed() > KILL_PATIENCE {
            return Err(Surviving(living.len() as u32));
        }
        signal(&living, Signal::KILL);
        killed.extend(living.iter().map(|process| process.pid));
        thread::sleep(LOOK_AGAIN);
    }
}

/// Processes that the kernel did not end.
#[derive(Debug)]
pub(super) struct Surviving(pub(super) u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let rest = (0..30).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let process = parse(7, &format!("7 (a) Z 1 (b)) S 5 {rest}")).unwrap();
        assert_eq!(process, Process { pid: 7, parent: 5, ended: false, pages: 19 });
        assert!(parse(7, "7 (x) Z 5 0").unwrap().ended);
        assert_eq!(parse(7, "nothing"), None);
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let process = |pid, parent| Process { pid, parent, ended: false, pages: 0 };
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 9)];
        let mut found: Vec<i32> = beneath(2, &all).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert_eq!(beneath(1, &all).len(), 4);
    }
}
