//! Agents: a prompt, a model, limits, and the tools that they may use.

use crate::ids::AgentId;
use crate::tool::Effect;
use crate::whole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most steps that any turn may take, whatever its agent says.
pub const HARD_STEP_CAP: u32 = 200;
/// The most generations of turns that may hang below one another.
pub const MAX_TURN_DEPTH: u32 = 4;
/// The name of the agent that every owner message goes to unless another is named.
pub const MAIN: &str = "main";

/// A configured agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    pub id: AgentId,
    pub name: String,
    /// Added after the built-in prompt.
    pub prompt: String,
    /// Model name within the configured provider; `None` takes the provider's default.
    pub model: Option<String>,
    /// Steps (model calls) per turn; `None` means [`HARD_STEP_CAP`], 0 means text only, no tools.
    pub step_cap: Option<u32>,
    pub budgets: Budgets,
    pub tools: Grants,
}

impl Agent {
    /// Steps that a turn of this agent may take.
    pub fn steps(&self) -> u32 {
        self.step_cap.map_or(HARD_STEP_CAP, |cap| cap.min(HARD_STEP_CAP))
    }

    /// Whether the agent answers in text only.
    pub fn is_text_only(&self) -> bool {
        self.step_cap == Some(0)
    }
}

/// Tool calls that one turn may make, by class of effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Budgets {
    /// Calls that only read.
    #[serde(deserialize_with = "whole::read")]
    #[schemars(range(max = u32::MAX))]
    pub read: u32,
    /// Calls that change something of ours, and can be undone.
    #[serde(deserialize_with = "whole::read")]
    #[schemars(range(max = u32::MAX))]
    pub write: u32,
    /// Calls whose effect leaves the installation.
    #[serde(deserialize_with = "whole::read")]
    #[schemars(range(max = u32::MAX))]
    pub external: u32,
}

impl Default for Budgets {
    fn default() -> Self {
        Self { read: 30, write: 10, external: 10 }
    }
}

impl Budgets {
    pub fn of(&self, effect: Effect) -> u32 {
        match effect {
            Effect::Read => self.read,
            Effect::Write => self.write,
            Effect::External => self.external,
        }
    }
}

/// The tools that an agent may use: `*`, `tool`, or `tool.action`. Empty means none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Grants(pub BTreeSet<String>);

impl Grants {
    /// Everything.
    pub fn all() -> Self {
        Self(BTreeSet::from(["*".to_owned()]))
    }

    pub fn from_names<I: IntoIterator<Item = S>, S: Into<String>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }

    pub fn is_all(&self) -> bool {
        self.0.contains("*")
    }

    /// Whether any part of the tool may be used, so that the model sees it at all.
    pub fn shows(&self, tool: &str) -> bool {
        self.is_all()
            || self.0.iter().any(|g| g.split_once('.').map_or(g.as_str(), |(t, _)| t) == tool)
    }

    /// Whether this very call is allowed. `action` is the value of the tool's `action` argument.
    pub fn allows(&self, tool: &str, action: Option<&str>) -> bool {
        self.is_all()
            || self.0.contains(tool)
            || action.is_some_and(|a| self.0.contains(&format!("{tool}.{a}")))
    }

    /// The actions of a tool that are allowed, or `None` when all of them are.
    pub fn actions(&self, tool: &str) -> Option<BTreeSet<String>> {
        if self.is_all() || self.0.contains(tool) {
            return None;
        }
        Some(
            self.0
                .iter()
                .filter_map(|g| g.split_once('.'))
                .filter(|(t, _)| *t == tool)
                .map(|(_, a)| a.to_owned())
                .collect(),
        )
    }

    /// Checks every name against the tools that exist.
    pub fn check(&self, known: &[(&str, &[&str])]) -> Result<(), UnknownGrant> {
        for grant in &self.0 {
            if grant == "*" {
                continue;
            }
            let (tool, action) =
                grant.split_once('.').map_or((grant.as_str(), None), |(t, a)| (t, Some(a)));
            let Some((_, actions)) = known.iter().find(|(name, _)| *name == tool) else {
                return Err(UnknownGrant {
                    grant: grant.clone(),
                    known: known.iter().map(|(n, _)| *n).collect::<Vec<_>>().join(", "),
                });
            };
            if let Some(action) = action
                && !actions.contains(&action)
            {
                return Err(UnknownGrant { grant: grant.clone(), known: actions.join(", ") });
            }
        }
        Ok(())
    }
}

/// A grant names a tool or an action that does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("allowed tool `{grant}` does not exist; known here: {known}")]
pub struct UnknownGrant {
    pub grant: String,
    pub known: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grants_decide_by_tool_and_action() {
        let check = |grants: &[&str], tool, action, expected| {
            assert_eq!(
                Grants::from_names(grants.iter().copied()).allows(tool, action),
                expected,
                "{grants:?} {tool} {action:?}"
            );
        };
        check(&["*"], "get_time", None, true);
        check(&[], "get_time", None, false);
        check(&["get_time"], "get_time", None, true);
        check(&["manage_knowledge"], "manage_knowledge", Some("delete"), true);
        check(&["manage_knowledge.read"], "manage_knowledge", Some("read"), true);
        check(&["manage_knowledge.read"], "manage_knowledge", Some("delete"), false);
        check(&["manage_knowledge.read"], "manage_knowledge", None, false);
        check(&["manage_knowledge_x"], "manage_knowledge", None, false);
    }

    #[test]
    fn an_unknown_grant_is_named_with_what_exists() {
        let known: &[(&str, &[&str])] = &[("get_time", &[]), ("manage_knowledge", &["read"])];
        assert!(Grants::all().check(known).is_ok());
        let error = Grants::from_names(["get_tme"]).check(known).unwrap_err();
        assert_eq!(
            error.to_string(),
            "allowed tool `get_tme` does not exist; known here: get_time, manage_knowledge"
        );
        assert!(Grants::from_names(["manage_knowledge.write"]).check(known).is_err());
    }

    #[test]
    fn a_partial_grant_names_its_actions() {
        let grants = Grants::from_names(["a.x", "a.y", "b"]);
        assert_eq!(grants.actions("a"), Some(BTreeSet::from(["x".into(), "y".into()])));
        assert_eq!(grants.actions("b"), None);
        assert!(grants.shows("a") && grants.shows("b") && !grants.shows("c"));
    }
}
