//! A tool of a plugin that is named with what it is to be given.
//!
//! ```text
//! run TOOL of PLUGIN                          run look of weather
//! run TOOL of PLUGIN with NAME=VALUE …        run look of weather with city=Berlin days=3
//! run TOOL of PLUGIN with JSON                run look of weather with [{"city": "A"}, {"city": "B"}]
//! ```

use super::memo::{Halt, Memo};
use super::wish::Wish;
use serde_json::{Map, Value, json};

/// What stands behind *run*.
pub(crate) fn read(text: &str) -> Option<Wish> {
    let (tool, rest) = text.split_once(" of ")?;
    let (plugin, given) = rest.split_once(" with ").unwrap_or((rest, ""));
    let (tool, plugin) = (tool.trim().to_owned(), plugin.trim().to_owned());
    let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
    let are_names = is_name(&tool) && is_name(&plugin);
    are_names.then(|| Wish::RunTool { plugin, tool, parameters: parameters(given.trim()) })
}

/// JSON, or `NAME=VALUE` words whose values are JSON where they read as such.
fn parameters(given: &str) -> Value {
    if let Ok(parameters @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(given) {
        return parameters;
    }
    let pairs = given.split_whitespace().filter_map(|word| word.split_once('='));
    let value = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| text.into());
    Value::Object(pairs.map(|(name, text)| (name.to_owned(), value(text))).collect::<Map<_, _>>())
}

pub(crate) fn run(
    plugin: &str,
    tool: &str,
    parameters: &Value,
    memo: &Memo<'_>,
) -> Result<String, Halt> {
    let arguments = json!({"plugin": plugin, "tool": tool, "parameters": parameters});
    let said = memo.call("run_plugin_tool", arguments)?;
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
            let expected = Wish::RunTool { plugin, tool, parameters };
            assert_eq!(read(text), Some(expected), "{text}");
        };
        check("look of weather", json!({}));
        check("look of weather with city=Berlin days=3", json!({"city": "Berlin", "days": 3}));
        check("look of weather with {\"city\": 1}", json!({"city": 1}));
        check("look of weather with [{\"city\": \"A\"}]", json!([{"city": "A"}]));
        for other in ["a mile of the track", "look", "my look of tea"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
