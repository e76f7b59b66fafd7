//! The name of a plugin that nobody named: its manifest's, where that is at hand, else its address's.

use famulus_core::plugin::{ManageError, PluginSource};
use serde_json::Value;

/// Letters of a name.
const LONGEST: usize = 63;

/// The name that was given, or the one that the source has.
pub(crate) fn named(given: Option<&str>, source: &PluginSource) -> Result<String, ManageError> {
    let name = match (given, source) {
        (Some(given), _) => given.to_owned(),
        (None, PluginSource::Inline { files }) => {
            let manifest = files.iter().find(|file| file.path == "manifest.json");
            let manifest = manifest.ok_or_else(|| {
                invalid("the files have no manifest.json, which every plugin has at its top")
            })?;
            let read = serde_json::from_str::<Value>(&manifest.content).map_err(|error| {
                invalid(format!("manifest.json cannot be read as JSON: {error}; correct it"))
            })?;
            let name = read.get("name").and_then(Value::as_str).map(str::to_owned);
            name.ok_or_else(|| {
                invalid("manifest.json has no key `name`; give it the plugin's name")
            })?
        }
        (None, PluginSource::Git { url, .. }) => {
            let last = url.trim_end_matches('/').rsplit(['/', ':']).next().unwrap_or_default();
            last.trim_end_matches(".git").to_ascii_lowercase()
        }
    };
    let is_plain =
        |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    if name.is_empty() || name.len() > LONGEST || !name.bytes().all(is_plain) {
        return Err(invalid(format!(
            "`{}` is no name of a plugin; a name has lowercase letters, digits and hyphens, {LONGEST} at \
             most: give the one that is in its manifest.json",
            name.chars().take(LONGEST).collect::<String>().escape_debug()
        )));
    }
    Ok(name)
}

pub(crate) fn invalid(what: impl Into<String>) -> ManageError {
    ManageError::Invalid(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::plugin::PluginFile;

    #[test]
    fn a_plugin_is_called_as_it_is_at_home() {
        let git = |url: &str| PluginSource::Git { url: url.to_owned(), r#ref: "HEAD".to_owned() };
        let files = |content: &str| PluginSource::Inline {
            files: vec![PluginFile {
                path: "manifest.json".to_owned(),
                content: content.to_owned(),
            }],
        };
        let check =
            |given: Option<&str>, source: &PluginSource, expected: Result<&str, &str>| match (
                named(given, source),
                expected,
            ) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{source}: {found:?}, {expected:?}"),
            };
        check(Some("weather"), &git("https://example.com/x/y"), Ok("weather"));
        check(None, &git("https://example.com/x/Weather.git"), Ok("weather"));
        check(None, &git("https://example.com/x/weather/"), Ok("weather"));
        check(None, &git("git@example.com:weather.git"), Ok("weather"));
        check(None, &git("https://example.com/x/my_plugin"), Err("`my_plugin` is no name"));
        check(Some("../x"), &git("https://example.com/x"), Err("is no name"));
        check(Some(&"x".repeat(64)), &git("https://example.com/x"), Err("is no name"));
        check(None, &files(r#"{"name": "dice"}"#), Ok("dice"));
        check(None, &files("{}"), Err("no key `name`"));
        check(None, &files("{"), Err("cannot be read as JSON"));
        let none = PluginSource::Inline { files: Vec::new() };
        check(None, &none, Err("no manifest.json"));
    }
}
