//! The catalogue: the tools of this installation, checked once, shown to each agent as far as its
//! grants go.

use crate::builtin::{self, Ports};
use crate::tool::{Policy, Tool};
use famulus_core::agent::{Grants, UnknownGrant};
use famulus_core::tool::ToolSpec;
use jsonschema::Validator;
use serde_json::Value;
use std::sync::Arc;

/// The tools of this installation, in the order in which models see them.
pub struct Catalogue {
    entries: Vec<Entry>,
}

/// A tool with what is worked out of it once.
pub(crate) struct Entry {
    pub(crate) tool: Arc<dyn Tool>,
    pub(crate) spec: ToolSpec,
    pub(crate) validator: Validator,
    /// The actions in the order of the schema; empty for a tool without actions.
    actions: Vec<&'static str>,
}

/// A tool cannot be taken into the catalogue.
#[derive(Debug, thiserror::Error)]
pub enum CatalogueError {
    #[error("there are two tools named `{tool}`; rename one of them")]
    Duplicate { tool: String },
    #[error("`{tool}` is not a name for a tool; use lower case letters, digits and `_`")]
    Name { tool: String },
    #[error("the schema of tool `{tool}` is not a JSON Schema; correct `schema()`")]
    Schema {
        tool: String,
        #[source]
        source: Box<jsonschema::ValidationError<'static>>,
    },
    #[error(
        "tool `{tool}` has the actions [{actions}] but policy lines for [{lines}]; give each action exactly one"
    )]
    Policy { tool: String, actions: String, lines: String },
}

impl Catalogue {
    /// The built-in tools.
    pub fn new(ports: &Ports) -> Result<Self, CatalogueError> {
        Self::with(ports, Vec::new())
    }

    /// The built-in tools, and others behind them.
    pub fn with(ports: &Ports, extra: Vec<Arc<dyn Tool>>) -> Result<Self, CatalogueError> {
        Self::of(builtin::all(ports).into_iter().chain(extra))
    }

    fn of(tools: impl IntoIterator<Item = Arc<dyn Tool>>) -> Result<Self, CatalogueError> {
        let mut entries: Vec<Entry> = Vec::new();
        for tool in tools.into_iter().filter(|tool| tool.is_of_use()) {
            let entry = Entry::new(tool)?;
            if entries.iter().any(|other| other.spec.name == entry.spec.name) {
                return Err(CatalogueError::Duplicate { tool: entry.spec.name });
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Checks an agent's grants against the tools and actions that exist.
    pub fn check(&self, grants: &Grants) -> Result<(), UnknownGrant> {
        let known: Vec<(&str, &[&str])> =
            self.entries.iter().map(|e| (e.spec.name.as_str(), &e.actions[..])).collect();
        grants.check(&known)
    }

    /// What an agent can be granted: every tool with its actions.
    pub fn grantable(&self) -> Vec<(String, Vec<String>)> {
        self.entries
            .iter()
            .map(|entry| {
                let actions = entry.actions.iter().map(|action| (*action).to_owned()).collect();
                (entry.spec.name.clone(), actions)
            })
            .collect()
    }

    pub(crate) fn visible(&self, grants: &Grants) -> Vec<ToolSpec> {
        self.entries.iter().filter_map(|entry| entry.shown(grants)).collect()
    }

    /// The tool of a name, as far as these grants show it.
    pub(crate) fn find(&self, name: &str, grants: &Grants) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.spec.name == name && entry.is_shown(grants))
    }

    pub(crate) fn names(&self, grants: &Grants) -> Vec<&str> {
        self.entries
            .iter()
            .filter(|entry| entry.is_shown(grants))
            .map(|entry| entry.spec.name.as_str())
            .collect()
    }
}

impl Entry {
    fn new(tool: Arc<dyn Tool>) -> Result<Self, CatalogueError> {
        let name = tool.name().to_owned();
        if name.is_empty()
            || !name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        {
            return Err(CatalogueError::Name { tool: name });
        }
        let schema = tool.schema();
        let validator = jsonschema::validator_for(&schema).map_err(|source| {
            CatalogueError::Schema { tool: name.clone(), source: Box::new(source) }
        })?;
        let actions = actions_with_policy(&name, &schema, tool.policy())?;
        let spec = ToolSpec { name, description: tool.description().to_owned(), schema };
        Ok(Self { tool, spec, validator, actions })
    }

