//! Keys of a JSON object, each read once as what it must be.

use serde_json::{Map, Value};

use super::ManifestError;

/// An object within a file, and the way to it.
pub(super) struct Fields<'a> {
    file: &'a str,
    /// `config.api_key`, or nothing for the whole file.
    path: String,
    object: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    pub(super) fn root(file: &'a str, value: &'a Value) -> Result<Self, ManifestError> {
        match value.as_object() {
            Some(object) => Ok(Self { file, path: String::new(), object }),
            None => Err(ManifestError {
                file: file.to_owned(),
                what: format!("it holds {}, not an object", kind(value)),
                remedy: "write `{ … }` with the keys of the plugin guide".to_owned(),
            }),
        }
    }

    pub(super) fn text(&self, key: &str, example: &str) -> Result<String, ManifestError> {
        match self.object.get(key) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(self.wrong(key, other, "a string", example)),
            None => Err(self.complain(key, "is missing", &format!("add it: {example}"))),
        }
    }

    pub(super) fn optional_text(&self, key: &str) -> Result<Option<String>, ManifestError> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.clone())),
            Some(other) => Err(self.wrong(key, other, "a string", "a text, or leave it out")),
        }
    }

    /// Absent is false.
    pub(super) fn switch(&self, key: &str) -> Result<bool, ManifestError> {
        match self.object.get(key) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(*value),
            Some(other) => Err(self.wrong(key, other, "true or false", "`true` or `false`")),
        }
    }

    /// Each key of an object that must be there, with the fields of its value.
    pub(super) fn each(&self, key: &str) -> Result<Vec<(&'a str, Fields<'a>)>, ManifestError> {
        match self.object.get(key) {
            Some(Value::Object(object)) => object
                .iter()
                .map(|(name, value)| Ok((name.as_str(), self.under(key, name, value)?)))
                .collect(),
            Some(other) => Err(self.wrong(key, other, "an object", "`{}` when there is none")),
            None => Err(self.complain(key, "is missing", "add it: `{}` when there is none")),
        }
    }

    /// The fields of an object that may be absent.
    pub(super) fn optional(&self, key: &str) -> Result<Option<Fields<'a>>, ManifestError> {
        match self.object.get(key) {
            None => Ok(None),
            Some(Value::Object(object)) => {
                Ok(Some(Fields { file: self.file, path: self.join(key), object }))
            }
            Some(other) => Err(self.wrong(key, other, "an object", "`{ … }`, or leave it out")),
        }
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.object.contains_key(key)
    }

    /// What stands there, whatever it is.
    pub(super) fn value(&self, key: &str) -> Option<&'a Value> {
        self.object.get(key)
    }

    pub(super) fn complain(&self, key: &str, what: &str, remedy: &str) -> ManifestError {
        ManifestError {
            file: self.file.to_owned(),
            what: format!("key `{}` {what}", self.join(key)),
            remedy: remedy.to_owned(),
        }
    }

    fn wrong(&self, key: &str, value: &Value, wanted: &str, example: &str) -> ManifestError {
        let what = format!("is {} and must be {wanted}", kind(value));
        self.complain(key, &what, &format!("write {example}"))
    }

    fn under(&self, key: &str, name: &str, value: &'a Value) -> Result<Fields<'a>, ManifestError> {
        let path = format!("{}.{name}", self.join(key));
        match value.as_object() {
            Some(object) => Ok(Fields { file: self.file, path, object }),
            None => Err(ManifestError {
                file: self.file.to_owned(),
                what: format!("key `{path}` is {} and must be an object", kind(value)),
                remedy: "write `{ … }` with the keys of the plugin guide".to_owned(),
            }),
        }
    }

    fn join(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// What a value is, in words.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The JSON of a file.
pub(super) fn json(file: &str, text: &str) -> Result<Value, ManifestError> {
    serde_json::from_str(text).map_err(|error| ManifestError {
        file: file.to_owned(),
        what: format!("it is no JSON: {error}"),
        remedy: "correct it there".to_owned(),
    })
}
