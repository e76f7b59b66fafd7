//! What holds of plugins in every home: their names, whence an update comes, which keys there are, and what can
//! be gone back to. Pure.

use super::editing::edited;
use super::{Change, Description, ManageError, PluginEvent, PluginSource};
use serde_json::Value;

/// Letters of a name.
const LONGEST: usize = 63;

/// The name that was given, or that of the manifest, where it is at hand, else the address's.
///
/// # Errors
/// It is no name that a plugin can have.
pub fn named(given: Option<&str>, source: &PluginSource) -> Result<String, ManageError> {
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

/// What a plugin is from after a change.
///
/// # Errors
/// The change is not one of such a source.
pub fn changed(
    name: &str,
    source: PluginSource,
    change: Change,
) -> Result<PluginSource, ManageError> {
    match (change, source) {
        (Change::Files(files), PluginSource::Inline { .. }) => Ok(PluginSource::Inline { files }),
        (Change::Edits(edits), PluginSource::Inline { files }) => {
            Ok(PluginSource::Inline { files: edited(files, edits)? })
        }
        (Change::Again, source @ PluginSource::Git { .. }) => Ok(source),
        (Change::Ref(r#ref), PluginSource::Git { url, .. }) => Ok(PluginSource::Git { url, r#ref }),
        (Change::Files(_) | Change::Edits(_), PluginSource::Git { url, .. }) => {
            Err(from_git(name, &url))
        }
        (Change::Again | Change::Ref(_), PluginSource::Inline { .. }) => Err(invalid(format!(
            "the plugin `{name}` is of files that were sent; send the new ones to update it"
        ))),
    }
}

/// Its files are not kept here.
pub(super) fn from_git(name: &str, url: &str) -> ManageError {
    invalid(format!(
        "the plugin `{name}` is from {url}, where its files are read and changed; to keep your own, remove it and \
         install the files"
    ))
}

/// # Errors
/// The plugin, of which the newest is described, has no such key.
pub fn has_key(name: &str, key: &str, described: Option<&Description>) -> Result<(), ManageError> {
    let known = described.map(|described| described.config.as_slice()).unwrap_or_default();
    if known.iter().any(|known| known.key == key) {
        return Ok(());
    }
    let known: Vec<&str> = known.iter().map(|known| known.key.as_str()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    // What was given is not repeated: somebody may have put the value in the place of the key.
    Err(invalid(format!("the plugin `{name}` has no such key; its keys are: {known}")))
}

/// The revision to go back to: the named one, else the last other one than `serving`. `what` is the
/// event of those that can be gone back to.
///
/// # Errors
/// There is none.
pub fn earlier(
    name: &str,
    history: Vec<PluginEvent>,
    what: &str,
    serving: &str,
    asked: Option<&str>,
) -> Result<String, ManageError> {
    let served = history.into_iter().rev().filter(|event| event.what == what);
    let mut earlier =
        served.filter_map(|event| event.revision).filter(|revision| revision != serving);
    let found = match asked {
        Some(asked) => earlier.find(|revision| revision == asked),
        None => earlier.next(),
    };
    found.ok_or_else(|| {
        invalid(format!(
            "no such earlier revision of `{name}` has served; `famulus plugin history {name}` names \
             those that have"
        ))
    })
}

/// What was asked for cannot be.
pub fn invalid(what: impl Into<String>) -> ManageError {
    ManageError::Invalid(what.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::{Edit, PluginFile};

    #[test]
    fn what_is_changed_stays_of_its_kind() {
        let git = |r#ref: &str| PluginSource::Git {
            url: "https://example.com/dice".to_owned(),
            r#ref: r#ref.to_owned(),
        };
        let file = |content: &str| PluginFile { path: "a".to_owned(), content: content.to_owned() };
        let inline = |content: &str| PluginSource::Inline { files: vec![file(content)] };
        let write = || {
            let (path, content) = ("a".to_owned(), "two".to_owned());
            Change::Edits(vec![Edit::Write { path, content, before: None }])
        };
        let check =
            |source: PluginSource, change: Change, expected: Result<PluginSource, &str>| match (
                changed("dice", source, change),
                expected,
            ) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?}, {expected:?}"),
            };
        check(git("v1"), Change::Again, Ok(git("v1")));
        check(git("v1"), Change::Ref("v2".to_owned()), Ok(git("v2")));
        check(inline("one"), Change::Files(vec![file("two")]), Ok(inline("two")));
        check(inline("one"), write(), Ok(inline("two")));
        let elsewhere = "is from https://example.com/dice, where its files are read and changed";
        check(git("v1"), Change::Files(Vec::new()), Err(elsewhere));
        check(git("v1"), write(), Err(elsewhere));
        check(inline("one"), Change::Again, Err("send the new ones"));
        let edits = Change::Edits(vec![Edit::Delete { path: "b".to_owned() }]);
        check(inline("one"), edits, Err("there is no file `b`"));
    }

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
