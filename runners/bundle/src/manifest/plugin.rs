//! The manifest at the root of a plugin.

use famulus_protocol::revision::ConfigKey;

use super::ManifestError;
use super::fields::{Fields, json};
use crate::tree::is_relative;

/// The longest name of a plugin, in bytes.
const LONGEST_NAME: usize = 64;

/// The manifest, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginManifest {
    pub name: String,
    pub description: String,
    pub instructions: Option<String>,
    pub init: Option<Init>,
    pub config: Vec<ConfigKey>,
}

/// A script that runs when a revision is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Init {
    /// Relative to the plugin's folder.
    pub entrypoint: String,
    /// It may take longer.
    pub is_async: bool,
}

impl PluginManifest {
    pub(super) fn read(file: &str, text: &str) -> Result<Self, ManifestError> {
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
        let description = fields.text("description", "`\"description\": \"What it provides.\"`")?;
        let instructions = fields.optional_text("instructions")?;
        if fields.has("entrypoint") {
            return Err(fields.complain(
                "entrypoint",
                "does not belong to a plugin",
                "put it into the manifest of a tool, or under `init`",
            ));
        }
        let init = fields.optional("init")?.map(|fields| init(&fields)).transpose()?;
        let config = if fields.has("config") {
            let keys = fields.each("config")?.into_iter();
            keys.map(|(key, fields)| config_key(key, &fields)).collect::<Result<_, _>>()?
        } else {
            Vec::new()
        };
        Ok(Self { name, description, instructions, init, config })
    }
}

fn init(fields: &Fields<'_>) -> Result<Init, ManifestError> {
    let entrypoint = fields.text("entrypoint", "`\"entrypoint\": \"init.py\"`")?;
    if !is_relative(&entrypoint) {
        return Err(fields.complain(
            "entrypoint",
            &format!("is `{}`", entrypoint.escape_debug()),
            "name a file at the root of the plugin",
        ));
    }
    Ok(Init { entrypoint, is_async: fields.switch("async")? })
}

fn config_key(key: &str, fields: &Fields<'_>) -> Result<ConfigKey, ManifestError> {
    Ok(ConfigKey {
        key: key.to_owned(),
        description: fields.text("description", "`\"description\": \"What it is for.\"`")?,
        required: fields.switch("required")?,
        // What nobody thought about is not shown.
        secret: if fields.has("secret") { fields.switch("secret")? } else { true },
        default: fields.value("default").filter(|value| !value.is_null()).cloned(),
    })
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_is_kept_and_a_key_is_secret_unless_it_says_otherwise() {
        let text = r#"{"name":"a","description":"d","instructions":"i",
            "init":{"entrypoint":"init.sh","async":true},
            "config":{"b":{"description":"x","required":true},
                "a":{"description":"y","secret":false,"default":5}}}"#;
        let manifest = PluginManifest::read("manifest.json", text).unwrap();
        assert_eq!(manifest.instructions.as_deref(), Some("i"));
        assert_eq!(manifest.init, Some(Init { entrypoint: "init.sh".into(), is_async: true }));
        let [b, a] = &manifest.config[..] else { panic!("{manifest:?}") };
        assert!(b.key == "b" && b.required && b.secret && b.default.is_none(), "{b:?}");
        assert!(a.key == "a" && !a.required && !a.secret && a.default == Some(5.into()), "{a:?}");
    }

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
