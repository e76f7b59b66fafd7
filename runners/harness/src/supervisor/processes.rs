//! The descendants of a process: who they are, and their end.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpgrp, kill_process, kill_process_group, wait, waitpid,
};

/// How long killed processes are waited for. They are gone at once, unless the kernel holds them in
/// a device.
const KILL_PATIENCE: Duration = Duration::from_secs(10);

/// How somebody ended who was killed.
pub(super) const KILLED: i32 = Signal::KILL.as_raw();

/// Between two looks at processes that were killed.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// How often processes are looked for that others made before they were stopped.
const STOPS: u32 = 32;

/// A process as `/proc` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: i32,
    pub(super) parent: i32,
    group: i32,
    /// It has ended, and nobody has asked how.
    pub(super) ended: bool,
    /// Memory that is its own or shared, in pages.
    pub(super) pages: u64,
}

/// What one look at `/proc` showed.
#[derive(Debug, Default)]
pub(super) struct ProcessScan {
    pub(super) found: Vec<Process>,
    /// Why there may be others.
    missed: Option<io::Error>,
}

/// All living and ended descendants of `root`, without itself.
pub(super) fn descendants(root: Pid) -> ProcessScan {
    descendants_but(root, &|_| false)
}

/// The same without those that are left out, and without their descendants.
fn descendants_but(root: Pid, left_out: &dyn Fn(i32) -> bool) -> ProcessScan {
    let mut look = ProcessScan::default();
    if let Err(error) = look.take_in_all() {
        look.missed = Some(error);
    }
    look.found = beneath(root.as_raw_nonzero().get(), &look.found, left_out);
    look
}

impl ProcessScan {
    fn take_in_all(&mut self) -> io::Result<()> {
        for entry in fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            match fs::read_to_string(format!("/proc/{pid}/stat")) {
                Ok(stat) => self.found.extend(parse(pid, &stat)),
                Err(error) if is_nobody(&error) => {}
                // Those that can be seen are ended meanwhile.
                Err(error) => self.missed = Some(error),
            }
        }
        Ok(())
    }
}

/// A process that ended since is none, and one that may not be seen is none of ours.
fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
        || Errno::from_io_error(error) == Some(Errno::SRCH)
}

/// Reads `PID (NAME) STATE PARENT …`; the name may hold anything, so that its last bracket counts.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    /// Places of fields behind the name.
    const STATE: usize = 0;
    const PARENT: usize = 1;
    const GROUP: usize = 2;
    const RESIDENT_PAGES: usize = 21;
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    Some(Process {
        pid,
        parent: fields.get(PARENT)?.parse().ok()?,
        group: fields.get(GROUP)?.parse().ok()?,
        ended: ["Z", "X"].contains(fields.get(STATE)?),
        pages: fields.get(RESIDENT_PAGES).and_then(|pages| pages.parse().ok()).unwrap_or(0),
    })
}

fn beneath(root: i32, all: &[Process], left_out: &dyn Fn(i32) -> bool) -> Vec<Process> {
    let mut found: Vec<Process> = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        let children = all.iter().filter(|one| one.parent == parent && !left_out(one.pid));
        for process in children {
            parents.push(process.pid);
            found.push(*process);
        }
    }
    found
}

/// Sends the signal to each of them that lives, group by group: those of a group hear it at the same
/// time, and whoever one of them is making hears it, too. A tool leads a session of its own, so that
/// nobody else is in its groups.
pub(super) fn signal(processes: &[Process], signal: Signal) {
    let own = getpgrp().as_raw_nonzero().get();
    let mut told = BTreeSet::new();
    for process in processes.iter().filter(|process| !process.ended) {
        // Before it leads a session it is in our group.
        let group = Some(process.group).filter(|group| *group != own).and_then(Pid::from_raw);
        // It may have ended since.
        let _gone = match group {
            Some(group) if told.insert(process.group) => kill_process_group(group, signal),
            Some(_told) => Ok(()),
            None => Pid::from_raw(process.pid).map_or(Ok(()), |pid| kill_process(pid, signal)),
        };
    }
}

/// Kills whoever is in the group that a child leads which nobody has asked for its end yet. No memory is needed for
/// it, which may be what the group took: a look at `/proc` costs some for each process.
pub(super) fn kill_group(leader: Pid) {
    // It leads none before it leads a session.
    let _none = kill_process_group(leader, Signal::KILL);
}

/// Kills the living descendants and whoever they make meanwhile: who was stopped makes nobody, so
/// they are stopped until none is found that was not. Returns the last look, before the end.
pub(super) fn kill_all(root: Pid) -> ProcessScan {
    kill_but(root, &|_| false)
}

