//! What may be stored of a message that is `/configure`: the word, and who wrote it where and when.
//!
//! The value stands in the text, and may stand again in any other field that a platform makes of the text: a
//! link, its preview, a style. So a field is kept only if it is listed.

use famulus_core::configure::{WORD, is_configure};
use serde_json::{Map, Value};

/// How a platform writes a message.
pub(crate) struct Fields {
    /// Those that hold what somebody wrote.
    pub(crate) texts: &'static [&'static str],
    /// Those that are kept beside it.
    pub(crate) kept: &'static [&'static str],
}

impl Fields {
    /// Takes what stands behind the word out of every message, however deep it lies. Whether there was one.
    pub(crate) fn redact(&self, value: &mut Value) -> bool {
        match value {
            Value::Object(fields) if self.is_configure(fields) => {
                fields.retain(|name, value| {
                    self.kept.contains(&name.as_str()) || self.is_text(name, value)
                });
                for (name, value) in fields.iter_mut() {
                    if self.is_text(name, value) {
                        *value = WORD.into();
                    }
                }
                true
            }
            Value::Object(fields) => self.any(fields.values_mut()),
            Value::Array(values) => self.any(values.iter_mut()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }

    fn any<'a>(&self, values: impl Iterator<Item = &'a mut Value>) -> bool {
        let mut found = false;
        for value in values {
            found |= self.redact(value);
        }
        found
    }

    fn is_configure(&self, fields: &Map<String, Value>) -> bool {
        fields.iter().any(|(name, value)| self.is_text(name, value))
    }

    /// Whether a field is a text that is the command.
    fn is_text(&self, name: &str, value: &Value) -> bool {
        self.texts.contains(&name) && value.as_str().is_some_and(is_configure)
    }
}
