//! The last steps before the tool: this process becomes it.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use famulus_protocol::Isolation;
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, nice, set_dumpable_behavior,
    set_parent_process_death_signal, setrlimit, setsid,
};
use serde::{Deserialize, Serialize};

use super::confine::confine;
use super::descriptors::close_on_exec;
use super::{Order, ResourceLimits};

/// Tools give way to the runner and its supervisors, so that those can end them: hundreds of processes
/// at once leave a supervisor a fifth of the time this way, and a hundredth at 5. Nobody else notices
/// it, for a Pod has a share of its own.
const NICE: i32 = 19;

/// Where memory is short the kernel ends tools, and neither the runner nor a supervisor, who then say why.
const FIRST_TO_GO: &str = "1000";

/// The exit code when the tool could not be started. Its reason is the last line of the output.
pub(super) const NOT_STARTED: u8 = 126;

/// What `launch` writes on standard output: first that it is ready, and nothing more unless it
/// fails.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum LaunchReport {
    Ready(Isolation),
    /// What failed, and what to do.
    Failed(String),
}

/// Becomes the tool; returns only when it cannot.
pub(super) fn launch(order: &OsStr) -> ExitCode {
    let failure = match order.to_str().and_then(|order| serde_json::from_str(order).ok()) {
        Some(order) => become_tool(&order),
        None => "the order cannot be read; this is a defect of the runner".to_owned(),
    };
    say(&LaunchReport::Failed(failure));
    ExitCode::from(NOT_STARTED)
}

/// Returns what failed.
fn become_tool(order: &Order) -> String {
    // A process that cannot be looked into may not write this of itself any more. Where the kernel has no such
    // choice, it ends whom it wants.
    let _kept = fs::write("/proc/self/oom_score_adj", FIRST_TO_GO);
    let prepared = set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .and_then(|()| set_parent_process_death_signal(Some(Signal::KILL)))
        .and_then(|()| setsid().map(drop))
        .map_err(io::Error::from)
        .and_then(|()| close_on_exec())
        .and_then(|()| limit(&order.limits));
    if let Err(error) = prepared {
        return format!("the process could not be prepared ({error}); see the log of the runner");
    }
    // Being nice is a courtesy, and refused only where it is needless.
    let _kept = nice(NICE);
    let isolation = match confine(&order.confinement) {
        Ok(isolation) => isolation,
        Err(loose) => {
            return format!(
                "it could not be confined ({loose}), and nothing runs unconfined; run plugins on a kernel \
                 with Landlock, or in gVisor"
            );
        }
    };
    if let Err(error) = env::set_current_dir(&order.folder) {
        return format!("its folder {} cannot be entered: {error}", order.folder.display());
    }
    say(&LaunchReport::Ready(isolation));
    let error = Command::new(&order.program).args(&order.arguments).exec();
    refusal(order, &error)
}

fn limit(limits: &ResourceLimits) -> io::Result<()> {
    // Whoever started the runner may have set less, and then less it is.
    let set = |resource, wanted: u64| {
        let value = getrlimit(resource).maximum.map_or(wanted, |most| wanted.min(most));
        setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
    };
    set(Resource::Core, 0)?;
    set(Resource::Fsize, limits.file_bytes)?;
    set(Resource::Nofile, limits.descriptors)?;
    if let Some(threads) = limits.user_threads {
        set(Resource::Nproc, threads)?;
    }
    Ok(())
}

fn refusal(order: &Order, error: &io::Error) -> String {
    let program = order.program.display();
    match error.raw_os_error() {
        Some(libc::EACCES) => {
            format!("{program} may not be executed; run `chmod +x` on it, and check its first line")
        }
        Some(libc::ENOEXEC) => format!(
            "{program} is no program; begin it with a line such as `#!/usr/bin/env python3`"
        ),
        Some(libc::ENOENT) => format!(
            "{program}, or the interpreter that its first line names, does not exist; check the \
             `entrypoint` and the first line"
        ),
        _ => format!("{program} cannot be started: {error}"),
    }
}

fn say(report: &LaunchReport) {
    // Without a reader nobody waits for this process either.
    if let Ok(mut line) = serde_json::to_vec(report) {
        line.push(b'\n');
        let mut output = io::stdout().lock();
        let _gone = output.write_all(&line).and_then(|()| output.flush());
    }
}
