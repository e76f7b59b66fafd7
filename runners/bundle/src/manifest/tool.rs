//! The manifest of a tool.

use std::fmt::Write;

use super::ManifestError;
use super::fields::{Fields, json};
use crate::tree::is_relative;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolManifest {
    pub name: String,
    pub description: String,
    /// Relative to the tool's folder.
    pub entrypoint: String,
    /// Its result comes later.
    pub is_async: bool,
    /// Its calls may run beside each other.
    pub is_concurrent: bool,
    pub parameters: Vec<Parameter>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: String,
    pub kind: ParameterType,
    pub description: String,
}

/// The four types of the guide, and three that plugins use beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterType {
    String,
    Integer,
    Number,
    Boolean,
    File,
    Array,
    Object,
}

const TYPES: [(&str, ParameterType); 7] = [
    ("string", ParameterType::String),
    ("integer", ParameterType::Integer),
    ("number", ParameterType::Number),
    ("boolean", ParameterType::Boolean),
    ("file", ParameterType::File),
    ("array", ParameterType::Array),
    ("object", ParameterType::Object),
];

impl ParameterType {
    pub fn word(self) -> &'static str {
        TYPES.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

impl ToolManifest {
    /// `folder` is the name of the tool's folder, which must be the tool's own.
    pub(super) fn read(file: &str, folder: &str, text: &str) -> Result<Self, ManifestError> {
        let value = json(file, text)?;
        let fields = Fields::root(file, &value)?;
        let name = fields.text("name", &format!("`\"name\": \"{folder}\"`"))?;
        if name != folder {
            return Err(fields.complain(
                "name",
                &format!("is `{}`, but the folder is `{folder}`", name.escape_debug()),
                "give both the same name",
            ));
        }
        let description = fields.text("description", "`\"description\": \"What it does.\"`")?;
        let entrypoint = fields.text("entrypoint", "`\"entrypoint\": \"run.py\"`")?;
        if !is_relative(&entrypoint) {
            return Err(fields.complain(
                "entrypoint",
                &format!("is `{}`", entrypoint.escape_debug()),
                "name a file in the tool's folder",
            ));
        }
        let parameters = fields.each("parameters")?;
        Ok(Self {
            name,
            description,
            entrypoint,
            is_async: fields.switch("async")?,
            is_concurrent: fields.switch("concurrent")?,
            parameters: parameters
                .into_iter()
                .map(|(name, fields)| parameter(name, &fields))
                .collect::<Result<_, _>>()?,
        })
    }

    /// The parameters in words: what a caller who was wrong needs.
    pub fn schema(&self) -> String {
        if self.parameters.is_empty() {
            return format!("`{}` takes no parameters", self.name);
        }
        let mut schema = format!("`{}` takes:", self.name);
        for Parameter { name, kind, description } in &self.parameters {
            // Writing to a string cannot fail.
            let _ok = write!(schema, "\n- `{name}` ({}): {description}", kind.word());
        }
        schema
    }
}

fn parameter(name: &str, fields: &Fields<'_>) -> Result<Parameter, ManifestError> {
    let word = fields.text("type", "`\"type\": \"string\"`")?;
    let kind = TYPES.iter().find(|(known, _)| *known == word).map(|(_, kind)| *kind);
    let kind = kind.ok_or_else(|| {
        let known: Vec<&str> = TYPES.iter().map(|(word, _)| *word).collect();
        let what = format!("is `{}`", word.escape_debug());
        fields.complain("type", &what, &format!("use one of {}", known.join(", ")))
    })?;
    let description = fields.text("description", "`\"description\": \"What it is for.\"`")?;
    Ok(Parameter { name: name.to_owned(), kind, description })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guides_example_is_read() {
        let text = r#"{"name":"t","description":"d","entrypoint":"run.py",
            "parameters":{"q":{"type":"string","description":"The query."}}}"#;
        let manifest = ToolManifest::read("t/manifest.json", "t", text).unwrap();
        assert!(!manifest.is_async && !manifest.is_concurrent);
        assert_eq!(manifest.schema(), "`t` takes:\n- `q` (string): The query.");
    }

    #[test]
    fn every_complaint_names_file_key_and_remedy() {
        let check = |text: &str, expected: &str| {
            let complaint = ToolManifest::read("t/manifest.json", "t", text).unwrap_err();
            assert_eq!(complaint.to_string(), format!("t/manifest.json: {expected}"), "{text}");
        };
        let with = |rest: &str| format!(r#"{{"name":"t","description":"d"{rest}}}"#);
        check(&with(""), "key `entrypoint` is missing; add it: `\"entrypoint\": \"run.py\"`");
        check(
            &with(r#","entrypoint":"/bin/sh""#),
            "key `entrypoint` is `/bin/sh`; name a file in the tool's folder",
        );
        check(
            &with(r#","entrypoint":"r""#),
            "key `parameters` is missing; add it: `{}` when there is none",
        );
        check(
            &with(r#","entrypoint":"r","parameters":{"a":{"type":"text","description":"d"}}"#),
            "key `parameters.a.type` is `text`; use one of string, integer, number, boolean, file, array, object",
        );
        check(
            &with(r#","entrypoint":"r","parameters":{"a":"string"}"#),
            "key `parameters.a` is a string and must be an object; write `{ … }` with the keys of the plugin guide",
        );
        check(
            &with(r#","entrypoint":"r","parameters":{},"async":"no""#),
            "key `async` is a string and must be true or false; write `true` or `false`",
        );
        check(
            r#"{"name":"other","description":"d"}"#,
            "key `name` is `other`, but the folder is `t`; give both the same name",
        );
    }
}
