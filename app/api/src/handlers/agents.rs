//! Agents; the tools that they name are checked against those that exist.

use crate::{
    app::{App, Grantable},
    body::Json,
    handlers::{Answer, json, ok},
    object::Object,
    problem::{Kind, Problem},
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use famulus_core::{
    agent::{Agent, Budgets, Grants, HARD_STEP_CAP},
    whole::Whole,
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;

/// Characters of a name, and of a prompt.
const NAME: usize = 64;
const PROMPT: usize = 100_000;
/// What a name looks like.
pub(crate) const PLAIN: &str = "^[A-Za-z0-9_-]+$";

#[derive(Serialize, JsonSchema)]
pub(crate) struct Agents {
    agents: Vec<Agent>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewAgent {
    /// Letters, digits, `-` and `_`.
    #[schemars(length(max = NAME), regex(pattern = PLAIN))]
    name: String,
    /// Added behind the built-in prompt.
    #[serde(default)]
    #[schemars(length(max = PROMPT))]
    prompt: String,
    model: Option<String>,
    /// Model calls of one turn; 0 means text only.
    #[schemars(range(max = HARD_STEP_CAP))]
    step_cap: Option<Whole<u32>>,
    #[serde(default)]
    budgets: Object<Budgets>,
    /// `*`, `tool` or `tool.action`; none means nothing.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    tools: Grants,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(clippy::option_option, reason = "null and absent mean different things")]
pub(crate) struct AgentChange {
    #[schemars(length(max = PROMPT))]
    prompt: Option<String>,
    /// Null goes back to the provider's default.
    #[serde(default, deserialize_with = "present")]
    model: Option<Option<String>>,
    /// Null goes back to the hard cap.
    #[serde(default, deserialize_with = "present")]
    #[schemars(range(max = HARD_STEP_CAP))]
    step_cap: Option<Option<Whole<u32>>>,
    budgets: Option<Object<Budgets>>,
    #[schemars(with = "Option<Vec<String>>")]
    tools: Option<Grants>,
}

/// Tells null from absent.
fn present<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    T::deserialize(deserializer).map(Some)
}

pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer {
    ok(&Agents { agents: app.api.store.agents().await? })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Json(new, _held): Json<NewAgent>,
) -> Answer {
    let NewAgent { name, prompt, model, step_cap, budgets: Object(budgets), tools } = new;
    let step_cap = step_cap.map(|Whole(cap)| cap);
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME || !name.chars().all(plain) {
        return Err(Problem::bad(
            format!("`name` is not 1 to {NAME} letters, digits, `-` and `_`"),
            "give the agent a short plain name",
        ));
    }
    check(&app.api.catalogue, Some(&prompt), step_cap, Some(&tools))?;
    let new = famulus_store::NewAgent { name, prompt, model, step_cap, budgets, tools };
    let made = app.api.store.create_agent(new).await?.ok_or_else(|| {
        Problem::new(
            Kind::Conflict,
            "an agent of this name exists",
            "change it with PATCH /v1/agents/NAME, or use another name",
        )
    })?;
    json(StatusCode::CREATED, &made)
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Path(name): Path<String>,
    Json(change, _held): Json<AgentChange>,
) -> Answer {
    let AgentChange { prompt, model, step_cap, budgets, tools } = change;
    let step_cap = step_cap.map(|cap| cap.map(|Whole(cap)| cap));
    check(&app.api.catalogue, prompt.as_deref(), step_cap.flatten(), tools.as_ref())?;
    let budgets = budgets.map(|Object(budgets)| budgets);
    let change = famulus_store::AgentChange { prompt, model, step_cap, budgets, tools };
    let changed = app.api.store.change_agent(&name, change).await?;
    ok(&changed.ok_or_else(|| Problem::missing("this agent", "GET /v1/agents"))?)
}

fn check(
    catalogue: &[Grantable],
    prompt: Option<&str>,
    step_cap: Option<u32>,
    tools: Option<&Grants>,
) -> Result<(), Problem> {
    if prompt.is_some_and(|prompt| prompt.chars().count() > PROMPT) {
        return Err(Problem::bad(
            format!("`prompt` is longer than {PROMPT} characters"),
            "shorten `prompt`",
        ));
    }
    if step_cap.is_some_and(|cap| cap > HARD_STEP_CAP) {
        return Err(Problem::bad(
            format!("`step_cap` is larger than {HARD_STEP_CAP}"),
            "give a smaller number, or leave it out",
        ));
    }
    let Some(tools) = tools else { return Ok(()) };
    let actions: Vec<Vec<&str>> = catalogue
        .iter()
        .map(|grantable| grantable.actions.iter().map(String::as_str).collect())
        .collect();
    let known: Vec<(&str, &[&str])> = catalogue
        .iter()
        .zip(&actions)
        .map(|(grantable, actions)| (grantable.tool.as_str(), actions.as_slice()))
        .collect();
    tools.check(&known).map_err(|error| {
        let remedy = "name tools that exist, or `*` for all";
        Problem::new(Kind::NotFound, error.to_string(), remedy)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agents_tools_must_exist() {
        let catalogue = [Grantable { tool: "get_time".into(), actions: vec!["now".into()] }];
        let tools = |names: &[&str]| {
            check(&catalogue, None, None, Some(&Grants::from_names(names.iter().copied())))
        };
        assert!(tools(&["get_time.now"]).is_ok());
        assert!(tools(&["*"]).is_ok());
        assert!(tools(&[]).is_ok());
        assert!(tools(&["get_tme"]).unwrap_err().detail.contains("get_time"));
        assert!(check(&catalogue, None, Some(HARD_STEP_CAP + 1), None).is_err());
    }

    #[test]
    fn null_is_not_absent() {
        let change: AgentChange = serde_json::from_str(r#"{"model": null}"#).unwrap();
        assert_eq!((change.model, change.step_cap), (Some(None), None));
    }
}
