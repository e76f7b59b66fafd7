//! The life of plugins: what the owner wants of each, and who sees to it.
//!
//! ```text
//! api, tools ── ManagedPlugins ─► a home ── PluginRows ─► store
//! ```
//!
//! What is fetched is *offered*: nothing of it runs until somebody permits that revision. What is permitted is
//! built, and serves when that is done.

use crate::StoreError;
use crate::plugin::{Description, Edit, EditError};
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fmt;

/// Where the files of a plugin come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum PluginSource {
    Git {
        url: String,
        /// A branch, a tag or a commit.
        #[serde(default = "head")]
        r#ref: String,
    },
    Inline {
        files: Vec<PluginFile>,
    },
}

fn head() -> String {
    "HEAD".to_owned()
}

impl fmt::Display for PluginSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git { url, r#ref } => write!(f, "{url} at {ref}"),
            Self::Inline { files } => write!(f, "{} files that were sent", files.len()),
        }
    }
}

/// A file of a plugin. It can be executed if it begins with `#!`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PluginFile {
    pub path: String,
    pub content: String,
}

/// What tools of a plugin reach over the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Egress {
    #[default]
    None,
    /// Public addresses.
    Internet,
}

impl Egress {
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Internet => "internet",
        }
    }
}

/// What the owner wants of a plugin, and how far that is.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRow {
    /// One made anew has another: a UUID.
    pub uid: String,
    pub name: String,
    pub source: PluginSource,
    /// The revision that waits for a yes.
    pub offered: Option<String>,
    /// What was permitted and is to serve.
    pub wanted: Option<Granted>,
    /// What serves.
    pub serving: Option<Granted>,
    /// The number of what its runners are given.
    pub rendered: i64,
    pub trouble: Option<Trouble>,
}

impl PluginRow {
    /// What is to serve and does not yet.
    pub fn unbuilt(&self) -> Option<&Granted> {
        let serves = self.serving.as_ref().map(|serving| &serving.revision);
        self.wanted.as_ref().filter(|wanted| Some(&wanted.revision) != serves)
    }
}

/// Why what is wanted does not serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// A word that stays, as `RefNotFound`.
    pub reason: String,
    /// What is the case and what to do about it, for a person.
    pub message: String,
}

/// Something that became of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginEvent {
    pub at: Timestamp,
    pub what: String,
    /// The name of whoever did it, unless it came by itself.
    pub who: Option<String>,
    pub revision: Option<String>,
}

/// What is kept of the life of plugins. Each change is durable when it returns, and notes who made it; of a plugin
/// that is gone nothing is changed.
#[async_trait]
pub trait PluginRows: Send + Sync + 'static {
    async fn plugin_rows(&self) -> Result<Vec<PluginRow>, StoreError>;

    async fn plugin_row(&self, name: &str) -> Result<Option<PluginRow>, StoreError>;

    /// A plugin of which nothing is known yet. `false`: its name is taken.
    async fn begin_plugin(&self, row: &PluginRow) -> Result<bool, StoreError>;

    /// This revision, from this source, waits for a yes.
    async fn offer(
        &self,
        uid: &str,
        source: &PluginSource,
        revision: &str,
        who: &str,
    ) -> Result<(), StoreError>;

    /// The revision is to serve, with these rights. `false`: neither is it offered, nor wanted, nor does it serve.
    async fn permit(&self, uid: &str, granted: &Granted, who: &str) -> Result<bool, StoreError>;

    /// An earlier revision is to serve again.
    async fn want_again(&self, uid: &str, again: &Granted, who: &str) -> Result<(), StoreError>;

    /// What is wanted, if it is this revision, serves.
    async fn serves(&self, uid: &str, revision: &str) -> Result<(), StoreError>;

    /// What is wanted, if it is this revision, does not serve; it may be permitted again.
    async fn failed(&self, uid: &str, revision: &str, why: &Trouble) -> Result<(), StoreError>;

    /// A value of its configuration changed.
    async fn configured(&self, uid: &str, who: &str) -> Result<(), StoreError>;

    async fn remove_plugin(&self, uid: &str) -> Result<(), StoreError>;

    /// What became of it, oldest first.
    async fn plugin_history(&self, uid: &str) -> Result<Vec<PluginEvent>, StoreError>;
}

/// What may run, and what it reaches. Bound to the revision that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub revision: String,
    /// `*` is all of them.
    pub tools: Vec<String>,
    pub egress: Egress,
}

/// What is offered to the owner.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Offer {
    pub plugin: String,
    /// Whether it is another revision than the one that serves.
    pub changed: bool,
    pub revision: String,
    pub commit: Option<String>,
    /// Where it is from, in words.
    pub source: String,
    pub description: Description,
    /// What serves until then.
    pub before: Option<Description>,
    /// What was permitted of what serves.
    pub permitted: Vec<String>,
    pub egress: Egress,
}

