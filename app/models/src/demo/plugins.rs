//! Plugins: which there are, and one call of a tool that is named in full.

use super::act::{Entry, pages};
use super::intent::Intent;
use super::memo::{Halt, Memo, Wanted};
use super::phrase::{ended, strip};
use serde_json::{Value, json};

const LIST: &str = "manage_plugins";
const RUN: &str = "run_plugin_tool";

/// `run dice/throw_die`, `use weather/look {"city": "Oslo"}`, `list my plugins`.
pub(crate) fn recognise(text: &str) -> Option<Intent> {
    const LISTS: &[&str] =
        &["list my plugins", "list the plugins", "list plugins", "what plugins are there"];
    const DICE: &[&str] = &["throw the die", "throw a die", "roll the die", "roll a die"];
    let is = |wanted: &[&str]| {
        wanted.iter().any(|words| strip(text, words).is_some_and(|rest| ended(rest).is_empty()))
    };
    if is(LISTS) {
        return Some(Intent::ListPlugins);
    }
    if is(DICE) {
        return Some(call("dice", "throw_die", json!({})));
    }
    let rest = ["run", "use"].iter().find_map(|verb| strip(text, verb))?;
    let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let (plugin, tool) = ended(name).split_once('/').filter(|(_, tool)| !tool.contains('/'))?;
    let rest = ended(strip(rest, "with").unwrap_or(rest));
    let parameters = if rest.is_empty() { json!({}) } else { serde_json::from_str(rest).ok()? };
    (!plugin.is_empty() && !tool.is_empty()).then(|| call(plugin, tool, parameters))
}

fn call(plugin: &str, tool: &str, parameters: Value) -> Intent {
    Intent::RunTool { plugin: plugin.to_owned(), tool: tool.to_owned(), parameters }
}

pub(crate) fn list(memo: &Memo<'_>) -> Result<String, Halt> {
    let plugins = pages(LIST, json!({"action": "list"}), memo)?;
    if plugins.is_empty() {
        return Ok("There are no plugins.".to_owned());
    }
    let line = |plugin: &Entry| {
        let tools = plugin.whole.get("tools").and_then(Value::as_array);
        let tools: Vec<&str> = tools.into_iter().flatten().filter_map(Value::as_str).collect();
        match plugin.whole.get("not_ready").and_then(Value::as_str) {
            Some(why) => format!("- {}: not ready ({why})", plugin.title),
            None => format!("- {}: {}", plugin.title, tools.join(", ")),
        }
    };
    let lines: Vec<String> = plugins.iter().map(line).collect();
    Ok(format!("The plugins and their tools:\n{}", lines.join("\n")))
}

pub(crate) fn run(
    plugin: &str,
    tool: &str,
    parameters: &Value,
    memo: &Memo<'_>,
) -> Result<String, Halt> {
    let arguments = json!({"plugin": plugin, "tool": tool, "parameters": parameters});
    let said = memo.call(Wanted::write(RUN, arguments))?;
    let said = said.as_str().map_or_else(|| said.to_string(), ToOwned::to_owned);
    Ok(format!("{plugin}/{tool} says: {said}"))
}
