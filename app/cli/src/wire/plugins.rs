//! Plugins: how they are, what is offered, and what became of them.

use famulus_core::plugin::{Description, Egress, ToolDescription};
use jiff::Timestamp;
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PluginList {
    pub(crate) plugins: Vec<Plugin>,
    #[serde(default)]
    pub(crate) fixed_tokens: u64,
    #[serde(default)]
    pub(crate) level: Option<SandboxLevel>,
}

/// What the sandboxes of a machine are.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct SandboxLevel {
    /// How they are held; nothing, where none can be made.
    pub(crate) held: Option<String>,
    /// What cannot be had, and what to do about it.
    pub(crate) lacks: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Plugin {
    pub(crate) name: String,
    pub(crate) ready: bool,
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) revision: Option<String>,
    #[serde(default)]
    pub(crate) commit: Option<String>,
    #[serde(default)]
    pub(crate) tools: Vec<String>,
    #[serde(default)]
    pub(crate) config_keys: Vec<String>,
    #[serde(default)]
    pub(crate) egress: String,
    #[serde(default)]
    pub(crate) runners: u32,
    #[serde(default)]
    pub(crate) isolation: Option<String>,
    #[serde(default)]
    pub(crate) description: Option<Description>,
    /// The revision that waits for a yes.
    #[serde(default)]
    pub(crate) offered: Option<String>,
}

impl Plugin {
    /// What is said of one of its tools.
    pub(crate) fn tool(&self, name: &str) -> Option<&ToolDescription> {
        self.description.as_ref()?.tools.iter().find(|tool| tool.name == name)
    }
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PluginLogs {
    pub(crate) lines: Vec<String>,
}

/// What was fetched, before anything of it runs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Offer {
    pub(crate) plugin: String,
    /// Whether it is another revision than the one that serves.
    pub(crate) changed: bool,
    pub(crate) revision: String,
    #[serde(default)]
    pub(crate) commit: Option<String>,
    #[serde(default)]
    pub(crate) source: String,
    pub(crate) description: Description,
    /// What serves until then.
    #[serde(default)]
    pub(crate) before: Option<Description>,
    /// Tools that were permitted of what serves; `*` is all of them.
    #[serde(default)]
    pub(crate) permitted: Vec<String>,
    #[serde(default)]
    pub(crate) egress: Egress,
}

/// What became of a plugin, oldest first.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PluginHistory {
    pub(crate) entries: Vec<PluginEvent>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct PluginEvent {
    pub(crate) at: Timestamp,
    pub(crate) what: String,
    #[serde(default)]
    pub(crate) who: Option<String>,
    #[serde(default)]
    pub(crate) revision: Option<String>,
    #[serde(default)]
    pub(crate) commit: Option<String>,
}
