//! What the owner is asked before a plugin may do something: what is new against what serves, and what it may
//! do then against what it may do now.

use super::Arguments;
use famulus_core::plugin::{ConfigKey, Description, Egress, Offer, ToolDescription};
use famulus_core::sandbox::PluginState;

/// What is asked of a revision that is offered.
pub(super) fn of_offer(offer: &Offer, asked: &Arguments) -> String {
    let Offer { plugin, source, description: now, .. } = offer;
    let short = |commit: &str| commit.get(..12).unwrap_or(commit).to_owned();
    let new = offer.commit.as_deref().map(short);
    let Some(before) = &offer.before else {
        let tools = if asked.tools.is_empty() { names(now) } else { asked.tools.join(", ") };
        let new = new.map(|new| format!(" (commit {new})")).unwrap_or_default();
        let keys = listed("keys: ", now.config.iter().map(|key| key.key.as_str()));
        let packages = listed("packages: ", now.packages().iter());
        let size = now.contents.as_ref().map(|contents| format!("size: {contents}"));
        let mut told = String::new();
        for part in [keys, packages, size].into_iter().flatten() {
            told.push_str("; ");
            told.push_str(&part);
        }
        let network = network(asked.internet);
        return format!(
            "let the plugin {plugin} run, from {source}{new}; tools: {tools}{told}; network: {network}"
        );
    };
    let old = before.commit.as_deref().map(short).filter(|old| Some(old) != new.as_ref());
    let new = match (new, old) {
        (Some(new), Some(old)) => format!(" (commit {new}, until now {old})"),
        (Some(new), None) => format!(" (commit {new})"),
        (None, _) => String::new(),
    };
    let had = Had { tools: &offer.permitted, internet: offer.egress == Egress::Internet };
    format!(
        "let the new revision of the plugin {plugin} run, from {source}{new}; {}; {}",
        changes(before, now).join("; "),
        rights(asked, &had)
    )
}

/// What is asked of one that serves, if anything of it may run: its rights change.
pub(super) fn of_rights(name: &str, serving: Option<&PluginState>, asked: &Arguments) -> String {
    let had = serving.map_or(Had { tools: &[], internet: false }, |serving| Had {
        tools: &serving.tools,
        internet: serving.egress.eq_ignore_ascii_case(Egress::Internet.name()),
    });
    format!("let the plugin {name} run; {}", rights(asked, &had))
}

/// What is new in a description; never nothing.
pub(super) fn changes(before: &Description, now: &Description) -> Vec<String> {
    let tool = |tool: &ToolDescription| tool.name.clone();
    let key = |key: &ConfigKey| key.key.clone();
    let mut all = differences("tools", &before.tools, &now.tools, tool);
    all.extend(differences("keys", &before.config, &now.config, key));
    let contents = before.contents.as_ref().zip(now.contents.as_ref());
    if let Some((had, has)) = contents {
        all.extend(differences("packages", &had.packages, &has.packages, String::clone));
    }
    for (what, is_same) in [
        ("it describes itself in other words", before.description == now.description),
        ("its instructions are others", before.instructions == now.instructions),
    ] {
        if !is_same {
            all.push(what.to_owned());
        }
    }
    if all.is_empty() {
        all.push("its tools and keys are the same, its files are not".to_owned());
    }
    if let Some((had, has)) = contents {
        let (had, has) = (had.to_string(), has.to_string());
        all.push(format!("size: {has}{}", until_now(&has, &had)));
    }
    all
}

fn differences<T: PartialEq>(
    what: &str,
    before: &[T],
    now: &[T],
    name: impl Fn(&T) -> String,
) -> Vec<String> {
    let find = |all: &[T], one: &T| all.iter().position(|it| name(it) == name(one));
    let new = now.iter().filter(|one| find(before, one).is_none());
    let changed = now.iter().filter(|one| find(before, one).is_some_and(|at| before[at] != **one));
    let gone = before.iter().filter(|one| find(now, one).is_none());
    let told = [
        listed(&format!("new {what}: "), new.map(&name)),
        listed(&format!("changed {what}: "), changed.map(&name)),
        listed(&format!("{what} that go: "), gone.map(&name)),
    ];
    told.into_iter().flatten().collect()
}

/// What was permitted of what serves.
struct Had<'a> {
    tools: &'a [String],
    internet: bool,
}

/// What it may do with a yes, and what it may do now where that is something else.
fn rights(asked: &Arguments, had: &Had<'_>) -> String {
    let tools = |tools: &[String], none: &str| {
        if tools.is_empty() {
            return none.to_owned();
        }
        if tools.iter().any(|tool| tool == "*") { "all".to_owned() } else { tools.join(", ") }
    };
    let (may, might) = (tools(&asked.tools, "all"), tools(had.tools, "none"));
    let (reaches, reached) = (network(asked.internet), network(had.internet));
    format!(
        "tools that may run: {may}{}; network: {reaches}{}",
        until_now(&may, &might),
        until_now(reaches, reached)
    )
}

fn until_now(now: &str, before: &str) -> String {
    if now == before { String::new() } else { format!(" (until now: {before})") }
}

fn network(internet: bool) -> &'static str {
    if internet { "public addresses" } else { "none" }
}

fn names(description: &Description) -> String {
    description.tools.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// Names behind a word, if there are some.
fn listed<T: AsRef<str>>(word: &str, names: impl Iterator<Item = T>) -> Option<String> {
    let names: Vec<T> = names.collect();
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { None } else { Some(format!("{word}{}", names.join(", "))) }
}
