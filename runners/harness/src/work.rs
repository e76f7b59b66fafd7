//! What a runner brings to the harness.

use std::path::PathBuf;

use async_trait::async_trait;
use famulus_protocol::revision::Network;
use famulus_protocol::{CallId, Check, Kind, Problem, Run, RunCall, ToolHealth};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::live::ProgressSender;
use crate::pieces::Pieces;
use crate::supervisor::Supervisor;

/// The part of a runner that knows what is run.
#[async_trait]
pub trait Work: Send + Sync + 'static {
    /// Judges a request before it is queued. May read files; runs off the threads that serve.
    fn admit(&self, request: &RunCall, uploads: &[u64]) -> Result<Admitted, Problem>;

    fn health(&self) -> WorkHealth;

    /// Whether calls can be taken, or why not.
    fn readiness(&self) -> Result<(), String> {
        Ok(())
    }

    /// Proves that a call could run. `scratch` is an empty folder of its own.
    async fn self_test(&self, supervisor: &Supervisor, scratch: PathBuf) -> Vec<Check>;

    /// What it keeps beside its code, as a tar. No call begins before the last piece was taken.
    async fn give_files(&self) -> Result<Pieces, Problem> {
        Err(keeps_nothing())
    }

    /// Takes what [`Work::give_files`] gave, if it is waited for.
    async fn take_files(&self, _files: Pieces) -> Result<(), Problem> {
        Err(keeps_nothing())
    }

    /// What its owner configured: the JSON of an object.
    fn configuration(&self) -> Result<String, Problem> {
        Err(keeps_nothing())
    }
}

fn keeps_nothing() -> Problem {
    Problem::new(
        Kind::NoRoute,
        "this runner keeps nothing for backups",
        "ask one that an operator started",
    )
}

/// A request that may run.
pub struct Admitted {
    pub queue: Queue,
    pub answer: Answer,
    /// Whether the parameters were an array.
    pub each: bool,
    /// Runs to their end, whatever comes: an error is a run that failed. Not called for a call that
    /// is cancelled while it waits.
    pub run: Box<dyn FnOnce(Context) -> BoxFuture<'static, Vec<Run>> + Send>,
}

/// With whom a call shares its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queue {
    /// One at a time.
    Serial,
    /// Beside others.
    Concurrent,
}

/// How the app hears of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// On the connection of the request.
    Stream,
    /// Later, by callback.
    Later,
}

/// What stands around a call that runs.
pub struct Context {
    pub call: CallId,
    /// The folder in which upload `N` is the file `N`.
    pub uploads: PathBuf,
    /// The folder in which output `N` is to be the file `N`.
    pub outputs: PathBuf,
    pub progress: ProgressSender,
    pub supervisor: Supervisor,
    /// Cancelled when nobody wants the result.
    pub cancel: CancellationToken,
}

/// How the work is.
#[derive(Clone, Debug, Default)]
pub struct WorkHealth {
    pub plugin: Option<String>,
    pub tools: Vec<ToolHealth>,
    pub complaints: Vec<String>,
    pub network: Option<Network>,
    pub revision: Option<String>,
    pub rendered: Option<i64>,
}
