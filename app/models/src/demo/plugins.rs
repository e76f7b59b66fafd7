//! A tool of a plugin that is named with what it is to be given, and what becomes of a plugin.
//!
//! ```text
//! run TOOL of PLUGIN                          run look of weather
//! run TOOL of PLUGIN with NAME=VALUE …        run look of weather with city=Berlin days=3
//! run TOOL of PLUGIN with JSON                run look of weather with [{"city": "A"}, {"city": "B"}]
//! install ADDRESS [with the internet]         update PLUGIN [with the internet]
//! set KEY of PLUGIN to VALUE                  roll back PLUGIN       remove the plugin PLUGIN
//! ```

use super::memo::{Halt, Memo};
use super::wish::Wish;
use serde_json::{Map, Value, json};
use std::fmt::Write as _;

/// What is done with a plugin itself.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Life {
    Install { url: String, internet: bool },
    Update { name: String, internet: bool },
    RollBack(String),
    Remove(String),
    Set { key: String, plugin: String, value: String },
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(char::is_whitespace)
}

/// What is named, and whether it may reach the internet.
fn with_internet(text: &str) -> (String, bool) {
    let without = text.strip_suffix(" with the internet");
    (without.unwrap_or(text).trim().to_owned(), without.is_some())
}

/// What stands behind *update*.
pub(crate) fn update(text: &str) -> Option<Wish> {
    let (name, internet) = with_internet(text);
    is_name(&name).then_some(Wish::Plugin(Life::Update { name, internet }))
}

/// What stands behind *install*.
pub(crate) fn install(text: &str) -> Option<Wish> {
    let (url, internet) = with_internet(text);
    let is_address = is_name(&url) && (url.contains("://") || url.starts_with("git@"));
    is_address.then_some(Wish::Plugin(Life::Install { url, internet }))
}

pub(crate) fn named(name: &str, life: fn(String) -> Life) -> Option<Wish> {
    is_name(name).then(|| Wish::Plugin(life(name.to_owned())))
}

/// What stands behind *set*.
pub(crate) fn set(text: &str) -> Option<Wish> {
    let (key, rest) = text.split_once(" of ")?;
    let (plugin, value) = rest.split_once(" to ")?;
    let [key, plugin, value] = [key, plugin, value].map(|word| word.trim().to_owned());
    let is_told = is_name(&key) && is_name(&plugin) && !value.is_empty();
    is_told.then_some(Wish::Plugin(Life::Set { key, plugin, value }))
}

/// What stands behind *run*.
pub(crate) fn read(text: &str) -> Option<Wish> {
    let (tool, rest) = text.split_once(" of ")?;
    let (plugin, given) = rest.split_once(" with ").unwrap_or((rest, ""));
    let (tool, plugin) = (tool.trim().to_owned(), plugin.trim().to_owned());
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

/// Does it, and says what came of it.
pub(crate) fn manage(life: &Life, memo: &Memo<'_>) -> Result<String, Halt> {
    let manage = |arguments| memo.call("manage_plugins", arguments);
    match life {
        Life::Install { url, internet } => {
            let offer = manage(json!({"action": "install", "url": url}))?;
            permit(&offer, *internet, memo)
        }
        Life::Update { name, internet } => {
            let offer = manage(json!({"action": "update", "name": name}))?;
            if offer["nothing_new"] == json!(true) {
                return Ok(format!("`{name}` is the newest already."));
            }
            permit(&offer, *internet, memo)
        }
        Life::RollBack(name) => {
            let ended = manage(json!({"action": "rollback", "name": name}))?;
            Ok(end_of(name, &ended, "has gone back to what it was before"))
        }
        Life::Remove(name) => {
            manage(json!({"action": "remove", "name": name}))?;
            Ok(format!("`{name}` is gone, with its files and its keys."))
        }
        Life::Set { key, plugin, value } => {
            let arguments =
                json!({"action": "configure", "name": plugin, "key": key, "value": value});
            manage(arguments)?;
            Ok(format!("`{plugin}` has its `{key}` now."))
        }
    }
}

/// Has the owner asked about what was fetched.
fn permit(offer: &Value, internet: bool, memo: &Memo<'_>) -> Result<String, Halt> {
    let name = offer["plugin"].as_str().unwrap_or_default();
    let mut arguments = json!({"action": "permit", "name": name, "revision": offer["revision"]});
    // An update may do what the owner said yes to.
    let until_now = &offer["until_now"];
    if internet || until_now["network"] == "internet" {
        arguments["internet"] = true.into();
    }
    if until_now["tools"].is_array() {
        arguments["tools"] = until_now["tools"].clone();
    }
    let mut said = end_of(name, &memo.call("manage_plugins", arguments)?, "serves");
    for tool in offer["tools"].as_array().into_iter().flatten() {
        let (tool, what) = (tool["name"].as_str(), tool["description"].as_str());
        let (tool, what) = (tool.unwrap_or_default(), what.unwrap_or_default());
        let _infallible = write!(said, "\n- `run {tool} of {name}`: {what}");
    }
    for key in offer["keys"].as_array().into_iter().flatten() {
        let (key, what) = (key["key"].as_str(), key["description"].as_str());
        let (key, what) = (key.unwrap_or_default(), what.unwrap_or_default());
        let _infallible = write!(said, "\n- key `{key}`: {what}");
    }
    if let Some(instructions) = offer["instructions"].as_str() {
        let _infallible = write!(said, "\n{instructions}");
    }
    Ok(said)
}

/// What came of a revision that was to serve.
fn end_of(name: &str, ended: &Value, serves: &str) -> String {
    let other = ended["not_ready"].as_str().or_else(|| ended["building"].as_str());
    other.map_or_else(|| format!("`{name}` {serves}."), |why| format!("`{name}`: {why}"))
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

    #[test]
    fn only_an_address_is_installed_and_only_a_key_is_set() {
        let installs = |url: &str, internet| {
            let url = url.to_owned();
            Some(Wish::Plugin(Life::Install { url, internet }))
        };
        let url = "https://git.home/weather.git";
        assert_eq!(install(url), installs(url, false));
        assert_eq!(install(&format!("{url} with the internet")), installs(url, true));
        assert_eq!(install("git@git.home:weather"), installs("git@git.home:weather", false));
        for other in ["the new kitchen", "weather", "a plugin from https://git.home/weather.git"] {
            assert_eq!(install(other), None, "{other}");
        }
        let [key, plugin, value] = ["city", "weather", "New York"].map(ToOwned::to_owned);
        let expected = Wish::Plugin(Life::Set { key, plugin, value });
        assert_eq!(set("city of weather to New York"), Some(expected));
        for other in ["the table", "sail to Spain", "the city of weather to New York"] {
            assert_eq!(set(other), None, "{other}");
        }
        let updates =
            |internet| Some(Wish::Plugin(Life::Update { name: "weather".to_owned(), internet }));
        assert_eq!(update("weather"), updates(false));
        assert_eq!(update("weather with the internet"), updates(true));
        assert_eq!(update("the roof"), None);
        assert_eq!(named("the roof", Life::RollBack), None);
    }
}
