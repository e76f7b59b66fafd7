//! Why a sandbox of this machine was not made, or did not do what it was for.

use std::io;
use std::path::PathBuf;

use famulus_protocol::revision::BuildFailure;

/// Plugins cannot run here, or one of them cannot.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error(
        "{path} is not there; put famulus-runner of the same release beside famulus, or run \
         `cargo build --package famulus-runner`"
    )]
    NoRunner { path: PathBuf },
    #[error("{path} cannot be made or written ({source}); see who owns the folder above it")]
    Folder { path: PathBuf, source: io::Error },
    #[error(
        "the path {path} is too long for a socket by {bytes} bytes; set `data_dir` to a shorter path"
    )]
    LongPath { path: PathBuf, bytes: usize },
    #[error("the launcher cannot be started: {0}")]
    Start(#[source] io::Error),
    /// What the launcher said.
    #[error("the sandbox cannot be made: {0}")]
    NotLaunched(String),
    /// Nothing runs on this machine: why.
    #[error("{0}")]
    Refused(String),
    #[error("no client for runners can be made")]
    Client(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error("what a plugin keeps did not come whole: {0}")]
    Copy(#[source] io::Error),
    #[error("there is no such plugin any more")]
    Gone,
    #[error("the assistant is about to end")]
    Ending,
}

impl MachineError {
    pub(crate) fn folder(path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Folder { path, source }
    }
}

/// There is no new revision.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// In the words of the runner, for the owner.
    #[error("{}", .0.message)]
    Failed(BuildFailure),
    #[error("the step ended ({how}) and reported nothing; the end of what it said: {said}")]
    Silent { how: String, said: String },
}