/// Whence an update comes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// From where the plugin is from, at the same branch, tag or commit.
    Again,
    Ref(String),
    Files(Vec<PluginFile>),
    /// Changes of single files, made to those that are there then.
    Edits(Vec<Edit>),
}

/// Nothing changed.
#[derive(Debug, thiserror::Error)]
pub enum ManageError {
    #[error("plugins are not managed here: {0}")]
    Unsupported(String),
    #[error("there is no plugin `{0}`; `famulus plugin list` names those that there are")]
    NoPlugin(String),
    #[error(
        "there is a plugin `{0}` already; update it, remove it, or install this one by another name"
    )]
    Taken(String),
    /// What was asked for cannot be: what, and what to do about it.
    #[error("{0}")]
    Invalid(String),
    #[error(transparent)]
    Edit(#[from] EditError),
    /// It was tried, and did not succeed.
    #[error("{message}")]
    Failed { reason: String, message: String },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who sees to plugins. `who` is the name of the owner who wants it.
#[async_trait]
pub trait ManagedPlugins: Send + Sync + 'static {
    /// Fetches a plugin and says what it is; nothing of it runs.
    async fn install(
        &self,
        name: Option<&str>,
        source: PluginSource,
        who: &str,
    ) -> Result<Offer, ManageError>;

    /// Fetches it anew; what serves goes on.
    async fn update(&self, name: &str, change: Change, who: &str) -> Result<Offer, ManageError>;

    /// Has the revision serve with these rights, once it is built.
    async fn permit(&self, name: &str, granted: Granted, who: &str) -> Result<(), ManageError>;

    /// Gives a key a value, or none.
    async fn configure(
        &self,
        name: &str,
        key: &str,
        value: Option<Value>,
        who: &str,
    ) -> Result<(), ManageError>;

    /// Has an earlier revision serve again: the named one, else the last other one. Which it is.
    async fn roll_back(
        &self,
        name: &str,
        revision: Option<&str>,
        who: &str,
    ) -> Result<String, ManageError>;

    /// Removes it with all that it kept.
    async fn remove(&self, name: &str) -> Result<(), ManageError>;

    async fn history(&self, name: &str) -> Result<Vec<PluginEvent>, ManageError>;

    /// What waits for a yes.
    async fn offer_of(&self, name: &str) -> Result<Option<Offer>, ManageError>;

    /// Where it is from, with its files where those were sent.
    async fn source(&self, name: &str) -> Result<PluginSource, ManageError>;

    /// What sandboxes are here, where they are alike for all plugins.
    fn level(&self) -> Option<SandboxLevel> {
        None
    }
}

/// What the sandboxes of a machine are, as it was found by trying.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SandboxLevel {
    /// How they are held; nothing, where none can be made.
    pub held: Option<String>,
    /// Why nothing of a plugin runs, or why none reaches the internet, and what to do about it.
    pub lacks: Vec<String>,
}

/// Where nobody manages plugins by this way: the words are why, and what to do instead.
#[derive(Clone, Copy, Debug)]
pub struct Unmanaged(pub &'static str);

impl Unmanaged {
    fn refused<T>(self) -> Result<T, ManageError> {
        Err(ManageError::Unsupported(self.0.to_owned()))
    }
}

#[async_trait]
impl ManagedPlugins for Unmanaged {
    async fn install(
        &self,
        _: Option<&str>,
        _: PluginSource,
        _: &str,
    ) -> Result<Offer, ManageError> {
        self.refused()
    }

    async fn update(&self, _: &str, _: Change, _: &str) -> Result<Offer, ManageError> {
        self.refused()
    }

    async fn permit(&self, _: &str, _: Granted, _: &str) -> Result<(), ManageError> {
        self.refused()
    }

    async fn configure(
        &self,
        _: &str,
        _: &str,
        _: Option<Value>,
        _: &str,
    ) -> Result<(), ManageError> {
        self.refused()
    }

    async fn roll_back(&self, _: &str, _: Option<&str>, _: &str) -> Result<String, ManageError> {
        self.refused()
    }

    async fn remove(&self, _: &str) -> Result<(), ManageError> {
        self.refused()
    }

    async fn history(&self, _: &str) -> Result<Vec<PluginEvent>, ManageError> {
        self.refused()
    }

    async fn source(&self, _: &str) -> Result<PluginSource, ManageError> {
        self.refused()
    }

    /// Nothing is offered.
    async fn offer_of(&self, _: &str) -> Result<Option<Offer>, ManageError> {
        Ok(None)
    }
}
