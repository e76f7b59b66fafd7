//! The first token: made at the first start, kept in a file that only its owner can read.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use famulus_core::{ids::PersonId, person::Scope};
use famulus_store::Store;
use rand::Rng as _;
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

/// Bytes of a token before encoding.
const BYTES: usize = 32;

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token file {} cannot be {what}; check the folder's permissions and the disk's space", path.display())]
    File {
        path: PathBuf,
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("there is no token file at {}; start the assistant once with `famulus up`, or name the file with --token-file", path.display())]
    Missing { path: PathBuf },
    #[error("the token could not be stored")]
    Store(#[source] famulus_store::Error),
}

/// A new token. Its hash is what the database keeps.
pub fn fresh() -> SecretString {
    let mut bytes = [0; BYTES];
    rand::rng().fill_bytes(&mut bytes);
    SecretString::from(URL_SAFE_NO_PAD.encode(bytes))
}

/// What the database keeps of a token.
pub fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

/// Where the first token stands.
pub fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("token")
}

/// Reads the first token.
pub fn read(path: &Path) -> Result<SecretString, TokenError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(SecretString::from(text.trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(TokenError::Missing { path: path.to_owned() })
        }
        Err(source) => Err(TokenError::File { path: path.to_owned(), what: "read", source }),
    }
}

/// Makes the owner's first token if there is no token file; returns it when it is new.
///
/// The file is written whole before the database learns of the token: a crash in between leaves a
/// file whose token does not work, which [`ensure`] repairs at the next start.
pub async fn ensure(
    store: &Store,
    owner: PersonId,
    path: &Path,
) -> Result<Option<SecretString>, TokenError> {
    let token = match read(path) {
        Ok(token) => {
            let known =
                store.authenticate(hash(token.expose_secret())).await.map_err(TokenError::Store)?;
            if known.is_some() {
                return Ok(None);
            }
            token
        }
        Err(TokenError::Missing { .. }) => {
            let token = fresh();
            write(path, token.expose_secret())?;
            token
        }
        Err(error) => return Err(error),
    };
    let hash = hash(token.expose_secret());
    let made = store.create_token(owner, "first token", Scope::Owner, hash).await;
    let Err(error) = made else { return Ok(Some(token)) };
    // Another process may have made the same file's token known meanwhile.
    match store.authenticate(hash).await {
        Ok(Some(_)) => Ok(None),
        Ok(None) | Err(_) => Err(TokenError::Store(error)),
    }
}

fn write(path: &Path, token: &str) -> Result<(), TokenError> {
    let failed = |source| TokenError::File { path: path.to_owned(), what: "written", source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let temporary = path.with_extension("new");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .map_err(failed)?;
    file.write_all(token.as_bytes()).map_err(failed)?;
    file.write_all(b"\n").map_err(failed)?;
    file.sync_all().map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn tokens_are_long_and_differ() {
        let (a, b) = (fresh(), fresh());
        assert_eq!(a.expose_secret().len(), 43);
        assert_ne!(a.expose_secret(), b.expose_secret());
        assert_ne!(hash(a.expose_secret()), hash(b.expose_secret()));
    }

    #[test]
    fn the_file_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(&folder.path().join("inner"));
        assert!(matches!(read(&path), Err(TokenError::Missing { .. })));
        write(&path, "abc").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(read(&path).unwrap().expose_secret(), "abc");
    }
}
