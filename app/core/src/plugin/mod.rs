//! Plugins above the sandbox: what a revision says of itself, and the calls whose results come
//! later.
//!
//! ```text
//! tools ── Revisions ─► store   what a tool takes, and whether it ends later
//!       ── LateCalls ─► store   a token is expected, before it is given away
//! ```

pub mod editing;
mod managed;
mod model_output;
pub mod news;
pub mod rules;
mod template;
mod value;

pub use editing::{Edit, EditError};
pub use managed::{
    Change, Egress, Granted, ManageError, ManagedPlugins, Offer, PluginEvent, PluginFile,
    PluginRow, PluginRows, PluginSource, SandboxLevel, Trouble, Unmanaged,
};
pub use model_output::{
    ModelOutput, Outcome, file, for_model, instructions, not_ready, not_run, running, written,
};
pub use template::Template;
pub use value::value_of;

use crate::StoreError;
use crate::amount;
use crate::ids::{AgentId, ConversationId, PersonId};
use crate::inbound::Address;
use crate::sandbox::SandboxError;
use async_trait::async_trait;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// Bytes of a bundle at most.
pub const BUNDLE_BYTES: u64 = 64 * 1024 * 1024;

/// What a revision is: its manifests as they were validated when it was built. It is the protocol's
/// description, read by those who do not speak the protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    pub plugin: String,
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    #[serde(default)]
    pub config: Vec<ConfigKey>,
    pub tools: Vec<ToolDescription>,
    /// Nothing in one that was described before there was this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
}

impl Description {
    /// What it needs of others, as far as it is known.
    pub fn packages(&self) -> &[String] {
        self.contents.as_ref().map_or(&[], |contents| contents.packages.as_slice())
    }
}

/// What the files of a revision are together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Contents {
    pub files: u64,
    pub bytes: u64,
    /// What its scripts and manifests say that they need of others, in their words and in order.
    pub packages: Vec<String>,
}

/// How large it is, in words.
impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = if self.files == 1 { "file" } else { "files" };
        write!(f, "{} in {} {files}", amount::bytes(self.bytes), self.files)
    }
}

/// A value that the owner may or must give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigKey {
    pub key: String,
    pub description: String,
    pub required: bool,
    /// Not to be shown.
    pub secret: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// A tool as its manifest has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolDescription {
    pub name: String,
    pub description: String,
    /// Whether it ends later, and its result comes as a message.
    #[serde(default)]
    pub r#async: bool,
    /// Whether several calls may run at once.
    #[serde(default)]
    pub concurrent: bool,
    /// Name to `{"type": …, "description": …}`.
    #[serde(default)]
    pub parameters: Map<String, Value>,
}

impl ToolDescription {
    /// Parameters that are files.
    pub fn file_parameters(&self) -> impl Iterator<Item = &str> {
        self.parameters
            .iter()
            .filter(|(_, is)| is.get("type").and_then(Value::as_str) == Some("file"))
            .map(|(name, _)| name.as_str())
    }

    /// `look(city: string, map: file)`: what a call takes, in one line.
    pub fn signature(&self) -> String {
        let parameters: Vec<String> = self
            .parameters
            .iter()
            .map(|(name, is)| {
                let kind = is.get("type").and_then(Value::as_str).unwrap_or("any");
                format!("{name}: {kind}")
            })
            .collect();
        format!("{}({})", self.name, parameters.join(", "))
    }
}

/// What is kept of revisions, for those who only read it.
/// A plugin that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledPlugin {
    pub name: String,
    /// The revision that serves, and the one that is pinned.
    pub in_use: Vec<String>,
}

/// Which plugins there are.
#[async_trait]
pub trait InstalledPlugins: Send + Sync + 'static {
    /// All of them, asked for now. An error, if one could be missing.
    async fn installed(&self) -> Result<Vec<InstalledPlugin>, SandboxError>;
}

#[async_trait]
pub trait Revisions: Send + Sync + 'static {
    /// What the revision of this digest is; nothing when it was never told.
    async fn described(&self, digest: &str) -> Result<Option<Description>, StoreError>;
}

/// A call whose result comes by itself, to the conversation that began it.
#[derive(Clone, Debug, PartialEq)]
pub struct LateCall {
    pub id: String,
    pub plugin: String,
    pub tool: String,
    /// In whose name the result is taken in, and to whom its files belong.
    pub person: PersonId,
    pub agent: AgentId,
    pub conversation: ConversationId,
    /// Where the reply to the result goes.
    pub origin: Option<Address>,
    /// SHA-256 of the token with which the result comes; the token itself is kept nowhere.
    pub token_hash: [u8; 32],
    pub expires_at: Timestamp,
}

/// The record of calls whose results come later.
#[async_trait]
pub trait LateCalls: Send + Sync + 'static {
    /// Expects the result of a call. Done again before it came, the new token counts.
    async fn expect(&self, call: &LateCall) -> Result<(), StoreError>;

    /// Whether the result of this call comes, or has come, by itself.
    async fn is_late(&self, person: PersonId, id: &str) -> Result<bool, StoreError>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_of_the_protocol_is_read() {
        let text = r#"{"plugin":"weather","description":"d","config":[
            {"key":"k","description":"d","required":true,"secret":true}],
            "tools":[{"name":"look","description":"d","async":true,"concurrent":false,
            "parameters":{"city":{"type":"string","description":"c"},
                          "map":{"type":"file","description":"m"}}}]}"#;
        let description: Description = serde_json::from_str(text).unwrap();
        let tool = &description.tools[0];
        assert!(tool.r#async);
        assert_eq!(tool.file_parameters().collect::<Vec<_>>(), ["map"]);
        assert_eq!(tool.signature(), "look(city: string, map: file)");
    }
}
