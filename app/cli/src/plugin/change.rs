//! What is new in an offer, against what serves.

use famulus_core::plugin::{ConfigKey, Description, ToolDescription};
use famulus_core::visible::make_visible;

use super::{described, offer};
use crate::clean::one_line;
use crate::table::pairs;
use crate::wire::Offer;

/// The difference in words, with nothing in it hidden.
pub(crate) fn render(offer: &Offer, before: &Description) -> String {
    let Offer { plugin, revision, commit, source, description: now, .. } = offer;
    let mut rows = vec![("name", plugin.clone()), ("from", source.clone())];
    if commit.is_some() || before.commit.is_some() {
        let known = |commit: &Option<String>| commit.clone().unwrap_or_else(|| "none".to_owned());
        let (commit, earlier) = (known(commit), known(&before.commit));
        rows.push(("commit", format!("{commit}, before: {earlier}")));
    }
    rows.push(("revision", revision.clone()));
    if now.description != before.description {
        rows.push(("does", now.description.clone()));
        rows.push(("did", before.description.clone()));
    }
    let contents = before.contents.as_ref().zip(now.contents.as_ref());
    if let Some((had, has)) = contents {
        rows.push(("size", format!("{has}, before: {had}")));
    }
    let same = pairs(&rows);
    let mut parts = tools(&before.tools, &now.tools);
    parts.extend(keys(&before.config, &now.config));
    if let Some((had, has)) = contents {
        parts.extend(packages(&had.packages, &has.packages));
    }
    if now.instructions != before.instructions {
        parts.push(match &now.instructions {
            Some(new) => format!("{}, anew\n{}", offer::INSTRUCTIONS, described::indented(new)),
            None => "its instructions are gone".to_owned(),
        });
    }
    if parts.is_empty() {
        parts.push("its tools and keys are the same; its files are not".to_owned());
    }
    make_visible(&format!("{same}\n{}\n", parts.join("\n")))
}

fn tools(before: &[ToolDescription], now: &[ToolDescription]) -> Vec<String> {
    let find = |all: &[ToolDescription], name: &str| all.iter().find(|it| it.name == name).cloned();
    let mut parts = Vec::new();
    for tool in now {
        let said = described::tool(tool);
        match find(before, &tool.name) {
            None => parts.push(format!("new tool: {said}")),
            Some(earlier) if earlier == *tool => {}
            Some(earlier) => parts.push(changed("tool", &said, &described::tool(&earlier))),
        }
    }
    let gone = before.iter().filter(|tool| find(now, &tool.name).is_none());
    parts.extend(gone.map(|tool| format!("gone tool: {}", one_line(&tool.signature()))));
    parts
}

fn keys(before: &[ConfigKey], now: &[ConfigKey]) -> Vec<String> {
    let find = |all: &[ConfigKey], name: &str| all.iter().find(|it| it.key == name).cloned();
    let mut parts = Vec::new();
    for key in now {
        let said = described::key(key);
        match find(before, &key.key) {
            None => parts.push(format!("new key: {said}")),
            Some(earlier) if earlier == *key => {}
            Some(earlier) => parts.push(changed("key", &said, &described::key(&earlier))),
        }
    }
    let gone = before.iter().filter(|key| find(now, &key.key).is_none());
    parts.extend(gone.map(|key| format!("gone key: {}", one_line(&key.key))));
    parts
}

fn packages(before: &[String], now: &[String]) -> Vec<String> {
    let told = |what: &str, name: &String| format!("{what} package: {}", one_line(name));
    let new = now.iter().filter(|name| !before.contains(name)).map(|name| told("new", name));
    let gone = before.iter().filter(|name| !now.contains(name)).map(|name| told("gone", name));
    new.chain(gone).collect()
}

/// Both in full: whoever decides compares for themselves.
fn changed(what: &str, now: &str, before: &str) -> String {
    if now == before {
        // A tool says more of itself than is told: limits of its parameters, calls at once.
        return format!(
            "changed {what}: {now}\n  as before, but for how its calls are checked or run"
        );
    }
    format!("changed {what}: {now}\n{}", described::indented(&format!("before: {before}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugin::offer::tests::offered;
    use serde_json::json;

    #[test]
    fn what_changed_of_packages_and_size_is_told() {
        let mut offered = offered();
        let contents =
            |files, packages: &[&str]| json!({"files": files, "bytes": 10, "packages": packages});
        let mut earlier = offered["description"].clone();
        earlier["contents"] = contents(1, &["a", "b"]);
        offered["description"]["contents"] = contents(2, &["b", "c"]);
        let offer: Offer = serde_json::from_value(offered).unwrap();
        let said = render(&offer, &serde_json::from_value(earlier).unwrap());
        assert!(
            said.contains("\nsize      10 bytes in 2 files, before: 10 bytes in 1 file\n"),
            "{said}"
        );
        assert!(said.ends_with("\nnew package: c\ngone package: a\n"), "{said}");
    }

    fn check(before: impl Fn(&mut serde_json::Value), expected: &str) {
        let mut earlier = offered()["description"].clone();
        earlier["commit"] = json!("0000");
        before(&mut earlier);
        let before: Description = serde_json::from_value(earlier).unwrap();
        let offer: Offer = serde_json::from_value(offered()).unwrap();
        let same = "name      weather\nfrom      https://example.org/weather at HEAD\n\
                    commit    fedcba9876543210, before: 0000\nrevision  sha256:0123456789abcdef\n";
        let said = render(&offer, &before);
        assert_eq!(said.strip_prefix(same).unwrap_or(&said), expected);
    }

    #[test]
    fn what_changed_of_tools_is_told() {
        check(
            |it| {
                it["tools"] = json!([
                    {"name": "look", "description": "Looks about.", "parameters": {}},
                    {"name": "paint", "description": "Paints."}]);
            },
            "\nchanged tool: look(city: string)\n  Looks.\n  city: Where.\n  before: look()\n    Looks about.\n\
             new tool: erase()\n  Era⟨U+200B⟩ses.\n\
             gone tool: paint()\n",
        );
        check(
            |it| it["tools"][1]["concurrent"] = json!(true),
            "\nchanged tool: erase()\n  Era⟨U+200B⟩ses.\n  as before, but for how its calls are checked or run\n",
        );
    }

    #[test]
    fn what_changed_of_the_rest_is_told() {
        check(
            |it| {
                it["config"] = json!([{"key": "unit", "description": "u", "required": false,
                    "secret": false}]);
            },
            "\nnew key: key (required, secret)\n  Of the service.\ngone key: unit\n",
        );
        check(
            |it| it["config"][0]["secret"] = json!(false),
            "\nchanged key: key (required, secret)\n  Of the service.\n  before: key (required)\n    \
             Of the service.\n",
        );
        check(
            |it| it["instructions"] = json!("Nothing."),
            "\nInstructions, in the plugin's own words, anew\n  Get a key.\n  Set it.\n",
        );
        check(
            |it| it["description"] = json!("Knew it."),
            "does      Knows the weather.\ndid       Knew it.\n\
             \nits tools and keys are the same; its files are not\n",
        );
    }
}
