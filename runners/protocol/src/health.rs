//! How a runner is.

use serde::{Deserialize, Serialize};

use crate::revision::Network;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The versions of the protocol that the runner speaks.
    pub versions: Vec<u32>,
    /// The name in the plugin's manifest; absent when the manifest cannot be read.
    pub plugin: Option<String>,
    pub tools: Vec<ToolHealth>,
    /// What is wrong with the manifests, each with file, key and remedy.
    pub complaints: Vec<String>,
    pub running: u32,
    pub queued: u32,
    /// Results that wait to be acknowledged.
    pub kept: u32,
    /// The runner takes no new calls, because it is about to end.
    pub draining: bool,
    /// What held the last call; absent before the first one and before a self-test.
    pub isolation: Option<Isolation>,
    /// What stands around its network; absent where nobody looks.
    #[serde(default)]
    pub network: Option<Network>,
    /// The revision that serves; absent before the first, and where there are none.
    #[serde(default)]
    pub revision: Option<String>,
    /// The number of the configuration that calls see; absent where there is none.
    #[serde(default)]
    pub rendered: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolHealth {
    pub name: String,
    /// Its result comes by callback.
    pub r#async: bool,
    /// Its calls run beside each other.
    pub concurrent: bool,
}

/// What stands around a tool's process, as really achieved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Isolation {
    pub landlock: Landlock,
    /// Set-user-ID programs give the tool nothing.
    pub no_new_privileges: bool,
    /// System calls that reach into the runner are refused.
    #[serde(default)]
    pub filtered: bool,
}

/// How much of the file rules the kernel enforces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Landlock {
    Full,
    /// An older kernel: files are confined, newer rules (truncation, devices, signals) are not.
    Partial,
    /// The kernel has no Landlock. A root of its own shows the tool the same files, and no others;
    /// signals are not confined.
    Replaced,
    /// The kernel has no Landlock, or it is switched off, and nothing stands for it.
    None,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTest {
    /// Whether every check passed.
    pub passed: bool,
    pub checks: Vec<Check>,
    pub isolation: Option<Isolation>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub passed: bool,
    /// What was seen, and what to do when it is wrong.
    pub detail: String,
}
