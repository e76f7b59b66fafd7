//! A runner of this machine: a process in a sandbox, and what is known of it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use famulus_core::plugin::Egress;
use famulus_sandbox::{Conduct, Ended, KnownRunner, RunnerAddress};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::launcher::Log;

/// A sandbox that serves a plugin. One that is started again is another.
#[derive(Debug)]
pub struct LocalRunner {
    pub(crate) name: String,
    /// The UID of the plugin.
    pub(crate) plugin: String,
    pub(crate) created: Timestamp,
    pub(crate) socket: PathBuf,
    /// What its sandbox reaches.
    pub(crate) egress: Egress,
    pub(crate) log: Log,
    /// Asks it to end when its calls have.
    pub(crate) end: CancellationToken,
    /// Ends it now.
    pub(crate) kill: CancellationToken,
    pub(crate) ready: AtomicBool,
    /// Why it ended before, if it did and was started again.
    pub(crate) before: Option<Ended>,
    pub(crate) conduct: Conduct,
}

impl KnownRunner for LocalRunner {
    fn name(&self) -> &str {
        &self.name
    }

    fn conduct(&self) -> &Conduct {
        &self.conduct
    }

    fn created(&self) -> Timestamp {
        self.created
    }

    fn address(&self) -> Option<RunnerAddress<'_>> {
        Some(RunnerAddress::Socket(&self.socket))
    }

    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }

    fn is_ending(&self) -> bool {
        self.end.is_cancelled()
    }

    /// No memory of its own is counted.
    fn memory(&self) -> Option<&str> {
        None
    }

    fn ended_before(&self) -> Option<Ended> {
        self.before
    }
}
