//! A secret in the configuration is a reference: to an environment variable or to a file. What it
//! refers to takes its place in the tree before a component sees the tree.

use super::{KEYS, keys::join};
use famulus_telemetry::Redactor;
use figment::value::{Dict, Value};
use std::{fs, io, path::PathBuf};

/// Where a secret stands: `{ env = "NAME" }` or `{ file = "/path" }`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SecretRef {
    Env(String),
    File(PathBuf),
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
    /// A secret written in place is refused without repeating it.
    #[error(
        "the configuration is wrong at `{key}`: a secret is a reference: write {{ env = \"NAME\" }} or {{ file = \"/path\" }}"
    )]
    InPlace { key: String },
}

/// Says what the secret of a key is; `None` leaves the key out.
pub(super) type Read<'a> = dyn FnMut(&str, &SecretRef) -> Result<Option<String>, SecretError> + 'a;

/// Puts each secret below `section` into the place of its reference.
pub(super) fn replace(
    section: &str,
    tree: &mut Dict,
    read: &mut Read<'_>,
) -> Result<(), SecretError> {
    for (name, mut value) in std::mem::take(tree) {
        let key = join(section, &name);
        if is_secret(&key) {
            let Some(reference) = SecretRef::from_value(&value) else {
                return Err(SecretError::InPlace { key });
            };
            match read(&key, &reference)? {
                Some(secret) => value = Value::from(secret),
                None => continue,
            }
        } else if let Value::Dict(_, inner) = &mut value {
            replace(&key, inner, read)?;
        }
        tree.insert(name, value);
    }
    Ok(())
}

/// Whether a secret stands here: [`KEYS`] knows the reference to it.
fn is_secret(path: &str) -> bool {
    let reference = join(path, "env");
    KEYS.iter().any(|key| key.covers(&reference))
}

/// Keeps a secret out of the logs by its value.
pub(crate) fn hide(redactor: &Redactor, secret: &str) {
    if redactor.add(secret).is_err() {
        tracing::warn!("a secret is too short to be kept out of logs by its value");
    }
}

impl SecretRef {
    fn from_value(value: &Value) -> Option<Self> {
        let mut fields = value.as_dict()?.iter();
        match (fields.next()?, fields.next()) {
            ((name, Value::String(_, text)), None) if name == "env" => {
                Some(Self::Env(text.clone()))
            }
            ((name, Value::String(_, text)), None) if name == "file" => {
                Some(Self::File(PathBuf::from(text)))
            }
            _ => None,
        }
    }

    /// Reads the secret; a trailing line break does not belong to it.
    pub(super) fn read(&self, key: &str) -> Result<String, SecretError> {
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
        Ok(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reference: SecretRef) -> Result<String, String> {
        reference.read("a.key").map_err(|error| error.to_string())
    }

    #[test]
    fn a_secret_is_what_stands_where_it_refers_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            SecretRef::File(path)
        };
        assert_eq!(read(file("plain", "sesame")).unwrap(), "sesame");
        assert_eq!(read(file("line", " sesame\r\n")).unwrap(), " sesame");
        assert_eq!(read(file("empty", "\n")).unwrap_err(), "`a.key` names a secret that is empty");
        let nowhere = folder.path().join("nowhere");
        assert_eq!(
            read(SecretRef::File(nowhere.clone())).unwrap_err(),
            format!(
                "`a.key` names the file {}, which cannot be read; check the path and its permissions",
                nowhere.display()
            )
        );
        assert_eq!(
            read(SecretRef::Env("FAMULUS_TEST_OF_NO_SUCH_NAME".into())).unwrap_err(),
            "`a.key` names the environment variable FAMULUS_TEST_OF_NO_SUCH_NAME, which is not \
             set; set it, or name another"
        );
    }
}