fn kill_but(root: Pid, left_out: &dyn Fn(i32) -> bool) -> ProcessScan {
    let mut stopped = BTreeSet::new();
    let mut look = ProcessScan::default();
    for _look in 0..STOPS {
        look = descendants_but(root, left_out);
        let is_new = |one: &&Process| !one.ended && stopped.insert(one.pid);
        let new: Vec<Process> = look.found.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            break;
        }
        signal(&new, Signal::STOP);
    }
    signal(&look.found, Signal::KILL);
    look
}

/// Asks ended children of this process how they ended, so that their numbers become free. The one
/// that somebody else waits for is left to them. Returns how many had been killed.
pub(super) fn reap(processes: &[Process], own: Pid, left_out: Pid) -> u32 {
    let is_ours = |process: &&Process| {
        process.ended
            && process.parent == own.as_raw_nonzero().get()
            && process.pid != left_out.as_raw_nonzero().get()
    };
    let was_killed = |process: &&Process| {
        // Somebody may have asked already.
        let asked = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
        matches!(asked, Ok(Some((_, status))) if is_killed(status))
    };
    processes.iter().filter(is_ours).filter(was_killed).count() as u32
}

fn is_killed(status: WaitStatus) -> bool {
    status.terminating_signal() == Some(KILLED)
}

/// Ends all descendants of this process, which must be their subreaper and have nobody else waiting
/// for children.
///
/// A process without children has no descendants, because whoever loses their parent becomes its
/// child: the kernel's answer *no children* is the proof of the end, free of races.
pub(super) fn end_all(own: Pid) -> Result<Ended, Survivors> {
    let (mut strays, mut killed) = (BTreeSet::new(), 0);
    let begun = Instant::now();
    loop {
        loop {
            // Children of every group: a daemon has one of its own.
            match wait(WaitOptions::NOHANG) {
                Ok(Some((_, status))) => killed += u32::from(is_killed(status)),
                Err(Errno::INTR) => {}
                Ok(None) => break,
                Err(_no_children) => return Ok(Ended { strays: strays.len() as u32, killed }),
            }
        }
        let look = kill_all(own);
        if begun.elapsed() > KILL_PATIENCE {
            return Err(Survivors::of(look));
        }
        strays.extend(look.found.iter().filter(|one| !one.ended).map(|one| one.pid));
        thread::sleep(LOOK_AGAIN);
    }
}

/// Ends the descendants of this process, their subreaper, but those that are left out, and theirs.
/// They have ended when a look that missed nobody finds none.
pub(super) fn end_but(own: Pid, left_out: &dyn Fn(i32) -> bool) -> Result<(), Survivors> {
    let begun = Instant::now();
    loop {
        let look = kill_but(own, left_out);
        if look.found.is_empty() && look.missed.is_none() {
            return Ok(());
        }
        if begun.elapsed() > KILL_PATIENCE {
            return Err(Survivors::of(look));
        }
        for process in look.found.iter().filter(|one| one.ended) {
            // Who is no child of ours becomes one.
            let _asked = waitpid(Pid::from_raw(process.pid), WaitOptions::NOHANG);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

/// Whom the end of all found.
#[derive(Debug)]
pub(super) struct Ended {
    /// Different ones that were found alive.
    pub(super) strays: u32,
    /// Who had been killed, by whomever.
    pub(super) killed: u32,
}

/// Processes that the kernel did not end.
#[derive(Debug)]
pub(super) struct Survivors {
    pub(super) count: u32,
    /// Why there may be more.
    pub(super) missed: Option<io::Error>,
}

impl Survivors {
    fn of(look: ProcessScan) -> Self {
        let count = look.found.iter().filter(|one| !one.ended).count();
        Self { count: count as u32, missed: look.missed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_confuse() {
        let rest = (0..30).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
        let process = parse(7, &format!("7 (a) Z 1 (b)) S 5 {rest}")).unwrap();
        assert_eq!(process, Process { pid: 7, parent: 5, group: 0, ended: false, pages: 19 });
        assert!(parse(7, "7 (x) Z 5 0").unwrap().ended);
        assert_eq!(parse(7, "nothing"), None);
    }

    #[test]
    fn who_cannot_be_looked_at_has_not_ended() {
        let error = |errno: Errno| io::Error::from(errno);
        assert!(is_nobody(&error(Errno::NOENT)) && is_nobody(&error(Errno::SRCH)));
        assert!(!is_nobody(&error(Errno::NOMEM)) && !is_nobody(&error(Errno::MFILE)));
    }

    #[test]
    fn descendants_are_found_at_any_depth() {
        let process = |pid, parent| Process { pid, parent, group: 0, ended: false, pages: 0 };
        let all = [process(2, 1), process(3, 2), process(4, 3), process(5, 1), process(6, 9)];
        let mut found: Vec<i32> =
            beneath(2, &all, &|_| false).iter().map(|process| process.pid).collect();
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert_eq!(beneath(1, &all, &|_| false).len(), 4);
        assert_eq!(beneath(1, &all, &|pid| pid == 3).len(), 2);
    }
}
