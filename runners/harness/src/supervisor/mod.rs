//! One process of untrusted code, from its start to the last of its descendants.
//!
//! ```text
//! runner ──Job, one line──► supervisor ──Order, an argument──► launch ──exec──► tool
//!    ▲                       │  subreaper, not confined          session, limits, Landlock,
//!    └──Frames, one a line───┘  ends every descendant            no new privileges, descriptors
//! ```
//!
//! Supervisor and launch are this same program, started again with a first argument of their own
//! ([`Stage`]). The supervisor's standard input stays open while the call is wanted: when it ends,
//! because the call was cancelled or because the runner died, the tool and everything that it
//! started are ended.
//!
//! Invariants: a report is written only when no descendant lives; output is kept within bounds, and
//! what was cut is counted; the tool cannot signal its supervisor or the runner where the kernel's
//! Landlock knows signals, and nowhere read their memory.

mod capture;
mod confine;
mod descriptors;
mod filter;
mod launch;
mod memory;
mod processes;
mod run;
mod supervise;
mod walls;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use famulus_protocol::Isolation;
use serde::{Deserialize, Serialize};

pub use descriptors::close_on_exec;
pub use memory::MemoryWatch;
pub use run::{Supervisor, SupervisorError};

/// The first argument of the program when it is started as a supervisor.
const SUPERVISE: &str = "supervise-one-call";

/// The first argument of the program when it is about to become the tool.
const LAUNCH: &str = "launch-one-tool";

/// What a process of this program is for, besides being the runner.
#[derive(Debug)]
pub enum Stage {
    Supervise,
    /// With its order.
    Launch(OsString),
}

impl Stage {
    /// Reads the arguments behind the program's name. `None`: it is the runner itself.
    pub fn of(arguments: impl IntoIterator<Item = OsString>) -> Option<Self> {
        let mut arguments = arguments.into_iter();
        let first = arguments.next()?;
        if first == SUPERVISE {
            return Some(Self::Supervise);
        }
        if first == LAUNCH { arguments.next().map(Self::Launch) } else { None }
    }

    /// Does what the stage is for. Must be called before the program starts any thread.
    pub fn run(self) -> ExitCode {
        match self {
            Self::Supervise => supervise::supervise(),
            Self::Launch(order) => launch::launch(&order),
        }
    }
}

/// What is to be run, and within which bounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub order: Order,
    /// All variables that the tool sees.
    pub environment: Vec<(String, String)>,
    /// Written to standard input, which then ends.
    pub input: String,
    /// From the start until the tool is asked to end.
    pub deadline_millis: u64,
    /// From the request to end until it is forced.
    pub grace_millis: u64,
    pub output: OutputLimits,
    /// Living processes at a time; beyond, the call is ended.
    pub processes: u32,
    pub memory: Option<MemoryWatch>,
}

/// How much of what the tool writes is kept.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct OutputLimits {
    /// Of standard output, from its beginning.
    pub stdout_bytes: usize,
    /// Of standard error, up to its end.
    pub stderr_bytes: usize,
}

/// What `launch` does to itself before it becomes the tool.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    pub folder: PathBuf,
    pub confinement: Confinement,
    pub limits: ResourceLimits,
}

/// The parts of the file system that the tool may use.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Confinement {
    /// Read and execute. What does not exist is passed over.
    pub read: Vec<PathBuf>,
    /// Everything. What does not exist is passed over.
    pub write: Vec<PathBuf>,
}

/// Limits of the kernel on each process of the tool. Core dumps are always off.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct ResourceLimits {
    /// Threads of the user, counted over all of the user's processes. `None` where the user is
    /// shared with a person.
    pub user_threads: Option<u64>,
    /// Open descriptors of a process.
    pub descriptors: u64,
    /// Size of a file.
    pub file_bytes: u64,
}

/// What the supervisor writes, one a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Frame {
    Started(Isolation),
    /// A piece of standard error. Pieces are left out when the runner is slow; the report has it.
    Said(String),
    Report(Report),
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub end: End,
    pub stdout: Captured,
    pub stderr: Captured,
    /// Processes that the tool left running, and that were ended.
    pub strays: u32,
    /// Whether a process had to be killed because it did not end when it was asked to.
    pub forced: bool,
    /// From start to end, in milliseconds.
    pub millis: u64,
}

/// What a stream brought, as text; bytes that are no text are replaced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    pub text: String,
    /// Bytes that are not in the text.
    pub cut: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum End {
    Exited(i32),
    Signalled(i32),
    Deadline,
    Cancelled,
    /// It had this many processes.
    Processes(u32),
    Memory,
    /// It was never started; what failed, and what to do.
    NotStarted(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_is_told_by_the_first_argument() {
        let stage = |arguments: &[&str]| Stage::of(arguments.iter().map(OsString::from));
        assert!(matches!(stage(&[SUPERVISE]), Some(Stage::Supervise)));
        assert!(matches!(stage(&[LAUNCH, "{}"]), Some(Stage::Launch(_))));
        assert!(stage(&[LAUNCH]).is_none());
        assert!(stage(&["--help"]).is_none());
        assert!(stage(&[]).is_none());
    }
}