    /// The actions that these grants allow.
    pub(crate) fn granted(&self, grants: &Grants) -> Vec<&'static str> {
        let allowed = |action: &&str| grants.allows(&self.spec.name, Some(action));
        self.actions.iter().copied().filter(allowed).collect()
    }

    pub(crate) fn is_shown(&self, grants: &Grants) -> bool {
        if self.actions.is_empty() {
            grants.allows(&self.spec.name, None)
        } else {
            !self.granted(grants).is_empty()
        }
    }

    /// What an agent with these grants sees: the enum of actions holds only what it may do.
    fn shown(&self, grants: &Grants) -> Option<ToolSpec> {
        if !self.is_shown(grants) {
            return None;
        }
        let mut spec = self.spec.clone();
        if let Some(action) = spec.schema.pointer_mut("/properties/action/enum") {
            *action = self.granted(grants).into();
        }
        Some(spec)
    }

    /// The policy line of a call whose arguments fit the schema.
    pub(crate) fn policy(&self, arguments: &Value) -> Option<&Policy> {
        let action = action_of(arguments);
        self.tool.policy().iter().find(|line| line.action.is_none() || line.action == action)
    }
}

/// The action that a call asks for.
pub(crate) fn action_of(arguments: &Value) -> Option<&str> {
    arguments.get("action").and_then(Value::as_str)
}

