//! Plugins, as the demo model understands them: which there are, and a tool of one that is named
//! with what it is to be given.
//!
//! ```text
//! run TOOL of PLUGIN                          run look of weather
//! run TOOL of PLUGIN with NAME=VALUE …        run look of weather with city=Berlin days=3
//! run TOOL of PLUGIN with JSON                run look of weather with [{"city": "A"}, {"city": "B"}]
//! ```

use super::act::{Entry, entries, text_in};
use super::intent::Intent;
use super::memo::{Halt, Memo, Wanted};
use super::phrase::{ended, strip};
use serde_json::{Map, Value, json};

const MANAGE: &str = "manage_plugins";
const RUN: &str = "run_plugin_tool";

pub(crate) fn recognise(text: &str) -> Option<Intent> {
    lists(text).or_else(|| throws(text)).or_else(|| runs(text))
}

fn lists(text: &str) -> Option<Intent> {
    const OPENINGS: &[&str] = &["list", "show me", "show", "which", "what"];
    const OWNERS: &[&str] = &["all my", "all", "my", "the"];
    const REST: &[&str] = &["", "are there", "do i have", "do you have"];
    let rest = OPENINGS.iter().find_map(|opening| strip(text, opening))?;
    let rest = OWNERS.iter().find_map(|owner| strip(rest, owner)).unwrap_or(rest);
    let rest = strip(rest, "plugins")?;
    REST.contains(&ended(rest).to_lowercase().as_str()).then_some(Intent::ListPlugins)
}

/// What the sample says that one should try.
fn throws(text: &str) -> Option<Intent> {
    const OPENINGS: &[&str] = &["throw the die", "throw a die", "roll the die", "roll a die"];
    let rest = OPENINGS.iter().find_map(|opening| strip(text, opening))?;
    ended(rest).is_empty().then(|| Intent::RunPlugin {
        plugin: "dice".to_owned(),
        tool: "throw_die".to_owned(),
        parameters: json!({}),
    })
}

fn runs(text: &str) -> Option<Intent> {
    let rest = ["run", "call", "use"].iter().find_map(|verb| strip(text, verb))?;
    let rest = strip(rest, "the tool").unwrap_or(rest);
    let (tool, rest) = rest.split_once(" of ")?;
    let rest = strip(rest, "the plugin").unwrap_or(rest);
    let (plugin, given) = match rest.split_once(" with ") {
        Some((plugin, given)) => (plugin, given.trim()),
        None => (rest, ""),
    };
    let (tool, plugin) = (tool.trim(), ended(plugin).trim());
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    (is_name(tool) && is_name(plugin)).then(|| Intent::RunPlugin {
        plugin: plugin.to_owned(),
        tool: tool.to_owned(),
        parameters: parameters(given),
    })
}

/// JSON, or `NAME=VALUE` words whose values are JSON where they read as such.
fn parameters(given: &str) -> Value {
    if let Ok(parameters @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(given) {
        return parameters;
    }
    let pairs = ended(given).split_whitespace().filter_map(|word| word.split_once('='));
    let value =
        |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
    Value::Object(pairs.map(|(name, text)| (name.to_owned(), value(text))).collect::<Map<_, _>>())
}

pub(crate) fn list(memo: &Memo<'_>) -> Result<String, Halt> {
    let list = memo.call(Wanted::read(MANAGE, json!({"action": "list"})))?;
    let plugins = entries(&list);
    if plugins.is_empty() {
        return Ok("There are no plugins.".to_owned());
    }
    let line = |plugin: &Entry| {
        let tools = plugin.whole.get("tools").and_then(Value::as_array).into_iter().flatten();
        let tools: Vec<&str> = tools.filter_map(Value::as_str).collect();
        let about = text_in(&plugin.whole, &["description"]).unwrap_or_default();
        format!("- {} ({}): {about}", plugin.title, tools.join(", "))
    };
    Ok(plugins.iter().map(line).collect::<Vec<_>>().join("\n"))
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
    Ok(format!("`{tool}` of `{plugin}` gave:\n{said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_named_with_what_it_is_given() {
        let check = |text: &str, parameters: Value| {
            let (plugin, tool) = ("weather".to_owned(), "look".to_owned());
            let expected = Intent::RunPlugin { plugin, tool, parameters };
            assert_eq!(recognise(text), Some(expected), "{text}");
        };
        check("run look of weather", json!({}));
        check("Run the tool look of the plugin weather.", json!({}));
        check("use look of weather with city=Berlin days=3", json!({"city": "Berlin", "days": 3}));
        check("call look of weather with [{\"city\": \"A\"}]", json!([{"city": "A"}]));
        let (plugin, tool) = ("dice".to_owned(), "throw_die".to_owned());
        let throw = Intent::RunPlugin { plugin, tool, parameters: json!({}) };
        assert_eq!(recognise("Throw the die."), Some(throw));
        for other in [
            "throw the die away",
            "run a mile of the track",
            "run",
            "use my note of tea",
            "run away",
        ] {
            assert_eq!(recognise(other), None, "{other}");
        }
        assert_eq!(recognise("Which plugins are there?"), Some(Intent::ListPlugins));
        assert_eq!(recognise("list my plugins"), Some(Intent::ListPlugins));
    }
}
