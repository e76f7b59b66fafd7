//! The manifest at the root of a plugin.

use super::Complaint;
use super::fields::{Fields, json};
use crate::tree::is_relative;

/// The longest name of a plugin, in bytes.
const LONGEST_NAME: usize = 64;

/// What a runner needs of it; what else is written there is checked and left to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PluginManifest {
    pub(crate) name: String,
}

impl PluginManifest {
    pub(super) fn read(file: &str, text: &str) -> Result<Self, Complaint> {
        let value = json(file, text)?;
        let fields = Fields::root(file, &value)?;
        let name = fields.text("name", "`\"name\": \"my-plugin\"`")?;
        if !is_name(&name) {
            return Err(fields.complain(
                "name",
                &format!("is `{}`", name.escape_debug()),
                &format!("use 1 to {LONGEST_NAME} lowercase letters, digits and hyphens"),
            ));
        }
        fields.text("description", "`\"description\": \"What it provides.\"`")?;
        fields.optional_text("instructions")?;
        if fields.has("entrypoint") {
            return Err(fields.complain(
                "entrypoint",
                "does not belong to a plugin",
                "put it into the manifest of a tool, or under `init`",
            ));
        }
        if let Some(init) = fields.optional("init")? {
            let entrypoint = init.text("entrypoint", "`\"entrypoint\": \"init.py\"`")?;
            if !is_relative(&entrypoint) {
                return Err(init.complain(
                    "entrypoint",
                    &format!("is `{}`", entrypoint.escape_debug()),
                    "name a file at the root of the plugin",
                ));
            }
            init.switch("async")?;
        }
        if fields.has("config") {
            for (_key, entry) in fields.each("config")? {
                entry.text("description", "`\"description\": \"What it is for.\"`")?;
                entry.switch("required")?;
                entry.switch("secret")?;
            }
        }
        Ok(Self { name })
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_complaint_names_file_key_and_remedy() {
        let check = |text: &str, expected: &str| {
            let read = PluginManifest::read("manifest.json", text);
            let said =
                read.map_or_else(|complaint| complaint.to_string(), |manifest| manifest.name);
            assert_eq!(said, expected, "{text}");
        };
        check(r#"{"name":"a-1","description":"d","summary":"s"}"#, "a-1");
        check(
            r#"{"name":"a","description":"d","instructions":"i","init":{"entrypoint":"init.py"},
               "config":{"key":{"description":"d","required":true,"default":1}}}"#,
            "a",
        );
        check(
            "[]",
            "manifest.json: it holds an array, not an object; write `{ … }` with the keys of the plugin guide",
        );
        check(
            "{",
            "manifest.json: it is no JSON: EOF while parsing an object at line 1 column 1; correct it there",
        );
        check(
            r#"{"description":"d"}"#,
            "manifest.json: key `name` is missing; add it: `\"name\": \"my-plugin\"`",
        );
        check(
            r#"{"name":"My Plugin","description":"d"}"#,
            "manifest.json: key `name` is `My Plugin`; use 1 to 64 lowercase letters, digits and hyphens",
        );
        check(
            r#"{"name":"a","description":5}"#,
            "manifest.json: key `description` is a number and must be a string; write `\"description\": \"What it provides.\"`",
        );
        check(
            r#"{"name":"a","description":"d","init":{"entrypoint":"../x"}}"#,
            "manifest.json: key `init.entrypoint` is `../x`; name a file at the root of the plugin",
        );
        check(
            r#"{"name":"a","description":"d","config":{"key":{"required":"yes","description":"d"}}}"#,
            "manifest.json: key `config.key.required` is a string and must be true or false; write `true` or `false`",
        );
        check(
            r#"{"name":"a","description":"d","entrypoint":"x"}"#,
            "manifest.json: key `entrypoint` does not belong to a plugin; put it into the manifest of a tool, or under `init`",
        );
    }
}