/// The schema's actions, each of which must have one policy line, and the other way round.
fn actions_with_policy(
    tool: &str,
    schema: &Value,
    policy: &[Policy],
) -> Result<Vec<&'static str>, CatalogueError> {
    let named: Vec<&str> = schema
        .pointer("/properties/action/enum")
        .and_then(Value::as_array)
        .map(|values| values.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .is_some_and(|fields| fields.iter().any(|field| field == "action"));
    let lines: Vec<Option<&'static str>> = policy.iter().map(|line| line.action).collect();
    let actions: Vec<&'static str> = named
        .iter()
        .filter_map(|action| lines.iter().flatten().find(|line| *line == action).copied())
        .collect();
    let fits = if named.is_empty() {
        lines == [None]
    } else {
        required && actions == named && lines.len() == actions.len()
    };
    if fits {
        return Ok(actions);
    }
    Err(CatalogueError::Policy {
        tool: tool.to_owned(),
        actions: named.join(", "),
        lines: lines.iter().map(|line| line.unwrap_or("-")).collect::<Vec<_>>().join(", "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Bench;
    use famulus_core::approval::Asked;
    use famulus_core::tool::{Effect, Repeat};

    /// Policy lines that must not change by accident. That every tool has one per action is held by
    /// the catalogue itself.
    const POLICY: &[(&str, &str, Effect, Repeat, Option<Asked>)] = &[
        ("get_time", "-", Effect::Read, Repeat::Safe, None),
        ("manage_knowledge", "upsert", Effect::Write, Repeat::Safe, None),
        ("manage_knowledge", "read", Effect::Read, Repeat::Safe, None),
        ("manage_knowledge", "list", Effect::Read, Repeat::Safe, None),
        ("manage_knowledge", "delete", Effect::Write, Repeat::Safe, Some(Asked::Person)),
        ("manage_schedules", "create", Effect::Write, Repeat::Safe, None),
        ("manage_schedules", "update", Effect::Write, Repeat::Safe, None),
        ("manage_schedules", "delete", Effect::Write, Repeat::Safe, None),
        ("manage_schedules", "list", Effect::Read, Repeat::Safe, None),
        ("send_message", "send", Effect::External, Repeat::Safe, None),
        ("send_message", "send_first", Effect::External, Repeat::Safe, Some(Asked::Owner)),
        ("text_to_speech", "-", Effect::External, Repeat::Safe, None),
        ("manage_plugins", "list", Effect::Read, Repeat::Safe, None),
        ("manage_plugins", "show", Effect::Read, Repeat::Safe, None),
        ("manage_plugins", "help", Effect::Read, Repeat::Safe, None),
        ("manage_plugins", "install", Effect::External, Repeat::Safe, None),
        ("manage_plugins", "install_unsaid", Effect::External, Repeat::Safe, Some(Asked::Owner)),
        ("manage_plugins", "update", Effect::External, Repeat::Safe, None),
        ("manage_plugins", "permit", Effect::Write, Repeat::Safe, Some(Asked::Owner)),
        ("manage_plugins", "configure", Effect::Write, Repeat::Safe, None),
        ("manage_plugins", "rollback", Effect::Write, Repeat::Never, Some(Asked::Owner)),
        ("manage_plugins", "remove", Effect::Write, Repeat::Safe, Some(Asked::Owner)),
        ("manage_plugins", "create", Effect::Write, Repeat::Safe, None),
        ("manage_plugins", "list_files", Effect::Read, Repeat::Safe, None),
        ("manage_plugins", "read_file", Effect::Read, Repeat::Safe, None),
        ("manage_plugins", "write_file", Effect::Write, Repeat::Safe, None),
        ("manage_plugins", "delete_file", Effect::Write, Repeat::Safe, None),
        ("manage_plugins", "move_file", Effect::Write, Repeat::Safe, None),
        ("run_plugin_tool", "-", Effect::External, Repeat::Never, None),
    ];

    #[test]
    fn every_tool_has_its_policy() {
        let bench = Bench::new();
        let lines: Vec<_> = bench
            .catalogue
            .entries
            .iter()
            .flat_map(|entry| entry.tool.policy().iter().map(move |line| (entry, line)))
            .map(|(entry, line)| {
                let action = line.action.unwrap_or("-");
                (entry.spec.name.as_str(), action, line.effect, line.repeat, line.ask)
            })
            .collect();
        for pinned in POLICY {
            assert!(lines.contains(pinned), "{pinned:?}");
        }
        for entry in &bench.catalogue.entries {
            let own = entry.tool.policy().len();
            assert_eq!(own, entry.actions.len().max(1), "{}", entry.spec.name);
        }
    }

    #[test]
    fn the_catalogue_is_cheap_and_plain() {
        let specs = Bench::new().catalogue.visible(&Grants::all());
        let mut total = 0;
        for spec in &specs {
            assert!(spec.description.len() <= 250, "{}", spec.name);
            let schema = spec.schema.to_string();
            assert!(!schema.contains("$ref") && !schema.contains("null"), "{schema}");
            assert_eq!(spec.schema["type"], "object", "{}", spec.name);
            assert_eq!(spec.schema["additionalProperties"], false, "{}", spec.name);
            total += spec.description.len() + schema.len();
        }
        // About 1,200 tokens, paid in every call of the model; without a channel for people a fifth less.
        assert!(total <= 4_700, "{total} characters");
    }

    #[test]
    fn an_agent_sees_what_it_was_granted() {
        let catalogue = Bench::new().catalogue;
        let check = |grants: &[&str], expected: &[(&str, &[&str])]| {
            let specs = catalogue.visible(&Grants::from_names(grants.iter().copied()));
            let seen: Vec<(&str, Vec<&str>)> = specs
                .iter()
                .map(|spec| {
                    let actions = spec.schema.pointer("/properties/action/enum");
                    let actions = actions.and_then(Value::as_array).into_iter().flatten();
                    (spec.name.as_str(), actions.filter_map(Value::as_str).collect())
                })
                .collect();
            let expected: Vec<(&str, Vec<&str>)> =
                expected.iter().map(|(name, actions)| (*name, actions.to_vec())).collect();
            assert_eq!(seen, expected, "{grants:?}");
        };
        check(&[], &[]);
        check(&["get_time"], &[("get_time", &[])]);
        check(&["get_time.now"], &[]);
        check(
            &["manage_knowledge.list", "manage_knowledge.read", "manage_schedules"],
            &[
                ("manage_knowledge", &["read", "list"]),
                ("manage_schedules", &["create", "update", "delete", "list"]),
            ],
        );
        check(&["manage_knowledge.burn"], &[]);
        assert_eq!(catalogue.visible(&Grants::all()).len(), catalogue.entries.len());

        assert!(catalogue.check(&Grants::from_names(["manage_knowledge.read"])).is_ok());
        let error = catalogue.check(&Grants::from_names(["manage_knowledge.burn"])).unwrap_err();
        assert_eq!(error.known, "upsert, read, list, delete");
    }
}
