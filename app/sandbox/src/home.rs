//! The port below: who finds, starts and ends runners.
//!
//! A cluster and one machine differ in this alone.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use famulus_core::runner::Origin;
use famulus_core::sandbox::{PluginState, SandboxError};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::conduct::Conduct;

/// Where plugins and their runners are. What it says of them it says from memory.
#[async_trait]
pub trait Home: Send + Sync + 'static {
    type Plugin: KnownPlugin;
    type Runner: KnownRunner;

    /// Waits so long until it is known who there is.
    async fn known(&self, patience: Duration) -> Result<(), SandboxError>;

    /// Told of every change of what is known, from now on.
    fn changes(&self) -> watch::Receiver<u64>;

    /// By name.
    fn plugins(&self) -> BTreeMap<String, Arc<Self::Plugin>>;

    fn plugin(&self, name: &str) -> Option<Arc<Self::Plugin>>;

    fn plugin_by_uid(&self, uid: &str) -> Option<Arc<Self::Plugin>>;

    /// Every runner of a plugin, oldest first.
    fn runners(&self, plugin: &Self::Plugin) -> Vec<Arc<Self::Runner>>;

    /// Whether this runner still exists.
    fn has(&self, runner: &Self::Runner) -> bool;

    /// Whether this runner reaches no more than the plugin may now.
    fn lets(&self, plugin: &Self::Plugin, runner: &Self::Runner) -> bool;

    /// Whether what calls from there belongs to the plugin.
    fn owns(&self, plugin: &Self::Plugin, from: &Origin) -> bool;

    /// What proves a request between the app and runners that were given what has this number.
    fn bearer(&self, plugin: &Self::Plugin, rendered: i64) -> String;

    /// Has a runner started.
    async fn start(&self, plugin: &Self::Plugin) -> Result<(), ScaleError>;

    /// Lets its runners end, if nothing changed since the plugin was seen like this.
    async fn end(&self, plugin: &Self::Plugin) -> Result<(), ScaleError>;

    /// The end of what a runner logged, or why it cannot be had. Lines, oldest first.
    async fn logs(&self, runner: &Self::Runner) -> Result<Vec<String>, String>;
}

/// A plugin as it was seen last.
pub trait KnownPlugin: Send + Sync + 'static {
    /// By which it is called.
    fn name(&self) -> &str;

    /// One made anew has another.
    fn uid(&self) -> &str;

    /// The number of what its runners were given last.
    fn rendered(&self) -> i64;

    fn permits(&self, tool: &str) -> bool;

    /// What keeps it from taking calls and would not be cured by a runner that starts.
    fn refuses(&self) -> Option<NotReady>;

    /// Whether a new look at its network could change that it takes no calls.
    fn needs_recheck(&self) -> bool;

    /// How it stands, for an error that has to say why nothing starts.
    fn says(&self) -> NotReady;

    fn state(&self) -> PluginState;

    /// Whether a runner is wanted now.
    fn wants_runner(&self) -> bool;

    /// Unused for so long, its runners end.
    fn idle(&self) -> Duration;

    /// There is never more than one at a time.
    fn has_one_runner(&self) -> bool;
}

/// A runner as it was seen last.
pub trait KnownRunner: Send + Sync + 'static {
    /// For logs.
    fn name(&self) -> &str;

    fn conduct(&self) -> &Conduct;

    fn created(&self) -> Timestamp;

    /// Where it is reached, once it has an address.
    fn address(&self) -> Option<RunnerAddress<'_>>;

    fn is_ready(&self) -> bool;

    /// Somebody asked it to end, or it ended.
    fn is_ending(&self) -> bool;

    /// Its limit, in words.
    fn memory(&self) -> Option<&str>;

    /// How it ended, if it was started again since.
    fn ended_before(&self) -> Option<Ended>;

    /// Whether new calls may go there.
    fn takes_calls(&self) -> bool {
        self.is_ready() && self.stays()
    }

    /// Whether it is about to take calls.
    fn is_starting(&self) -> bool {
        !self.is_ready() && self.stays()
    }

    /// Whether it can be spoken to, and is not about to end.
    fn stays(&self) -> bool {
        !self.is_ending() && self.address().is_some() && !self.conduct().is_draining()
    }
}

/// Where a runner is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunnerAddress<'a> {
    Tcp(SocketAddr),
    /// On one machine, where its network has nobody else in it.
    Socket(&'a Path),
}

/// Why there is no use in starting a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// A word that stays.
    pub reason: String,
    /// What is the case and what to do about it, for a person.
    pub message: String,
}

/// How a runner ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    pub at: Timestamp,
    pub cause: EndCause,
}

/// Why a runner ended, as far as its home tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// It took more memory than it may have.
    Memory,
    /// It was killed. A home does not always see that the kernel did it for memory: the end may be
    /// told before its cause, and of gVisor's processes only that they are gone.
    Killed,
    Exited(i32),
}

/// Why no runner was started, or none was let end.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    #[error("the plugin changed meanwhile, or is gone")]
    Changed,
    #[error(transparent)]
    Refused(Box<dyn Error + Send + Sync>),
}
