//! The configuration as a plugin sees it: what the owner gave, and what the manifest says otherwise.

use std::io::{self, Write};

use famulus_protocol::revision::ConfigKey;
use serde_json::{Map, Value};

use crate::beneath::Beneath;

/// The file beside the plugin's manifest.
pub(crate) const CONFIG_FILE: &str = "config.json";

/// For the plugin alone.
const MODE: u32 = 0o600;

/// What a plugin is configured with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Config {
    /// The text of `config.json`.
    pub(crate) text: String,
    /// Keys without which no tool runs, and that have no value.
    pub(crate) missing: Vec<String>,
}

impl Config {
    /// `given` is the JSON of an object, or nothing. A key that the manifest does not declare is
    /// passed on: the owner knows what it is for.
    pub(crate) fn of(keys: &[ConfigKey], given: Option<&str>) -> Result<Self, serde_json::Error> {
        let given: Map<String, Value> =
            given.map_or_else(|| Ok(Map::new()), serde_json::from_str)?;
        let mut all = Map::new();
        let mut missing = Vec::new();
        for ConfigKey { key, required, default, .. } in keys {
            match given.get(key).filter(|value| !value.is_null()).or(default.as_ref()) {
                Some(value) => {
                    all.insert(key.clone(), value.clone());
                }
                None if *required => missing.push(key.clone()),
                None => {}
            }
        }
        for (key, value) in given {
            all.entry(key).or_insert(value);
        }
        let mut text = serde_json::to_string_pretty(&all)?;
        text.push('\n');
        Ok(Self { text, missing })
    }

    /// Puts it into a tree.
    pub(crate) fn write(&self, tree: &Beneath) -> io::Result<()> {
        tree.write(CONFIG_FILE, MODE, |file| file.write_all(self.text.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_owner_gave_stands_over_defaults_and_what_is_missing_is_named() {
        let key = |key: &str, required, default: Option<Value>| ConfigKey {
            key: key.to_owned(),
            description: "d".to_owned(),
            required,
            secret: true,
            default,
        };
        let keys = [
            key("url", true, Some(json!("http://x"))),
            key("count", false, Some(json!(3))),
            key("token", true, None),
            key("note", false, None),
        ];
        let check = |given: Option<&str>, text: Value, missing: &[&str]| {
            let config = Config::of(&keys, given).unwrap();
            assert_eq!(serde_json::from_str::<Value>(&config.text).unwrap(), text, "{given:?}");
            assert_eq!(config.missing, missing, "{given:?}");
        };
        check(None, json!({"url": "http://x", "count": 3}), &["token"]);
        check(
            Some(r#"{"token":"t","url":"http://y","more":[1]}"#),
            json!({"url": "http://y", "count": 3, "token": "t", "more": [1]}),
            &[],
        );
        check(
            Some(r#"{"token":null}"#),
            json!({"url": "http://x", "count": 3, "token": null}),
            &["token"],
        );
        assert!(Config::of(&keys, Some("[]")).is_err());
    }
}
