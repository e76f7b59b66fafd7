//! A plugin as it is to be on this machine.

use std::time::Duration;

use famulus_core::plugin::Egress;
use famulus_sandbox::NotReady;

/// What is wanted of a plugin, and what is known of the revision that serves.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginRecord {
    /// One made anew has another: a UUID.
    pub uid: String,
    pub name: String,
    /// The number of what its runners are given. It grows whenever that changes.
    pub rendered: i64,
    /// The revision that serves: `sha256:` and 64 hexadecimal digits. Nothing before the first was built.
    pub revision: Option<String>,
    pub commit: Option<String>,
    /// The tools of that revision.
    pub tools: Vec<String>,
    /// Those that the owner permits; `*` is all of them.
    pub permitted: Vec<String>,
    /// Keys of its configuration that have a value; never a value.
    pub config_keys: Vec<String>,
    /// What its tools reach.
    pub egress: Egress,
    /// What its init script reaches, and packages are fetched from.
    pub init_egress: Egress,
    /// The owner holds it.
    pub suspended: bool,
    /// Unused for so long, its runner ends.
    pub idle: Duration,
    /// What keeps it from taking calls, in words for the owner.
    pub trouble: Option<NotReady>,
}

impl PluginRecord {
    /// Whether a tool may be called.
    pub fn permits(&self, tool: &str) -> bool {
        self.permitted.iter().any(|name| name == "*" || name == tool)
    }
}
