//! How a plugin becomes a revision: what the build is told, and what it reports.
//!
//! ```text
//! operator ─ BuildOrder ─► bundling container ─ Description, bundle ─► app
//!          ◄─ Bundled ──────┘        └─ bundle ─► building container ─ Built ─► operator
//! ```
//!
//! A revision is named by the digest of its bundle: `sha256:` and 64 hexadecimal digits.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::Problem;

/// Bytes of a bundle at most.
pub const BUNDLE_BYTES: u64 = 64 * 1024 * 1024;

/// Files in a bundle at most.
pub const BUNDLE_FILES: usize = 10_000;

/// The status by which the app, told what a revision is, says that it keeps its bundle already. With any
/// other success it wants to be sent it.
pub const BUNDLE_KEPT: u16 = 200;

/// Letters of a plugin's instructions that are kept.
pub const INSTRUCTION_LETTERS: usize = 5_000;

/// What a build is asked for. Mounted as a file; nothing of it stands in a Pod's spec.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildOrder {
    /// The name that the plugin's manifest must have.
    pub plugin: String,
    /// The UID of the Plugin.
    pub uid: String,
    /// The number of the bearer.
    pub rendered: i64,
    /// Where the app takes bundles, as `http://10.96.3.4:3002`.
    pub callback: String,
    pub source: BuildSource,
    /// Hosts with port that may be fetched from although their addresses are private.
    #[serde(default)]
    pub allow_hosts: Vec<String>,
}

/// Where the files come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BuildSource {
    Inline {
        files: Vec<BuildFile>,
    },
    Git {
        url: String,
        r#ref: String,
    },
    /// A bundle that the app keeps.
    Revision(String),
}

/// One file that is written into the order. It is executable if it begins with `#!`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFile {
    pub path: String,
    pub content: String,
}

/// What the bundling container reports in its termination message, which holds 4096 bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bundled {
    Done {
        revision: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        commit: Option<String>,
        /// As many as fit; the description has them all.
        tools: Vec<String>,
        /// Keys of the configuration without which no tool runs.
        required_keys: Vec<String>,
        /// All keys that the manifest declares.
        config_keys: Vec<String>,
    },
    Failed(BuildFailure),
}

/// What the building container reports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Built {
    Done {
        revision: String,
        /// The end of what the init script said.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        init_output: String,
    },
    Failed(BuildFailure),
}

/// What became of the files that a plugin keeps, which a backup has or a restore gave back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Copied {
    Done {
        /// The revision beside whose code they lie.
        revision: String,
    },
    Failed(BuildFailure),
}

/// Why there is no revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFailure {
    /// A word of the Plugin's conditions, as `RefNotFound`.
    pub reason: String,
    /// What is the case and what to do about it, for the owner.
    pub message: String,
}

/// What a revision is, told beside its bundle: the manifests as they were validated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Description {
    pub plugin: String,
    pub description: String,
    /// Cut at [`INSTRUCTION_LETTERS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    pub config: Vec<ConfigKey>,
    pub tools: Vec<ToolDescription>,
    /// Nothing in one that was told before there was this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contents: Option<Contents>,
}

/// What the files of a revision are together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contents {
    pub files: u64,
    pub bytes: u64,
    /// What its scripts and manifests say that they need of others, in their words and in order.
    pub packages: Vec<String>,
}

/// A value that the owner may or must give.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConfigKey {
    pub key: String,
    pub description: String,
    pub required: bool,
    /// Not to be shown. So it is unless the manifest says otherwise.
    pub secret: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
}

/// A tool as its manifest has it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolDescription {
    pub name: String,
    pub description: String,
    #[serde(default)]
    pub r#async: bool,
    #[serde(default)]
    pub concurrent: bool,
    /// Name to `{"type": …, "description": …}`, in the manifest's order.
    pub parameters: Map<String, Value>,
}

/// What the runner reads of a revision that was built, and of what it is to serve.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    pub plugin: String,
    /// The UID of the Plugin.
    pub uid: String,
    pub rendered: i64,
    /// Nothing before the first build.
    pub revision: Option<String>,
    /// The backup from which its files come before it serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaits: Option<String>,
}

/// What the look at the network found, as the termination message of the probing container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probed {
    pub network: Network,
    /// What was seen, for the owner.
    pub detail: String,
    /// Whether the user ids of the Pod mean nothing on the node.
    pub user_namespace: bool,
    /// The kubelet's port of its own node, where that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<SocketAddr>,
}

/// What stands around a Pod's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Network {
    /// What must not be reached was not, and what may be was.
    Closed,
    /// Something was reached that must not be.
    Open,
    /// It could not be told.
    Unknown,
}

/// Whether a text is the name of a revision.
///
/// # Errors
/// A refusal in words when it is not.
pub fn digest(text: &str) -> Result<&str, Problem> {
    let hex = text.strip_prefix("sha256:").unwrap_or_default();
    let plain =
        hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    if plain {
        return Ok(hex);
    }
    Err(Problem::new(
        crate::Kind::Invalid,
        format!("`{}` names no revision", text.escape_debug()),
        "write sha256: and 64 hexadecimal digits",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_reported_reads_as_it_is_written() {
        let failed =
            Bundled::Failed(BuildFailure { reason: "RefNotFound".into(), message: "m".into() });
        let json = r#"{"failed":{"reason":"RefNotFound","message":"m"}}"#;
        assert_eq!(serde_json::to_string(&failed).unwrap(), json);
        let order = r#"{"plugin":"p","uid":"u","rendered":1,"callback":"http://a:1",
            "source":{"git":{"url":"git://h/r","ref":"main"}}}"#;
        let order: BuildOrder = serde_json::from_str(order).unwrap();
        assert_eq!(
            order.source,
            BuildSource::Git { url: "git://h/r".into(), r#ref: "main".into() }
        );
    }

    #[test]
    fn a_revision_is_named_by_its_digest() {
        let name = format!("sha256:{}", "0a".repeat(32));
        assert_eq!(digest(&name).unwrap(), "0a".repeat(32));
        for wrong in ["", "sha256:", "0a", &name.to_uppercase(), &name[..70], "sha256:../../etc"] {
            assert!(digest(wrong).is_err(), "{wrong}");
        }
    }
}
