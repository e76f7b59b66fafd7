//! `famulus plugin rollback`, `remove` and `history`: an earlier revision, none, and what became of them all.

use jiff::tz::TimeZone;
use reqwest::Method;
use serde_json::json;

use super::described::short;
use super::permit::{Consent, Yes};
use super::wait::{Awaited, Patience, history, until_ready};
use crate::clean::one_line;
use crate::client::Client;
use crate::error::Error;
use crate::output::Output;
use crate::schedules::{moment, zone};
use crate::table::table;
use crate::wire::{Me, Plugin, PluginHistory};

/// Begins a digest in full, and hexadecimal digits behind it.
const SHA256: &str = "sha256:";
const DIGITS: usize = 64;
/// What the history says of an earlier revision that is to serve again.
const ROLLED_BACK: &str = "rolled back";

pub(crate) async fn roll_back(
    name: &str,
    to: Option<&str>,
    client: &Client,
    output: &mut Output,
) -> Result<bool, Error> {
    let to = match to {
        Some(given) if is_whole(given) => Some(given.to_owned()),
        Some(given) => Some(begun_by(&history(name, client).await?, given, name)?),
        None => None,
    };
    let path = ["v1", "plugins", name, "rollback"];
    let _begun: Plugin =
        client.send(Method::POST, &path, &json!({ "revision": to }), "a plugin").await?;
    let to = match to {
        Some(to) => Some(to),
        // The server has chosen.
        None => chosen(&history(name, client).await?),
    };
    let awaited = Awaited { plugin: name, revision: to.as_deref() };
    until_ready(awaited, Patience::default(), client, output).await
}

pub(crate) async fn remove(
    name: &str,
    yes: Yes,
    client: &Client,
    output: &mut Output,
) -> Result<(), Error> {
    let question =
        one_line(&format!("Remove {name} with its files and its configuration? [y/N]")) + " ";
    match yes.consent(&question, output).await? {
        Consent::Given => {
            client.delete(&["v1", "plugins", name], "a plugin that was removed").await?;
            output.print(&format!("{name} is removed"))
        }
        Consent::Refused => output.print("nothing was removed"),
        Consent::NotAsked => output.print(&format!(
            "nothing was removed, for nobody could be asked; `famulus plugin remove {name} --yes` does not ask"
        )),
    }
}

pub(crate) async fn show(name: &str, client: &Client, output: &mut Output) -> Result<(), Error> {
    let history = history(name, client).await?;
    if history.entries.is_empty() {
        return output.print("nothing is known of what became of it");
    }
    let me: Me = client.get(&["v1", "me"], &[], "who the token belongs to").await?;
    output.print(&render(&history, &zone(&me.person.time_zone)))
}

fn render(history: &PluginHistory, zone: &TimeZone) -> String {
    let short = |digest: &Option<String>| digest.as_deref().map_or_else(String::new, short);
    let rows: Vec<Vec<String>> = history
        .entries
        .iter()
        .map(|entry| {
            vec![
                moment(entry.at, zone),
                entry.what.clone(),
                entry.who.clone().unwrap_or_default(),
                short(&entry.revision),
                short(&entry.commit),
            ]
        })
        .collect();
    table(&["when", "what", "who", "revision", "commit"], &rows)
}

fn is_whole(given: &str) -> bool {
    given.strip_prefix(SHA256).is_some_and(|digits| digits.len() == DIGITS)
}

/// The revision that begins so: the history shows no more of it.
fn begun_by(history: &PluginHistory, given: &str, plugin: &str) -> Result<String, Error> {
    let start = given.strip_prefix(SHA256).unwrap_or(given);
    let begins =
        |revision: &&String| revision.strip_prefix(SHA256).unwrap_or(revision).starts_with(start);
    let mut found =
        history.entries.iter().filter_map(|entry| entry.revision.as_ref()).filter(begins);
    let first = found.next().filter(|_| !start.is_empty());
    match first {
        Some(first) if found.all(|other| other == first) => Ok(first.clone()),
        Some(_) | None => {
            Err(Error::NoRevision { given: one_line(given), plugin: one_line(plugin) })
        }
    }
}

/// The revision that was rolled back to last.
fn chosen(history: &PluginHistory) -> Option<String> {
    let last = history.entries.iter().rev().find(|entry| entry.what == ROLLED_BACK)?;
    last.revision.clone()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn history() -> PluginHistory {
        let entry = |what: &str, who: Value, revision: Value, commit: Value| {
            json!({"at": "2026-11-21T10:00:00Z", "what": what, "who": who,
                "revision": revision, "commit": commit})
        };
        let (old, new) = ("sha256:0123456789abcdef", "sha256:01aa456789abcdef");
        serde_json::from_value(json!({"entries": [
            entry("installed", json!("Ada"), json!(old), json!("fedcba9876543210")),
            entry("configured", json!("Ada"), Value::Null, Value::Null),
            entry("serves", Value::Null, json!(old), Value::Null),
            entry("serves", Value::Null, json!(new), Value::Null),
            entry("rolled back", json!("Ada"), json!(old), Value::Null),
        ]}))
        .unwrap()
    }

    #[test]
    fn what_became_of_it_is_a_table() {
        let text = render(&history(), &TimeZone::UTC);
        let lines: Vec<&str> = text.lines().take(4).collect();
        assert_eq!(
            lines,
            [
                "when                  what         who  revision      commit",
                "2026-11-21 10:00 UTC  installed    Ada  0123456789ab  fedcba987654",
                "2026-11-21 10:00 UTC  configured   Ada",
                "2026-11-21 10:00 UTC  serves            0123456789ab",
            ]
        );
    }

    #[test]
    fn a_revision_is_found_by_how_it_begins() {
        let check = |given: &str, expected: Option<&str>| {
            let found = begun_by(&history(), given, "weather");
            assert_eq!(found.as_deref().ok(), expected, "{given}");
        };
        check("0123", Some("sha256:0123456789abcdef"));
        check("sha256:01aa", Some("sha256:01aa456789abcdef"));
        check("01", None);
        check("ff", None);
        check("", None);
        assert_eq!(chosen(&history()).as_deref(), Some("sha256:0123456789abcdef"));
    }
}
