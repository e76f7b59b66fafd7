//! Others stand still while something is done that they must not see half done.

use rustix::{
    io::Errno,
    process::{Pid, Signal, getpid, kill_process},
};
use std::{
    collections::BTreeSet,
    fs, io,
    thread::sleep,
    time::{Duration, Instant},
};

/// Who does not stand still by then is not waited for. The probes of a Pod wait longer.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(2);

/// Processes that stand still until it is dropped.
pub(crate) struct Still {
    all: BTreeSet<i32>,
}

impl Still {
    /// Stops those that are found, until none of them runs and no other is found.
    ///
    /// # Errors
    /// One cannot be stopped, or does not stop soon. All of them go on.
    pub(crate) fn new(others: impl Fn() -> io::Result<Vec<Pid>>) -> io::Result<Self> {
        let (mut still, until) = (Self { all: BTreeSet::new() }, Instant::now() + PATIENCE);
        loop {
            let mut runs = false;
            for pid in others()? {
                if still.all.insert(pid.as_raw_nonzero().get()) {
                    tell(pid, Signal::STOP)?;
                }
                runs |= !stands(pid)?;
            }
            if !runs {
                return Ok(still);
            }
            if Instant::now() > until {
                let seconds = PATIENCE.as_secs();
                let what = format!("those beside did not stand still within {seconds} s");
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            sleep(LOOK);
        }
    }

    /// They end where they stand, and whoever started them starts them anew.
    pub(crate) fn kill(self) -> io::Result<()> {
        self.pids().try_for_each(|pid| tell(pid, Signal::KILL))
    }

    fn pids(&self) -> impl Iterator<Item = Pid> {
        self.all.iter().filter_map(|pid| Pid::from_raw(*pid))
    }
}

impl Drop for Still {
    fn drop(&mut self) {
        for pid in self.pids() {
            if let Err(error) = tell(pid, Signal::CONT) {
                tracing::error!(%error, "a process that was stopped was not told to go on");
            }
        }
    }
}

/// Everybody else of a Pod that shares its processes: not us, and not the first with those that it started,
/// which hold its namespaces and end it with them.
///
/// # Errors
/// The Pod does not share them, so that nobody else can be seen.
pub fn of_the_pod() -> io::Result<Vec<Pid>> {
    let us = getpid();
    if us.is_init() {
        return Err(io::Error::other("this Pod does not share its processes"));
    }
    let mut others = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let pid = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(pid) = pid.filter(|pid| *pid != us && !pid.is_init()) else { continue };
        if !is_of(Pid::INIT, pid)? {
            others.push(pid);
        }
    }
    Ok(others)
}

/// Whether it is in the session that the other began. Each container begins one of its own.
fn is_of(first: Pid, pid: Pid) -> io::Result<bool> {
    match fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) {
        Ok(stat) => Ok(behind_name(&stat).nth(3) == Some(&*first.as_raw_nonzero().to_string())),
        Err(error) if is_gone(&error) => Ok(true),
        Err(error) => Err(error),
    }
}

/// What a line of `stat` says behind the name: the state, and so on.
fn behind_name(stat: &str) -> impl Iterator<Item = &str> {
    stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace()
}

/// It ended before it was looked at, or while.
fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
        || error.raw_os_error() == Some(Errno::SRCH.raw_os_error())
}

/// One that is gone needs no word.
fn tell(pid: Pid, word: Signal) -> io::Result<()> {
    match kill_process(pid, word) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Whether no thread of it runs.
fn stands(pid: Pid) -> io::Result<bool> {
    let threads = match fs::read_dir(format!("/proc/{}/task", pid.as_raw_nonzero())) {
        Ok(threads) => threads,
        Err(error) if is_gone(&error) => return Ok(true),
        Err(error) => return Err(error),
    };
    for thread in threads {
        // A thread may end between two looks.
        let Ok(stat) = fs::read_to_string(thread?.path().join("stat")) else { continue };
        if !matches!(behind_name(&stat).next(), Some("T" | "t" | "Z" | "X")) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Not the session of this test: where its leader is outside of the Pod, it has no number here.
    #[test]
    fn who_was_started_by_the_holder_of_namespaces_belongs_to_it() {
        let mut first = Command::new("setsid");
        let mut first = first.args(["sh", "-c", "sleep 60 & wait"]).spawn().unwrap();
        let own = Pid::from_child(&first);
        let mut apart = Command::new("setsid").args(["sleep", "60"]).spawn().unwrap();
        let far = Pid::from_child(&apart);
        let until = Instant::now() + PATIENCE;
        let started = format!("/proc/{0}/task/{0}/children", own.as_raw_nonzero());
        let near = loop {
            let started = fs::read_to_string(&started).unwrap();
            if let Some(pid) = started.split_whitespace().next() {
                break Pid::from_raw(pid.parse().unwrap()).unwrap();
            }
            assert!(Instant::now() < until, "it started nobody");
            sleep(LOOK);
        };
        assert!(is_of(own, near).unwrap());
        assert!(!is_of(own, far).unwrap());
        kill_process(near, Signal::KILL).unwrap();
        for child in [&mut first, &mut apart] {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert!(is_of(own, near).unwrap(), "nobody has to be told who is gone");
    }
}
