//! An offer in words: what somebody has to know before they permit it, with nothing in it hidden.

use famulus_core::visible::make_visible;

use super::described;
use crate::clean::one_line;
use crate::table::pairs;
use crate::wire::Offer;

/// What is offered where nothing of it served before.
pub(crate) fn render(offer: &Offer) -> String {
    let Offer { plugin, revision, commit, source, description, .. } = offer;
    let mut rows = vec![
        ("name", plugin.clone()),
        ("does", description.description.clone()),
        ("from", source.clone()),
    ];
    if let Some(commit) = commit {
        rows.push(("commit", commit.clone()));
    }
    rows.push(("revision", revision.clone()));
    if let Some(contents) = &description.contents {
        rows.push(("size", contents.to_string()));
    }
    let mut text = pairs(&rows);
    section(&mut text, "Tools", description.tools.iter().map(described::tool));
    section(&mut text, "Configuration", description.config.iter().map(described::key));
    section(&mut text, "Packages", description.packages().iter().map(|name| one_line(name)));
    if let Some(instructions) = &description.instructions {
        let instructions = described::indented(instructions);
        section(&mut text, INSTRUCTIONS, std::iter::once(instructions));
    }
    make_visible(&text)
}

/// The heading of what a plugin tells its owner.
pub(crate) const INSTRUCTIONS: &str = "Instructions, in the plugin's own words";

/// A heading and what stands below it, if anything does.
fn section(text: &mut String, heading: &str, parts: impl Iterator<Item = String>) {
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return;
    }
    text.push('\n');
    text.push_str(heading);
    text.push('\n');
    for part in parts {
        text.push_str(&part);
        text.push('\n');
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// What the server answers to an install.
    pub(crate) fn offered() -> Value {
        json!({
            "plugin": "weather", "changed": true, "revision": "sha256:0123456789abcdef",
            "commit": "fedcba9876543210", "source": "https://example.org/weather at HEAD",
            "before": null, "permitted": [], "egress": "none",
            "description": {"plugin": "weather", "description": "Knows the weather.",
                "instructions": "Get a key.\nSet it.",
                "config": [{"key": "key", "description": "Of the service.", "required": true,
                    "secret": true}],
                "tools": [
                    {"name": "look", "description": "Looks.",
                     "parameters": {"city": {"type": "string", "description": "Where."}}},
                    {"name": "erase", "description": "Era\u{200b}ses."}]},
        })
    }

    #[test]
    fn an_offer_says_what_would_be_permitted() {
        let offer: Offer = serde_json::from_value(offered()).unwrap();
        assert_eq!(
            render(&offer),
            "name      weather\ndoes      Knows the weather.\n\
             from      https://example.org/weather at HEAD\ncommit    fedcba9876543210\n\
             revision  sha256:0123456789abcdef\n\
             \nTools\nlook(city: string)\n  Looks.\n  city: Where.\nerase()\n  Era⟨U+200B⟩ses.\n\
             \nConfiguration\nkey (required, secret)\n  Of the service.\n\
             \nInstructions, in the plugin's own words\n  Get a key.\n  Set it.\n"
        );
    }

    #[test]
    fn what_it_needs_of_others_and_how_large_it_is_are_told() {
        let mut offered = offered();
        let packages = json!(["httpx>=0.27", "left-pad\n^1.3"]);
        offered["description"] = json!({"plugin": "weather", "description": "d.", "tools": [],
            "contents": {"files": 1, "bytes": 3072, "packages": packages}});
        let offer: Offer = serde_json::from_value(offered).unwrap();
        let said = render(&offer);
        assert!(said.contains("\nsize      3.0 KiB in 1 file\n"), "{said}");
        assert!(said.ends_with("\nPackages\nhttpx>=0.27\nleft-pad ^1.3\n"), "{said}");
    }

    #[test]
    fn what_an_offer_does_not_have_is_not_told() {
        let mut offered = offered();
        offered["description"] = json!({"plugin": "weather", "description": "None.", "tools": []});
        offered["commit"] = Value::Null;
        let offer: Offer = serde_json::from_value(offered).unwrap();
        assert_eq!(
            render(&offer),
            "name      weather\ndoes      None.\nfrom      https://example.org/weather at HEAD\n\
             revision  sha256:0123456789abcdef\n"
        );
    }
}
