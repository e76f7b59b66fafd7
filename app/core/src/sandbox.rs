//! Sandboxes: where the tools of plugins run, behind one port.
//!
//! ```text
//! tools ─ SandboxCall ─► Sandboxes ─► a runner, wherever it is
//!       ◄─ SandboxAnswer ────┘
//! ```
//!
//! Above the port a file is a [`BlobRef`]; only below it are there bytes. Above it nobody knows Pods,
//! addresses or bearers; below it nobody knows turns.
//!
//! What holds: a call is named by [`SandboxCall::id`], and the same name runs at most once however
//! often it is sent. Its result is kept below the port until it is acknowledged, which the caller
//! does once it has recorded it.

use crate::blob::BlobRef;
use crate::ids::PersonId;
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// A plugin as it stands now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PluginState {
    /// Its name, by which tools are called.
    pub name: String,
    /// Whether a call would be answered: a plugin that sleeps is ready.
    pub ready: bool,
    /// Why, in a word that stays.
    pub reason: String,
    /// What is the case and what to do about it, for a person.
    pub message: String,
    /// The revision that serves: `sha256:` and 64 hexadecimal digits.
    pub revision: Option<String>,
    pub commit: Option<String>,
    /// The tools of that revision that the owner permits.
    pub tools: Vec<String>,
    /// Keys of its configuration that have a value; never a value.
    pub config_keys: Vec<String>,
    /// What its tools reach over the network, in a word.
    pub egress: String,
    /// Runners that exist now.
    pub runners: u32,
    /// How its runner was really confined; nothing before the first one ran.
    pub isolation: Option<String>,
}

/// A call of one tool of one plugin.
#[derive(Clone, Debug)]
pub struct SandboxCall {
    /// The name of the call: letters, digits, `.`, `_` and `-`, at most 128.
    pub id: String,
    pub plugin: String,
    pub tool: String,
    /// An object, or an array of objects: then the tool runs once for each. A value that is exactly
    /// `{"filename": …, "upload": N}` is the file `files[N]`.
    pub parameters: Value,
    pub files: Vec<BlobRef>,
    /// To whom files that the tool leaves will belong.
    pub person: PersonId,
    /// The proof with which the result of an async tool comes back; valid once.
    pub token: Option<String>,
    /// Ends the call.
    pub cancel: CancellationToken,
    /// Told how far the call is.
    pub progress: Progress,
}

/// Whom a call tells how far it is.
#[derive(Clone)]
pub struct Progress(pub Arc<dyn Fn(Stage) + Send + Sync>);

impl Progress {
    /// Tells nobody.
    pub fn none() -> Self {
        Self(Arc::new(|_stage| ()))
    }

    pub fn tell(&self, stage: Stage) {
        (self.0)(stage);
    }
}

impl std::fmt::Debug for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Progress")
    }
}

/// How far a call is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "stage", rename_all = "snake_case")]
pub enum Stage {
    /// A runner is being started for it.
    Starting,
    /// It waits for `position` other calls.
    Queued { position: u32 },
    /// Run `run` of `runs` has begun, counted from 0.
    Started { run: u32, runs: u32 },
    /// The tool wrote to standard error.
    Said { text: String },
}

/// What came of sending a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SandboxAnswer {
    Ended(SandboxResult),
    /// The tool is an async one: its result comes later, by the call's token.
    Running,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxResult {
    /// Whether the parameters were an array. Otherwise there is exactly one run.
    pub each: bool,
    pub runs: Vec<SandboxRun>,
}

/// One run of the tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxRun {
    pub output: RunOutput,
    /// Files that the tool left, with their names.
    pub files: Vec<(String, BlobRef)>,
    /// What was cut, left out or ended, in words for the model.
    pub notes: Vec<String>,
    /// From start to end, in milliseconds.
    pub millis: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "text", rename_all = "snake_case")]
pub enum RunOutput {
    /// Kept as it was written.
    Json(String),
    Text(String),
    /// What went wrong, in words for the model.
    Failed(String),
    /// The runner was lost while it ran: it may have happened or not.
    Unknown(String),
}

/// A call that was not run, or of which nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SandboxError {
    /// There are no sandboxes here.
    #[error("plugins do not run here: {0}")]
    Unsupported(String),
    /// There are some, and none can be asked after just now: nothing happened.
    #[error("plugins cannot be reached: {0}; try again in a moment")]
    Away(String),
    #[error("there is no plugin `{plugin}`; the plugins are: {known}")]
    NoPlugin { plugin: String, known: String },
    /// The plugin takes no calls now.
    #[error("the plugin `{plugin}` is not ready ({reason}): {message}")]
    NotReady { plugin: String, reason: String, message: String },
    /// The runner refused it: nothing happened.
    #[error("{0}")]
    Refused(String),
    /// Nothing happened, and the same may succeed later.
    #[error("the sandbox of `{plugin}` could not be reached: {why}; try again in a moment")]
    Unreachable { plugin: String, why: String },
    /// It was sent, and nobody knows what came of it.
    #[error("the sandbox of `{plugin}` was lost while the call ran: {why}")]
    Lost { plugin: String, why: String },
    /// The caller ended it.
    #[error("the call was stopped")]
    Stopped,
}

/// Where plugins run.
#[async_trait]
pub trait Sandboxes: Send + Sync + 'static {
    /// Every plugin that there is, by name. What the owner permits nothing of is among them.
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError>;

    /// Runs a call and waits for its end, unless it is one that ends later. Sent again under the
    /// same id to the same runner it is the same call, also after the caller's or the runner's
    /// restart. A caller that does not know what it sent before first has to [`Self::ask`].
    async fn run(&self, call: SandboxCall) -> Result<SandboxAnswer, SandboxError>;

    /// What came of a call that was perhaps sent, at `sent` or later: waits for its end, if it runs.
    /// `None` when it did not happen, or its result was acknowledged. Whether a runner that is gone
    /// had it nobody can say: that is [`SandboxError::Lost`].
    async fn ask(
        &self,
        plugin: &str,
        id: &str,
        sent: Timestamp,
        person: PersonId,
    ) -> Result<Option<SandboxAnswer>, SandboxError>;

    /// Lets the result go, since it was recorded. Losing this costs memory below the port only.
    async fn acknowledge(&self, plugin: &str, id: &str);

    /// The end of what its runner logged, for a person. Lines, oldest first.
    async fn logs(&self, plugin: &str) -> Result<Vec<String>, SandboxError>;
}
