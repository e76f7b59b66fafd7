//! What the owner alone grants to a plugin.

use kube::KubeSchema;
use kube::core::Rule;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which tools may run.
#[derive(KubeSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Permissions {
    /// Names of tools, or `*` for all of them. Empty, nothing may run.
    #[serde(default)]
    #[schemars(length(max = 256), inner(length(min = 1, max = 128)))]
    #[x_kube(merge_strategy = ListMerge::Set, validation = plain_tools())]
    pub tools: Vec<String>,
}

impl Permissions {
    /// Whether the tool of this name may run.
    pub fn allow(&self, tool: &str) -> bool {
        Self::lets(&self.tools, tool)
    }

    /// Whether a list of tools has this one.
    pub(super) fn lets(tools: &[String], tool: &str) -> bool {
        tools.iter().any(|allowed| allowed == "*" || allowed == tool)
    }

    /// Whether nothing may run.
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

/// What a plugin reaches over the network.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    /// `None` is nothing at all. `Internet` is public addresses only: no private, link-local or
    /// metadata address, and nothing of the cluster.
    #[serde(default)]
    pub mode: EgressMode,
    /// What the init script reaches: public addresses, as the fetching of the source does, or what the
    /// tools reach. With `AsTools` and the mode `None` packages come with the source.
    #[serde(default)]
    pub init: InitEgress,
}

/// What init scripts reach.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitEgress {
    #[default]
    Internet,
    AsTools,
}

/// The classes of egress that exist.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EgressMode {
    #[default]
    None,
    Internet,
}

impl EgressMode {
    /// What both of them reach.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Internet, Self::Internet) => Self::Internet,
            (Self::None, _) | (_, Self::None) => Self::None,
        }
    }
}

/// A tool's name is that of its folder.
fn plain_tools() -> Rule {
    Rule::new(r"self.all(tool, tool.matches(r'^[^/\x00-\x1f\x7f]+$'))").message(
        "spec.permissions.tools has an entry that is no tool's name; write the name of the tool's \
         folder, or * for all tools",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_may_not_run() {
        let table: [(&[&str], &str, bool); 6] = [
            (&[], "look", false),
            (&["look"], "look", true),
            (&["look"], "look2", false),
            (&["lo*"], "look", false),
            (&["*"], "look", true),
            (&["other", "*"], "look", true),
        ];
        for (tools, tool, allowed) in table {
            let permissions =
                Permissions { tools: tools.iter().map(ToString::to_string).collect() };
            assert_eq!(permissions.allow(tool), allowed, "{tools:?} {tool}");
        }
    }
}
