//! What a crash leaves running: a postmaster whose app died, or backends whose postmaster died.
//!
//! An orphaned postmaster is stopped and a new one started, not adopted: its connections belong to
//! a dead process anyway, its settings may be of yesterday, and only a child of ours can be waited
//! for. This costs a few tenths of a second after a crash and leaves one way of running.
//!
//! Only called under the lock of the data directory, so whatever is found belongs to nobody alive.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::error::PostgresError;

/// How long an orphaned postmaster gets for each, from mild to hard.
const POSTMASTER_STEPS: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(15)),
    (Signal::QUIT, Duration::from_secs(5)),
    (Signal::KILL, Duration::ZERO),
];

/// Backends notice the death of their postmaster by themselves, usually within milliseconds.
const BACKEND_PATIENCE: Duration = Duration::from_secs(5);

/// A killed process is gone unless the kernel holds it in a device.
const KILL_PATIENCE: Duration = Duration::from_secs(5);

/// How often the process table is read while waiting.
const POLL: Duration = Duration::from_millis(20);

/// Ends every process of an earlier server on `pgdata` and removes a pid file that would be
/// mistaken for a living server. Blocks its thread, for half a minute at the very most.
pub(super) fn clear(pgdata: &Path) -> Result<(), PostgresError> {
    for (signal, patience) in POSTMASTER_STEPS {
        let Some(postmaster) = postmaster(pgdata) else { break };
        tracing::warn!(pid = postmaster, ?signal, "stopping the Postgres of an earlier run");
        send(postmaster, signal);
        wait_until_none(pgdata, patience);
    }
    if !wait_until_none(pgdata, BACKEND_PATIENCE) {
        for pid in server_processes(pgdata) {
            tracing::warn!(pid, "killing a backend of an earlier run");
            send(pid, Signal::KILL);
        }
        if !wait_until_none(pgdata, KILL_PATIENCE) {
            let pids = server_processes(pgdata);
            return Err(PostgresError::Leftovers { path: pgdata.to_owned(), pids });
        }
    }
    remove_misleading_pid_file(pgdata)
}

/// Whether all ended in time.
fn wait_until_none(pgdata: &Path, patience: Duration) -> bool {
    let asked = Instant::now();
    loop {
        if server_processes(pgdata).is_empty() {
            return true;
        }
        if asked.elapsed() >= patience {
            return false;
        }
        thread::sleep(POLL);
    }
}

/// Postgres refuses to start while the process named in its pid file lives, even if the number
/// has been given to another program since. Nothing of a server is left here, so it has. A file
/// whose process is gone stays: Postgres checks more by it than we do.
fn remove_misleading_pid_file(pgdata: &Path) -> Result<(), PostgresError> {
    let alive = |pid| Pid::from_raw(pid).is_some_and(|pid| test_kill_process(pid).is_ok());
    if recorded_pid(pgdata).is_some_and(alive) {
        let file = pgdata.join("postmaster.pid");
        fs::remove_file(&file).map_err(PostgresError::io("remove the stale", &file))?;
    }
    Ok(())
}

/// The living postmaster of `pgdata`.
fn postmaster(pgdata: &Path) -> Option<i32> {
    recorded_pid(pgdata).filter(|pid| server_processes(pgdata).contains(pid))
}

/// The pid in `postmaster.pid`, whoever has it now.
fn recorded_pid(pgdata: &Path) -> Option<i32> {
    fs::read_to_string(pgdata.join("postmaster.pid")).ok()?.lines().next()?.trim().parse().ok()
}

/// All processes named `postgres` that work in `pgdata`: each of a server's does. Zombies do not
/// count, they hold nothing.
fn server_processes(pgdata: &Path) -> Vec<i32> {
    let Ok(pgdata) = pgdata.canonicalize() else { return Vec::new() };
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    processes
        .filter_map(|process| {
            let process = process.ok()?;
            let pid = process.file_name().to_str()?.parse().ok()?;
            let here = fs::read_link(process.path().join("cwd")).ok()? == pgdata;
            let name = fs::read_link(process.path().join("exe")).ok()?;
            let is_postgres = name.file_name()?.to_string_lossy().starts_with("postgres");
            (here && is_postgres).then_some(pid)
        })
        .collect()
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid)
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::debug!(pid = pid.as_raw_nonzero(), %error, "an orphan ended before its signal");
    }
}
