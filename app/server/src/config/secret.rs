//! A secret in the configuration is a reference: to an environment variable or to a file.

use figment::value::Value;
use secrecy::SecretString;
use serde::{Deserialize, Deserializer, de::Error as _};
use std::{fs, io, path::PathBuf};

/// Where a secret stands: `{ env = "NAME" }` or `{ file = "/path" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretRef {
    Env(String),
    File(PathBuf),
}

impl<'de> Deserialize<'de> for SecretRef {
    /// A secret written in place is refused without repeating it.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let refused = || {
            D::Error::custom(
                "a secret is a reference: write { env = \"NAME\" } or { file = \"/path\" }",
            )
        };
        let Value::Dict(_, fields) = <Value as Deserialize>::deserialize(deserializer)? else {
            return Err(refused());
        };
        let mut fields = fields.into_iter();
        match (fields.next(), fields.next()) {
            (Some((name, Value::String(_, text))), None) => match name.as_str() {
                "env" => Ok(Self::Env(text)),
                "file" => Ok(Self::File(PathBuf::from(text))),
                _ => Err(refused()),
            },
            _ => Err(refused()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    #[error(
        "`{key}` names the environment variable {name}, which is not set; set it, or name another"
    )]
    EnvMissing { key: String, name: String },
    #[error(
        "`{key}` names the file {path}, which cannot be read; check the path and its permissions"
    )]
    FileUnreadable {
        key: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("`{key}` names a secret that is empty")]
    Empty { key: String },
}

impl SecretRef {
    /// Reads the secret; a trailing line break of a file does not belong to it.
    pub fn read(&self, key: &str) -> Result<SecretString, SecretError> {
        let text = match self {
            Self::Env(name) =>
            {
                #[expect(clippy::disallowed_methods, reason = "this is the configuration")]
                std::env::var(name).map_err(|_| SecretError::EnvMissing {
                    key: key.to_owned(),
                    name: name.clone(),
                })?
            }
            Self::File(path) => fs::read_to_string(path).map_err(|source| {
                SecretError::FileUnreadable { key: key.to_owned(), path: path.clone(), source }
            })?,
        };
        let text = text.trim_end_matches(['\r', '\n']);
        if text.is_empty() {
            return Err(SecretError::Empty { key: key.to_owned() });
        }
        Ok(SecretString::from(text.to_owned()))
    }
}
