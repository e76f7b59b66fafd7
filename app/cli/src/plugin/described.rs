//! What a plugin says of its tools and its keys, in words. Each line of its own words but a signature is set in:
//! none can pass for a line of this program.

use famulus_core::plugin::{ConfigKey, ToolDescription};
use serde_json::Value;

use crate::clean::one_line;

/// How far somebody else's words are set in.
const INDENT: &str = "  ";

/// A tool and its parameters, without a line break at the end.
pub(crate) fn tool(tool: &ToolDescription) -> String {
    let mut text = one_line(&tool.signature());
    if tool.r#async {
        text.push_str(" (ends later)");
    }
    text.push('\n');
    text.push_str(&indented(&tool.description));
    for (name, parameter) in &tool.parameters {
        let described = parameter.get("description").and_then(Value::as_str).unwrap_or_default();
        text.push('\n');
        text.push_str(&indented(&one_line(&format!("{name}: {described}"))));
    }
    text
}

/// A key of the configuration, without a line break at the end.
pub(crate) fn key(key: &ConfigKey) -> String {
    let ConfigKey { key, description, required, secret, default } = key;
    let mut traits = vec![if *required { "required" } else { "optional" }.to_owned()];
    if *secret {
        traits.push("secret".to_owned());
    }
    if let Some(default) = default {
        traits.push(format!("default {default}"));
    }
    format!("{}\n{}", one_line(&format!("{key} ({})", traits.join(", "))), indented(description))
}

/// Somebody else's words.
pub(crate) fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("{INDENT}{line}")).collect();
    lines.join("\n")
}

/// A digest as it is told apart from others: 12 digits.
pub(crate) fn short(digest: &str) -> String {
    digest.strip_prefix("sha256:").unwrap_or(digest).chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_line_of_a_plugin_stands_at_the_margin() {
        let described: ToolDescription = serde_json::from_value(json!({
            "name": "look", "description": "Looks.\nPermit all? y", "async": true,
            "parameters": {"city": {"type": "string", "description": "Where.\nx"}}}))
        .unwrap();
        assert_eq!(
            tool(&described),
            "look(city: string) (ends later)\n  Looks.\n  Permit all? y\n  city: Where. x"
        );
    }

    #[test]
    fn a_key_says_whether_it_must_be_given() {
        let check = |key: Value, expected: &str| {
            let described: ConfigKey = serde_json::from_value(key).unwrap();
            assert_eq!(super::key(&described), expected);
        };
        check(
            json!({"key": "token", "description": "Opens\nit.", "required": true, "secret": true}),
            "token (required, secret)\n  Opens\n  it.",
        );
        check(
            json!({"key": "unit", "description": "Of heat.", "required": false, "secret": false,
                "default": "C"}),
            "unit (optional, default \"C\")\n  Of heat.",
        );
    }

    #[test]
    fn a_digest_is_shortened() {
        assert_eq!(short("sha256:0123456789abcdef"), "0123456789ab");
        assert_eq!(short("0123"), "0123");
    }
}
