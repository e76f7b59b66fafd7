//! The first token: made at the first start, kept in a file that only its owner can read.

use crate::{config::TokenSecret, say};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use famulus_core::{ids::PersonId, person::Scope};
use famulus_store::{Store, TokenStanding};
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
    #[error("the token could not be stored; see whether the database answers")]
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

/// What a start found of the first token, or made of it.
#[derive(Debug)]
pub enum FirstToken {
    /// The file's token works, and did so before.
    Known,
    /// The database learned of it just now.
    New(SecretString),
    /// The one before was revoked: the file holds this one instead.
    Renewed(SecretString),
    /// It was revoked, and the file cannot be given another.
    Revoked(TokenError),
}

impl FirstToken {
    /// For whoever started the assistant. The token itself is shown to a person, and to nobody else.
    pub(crate) fn in_words(&self, path: &Path, secret: Option<&TokenSecret>) -> String {
        let file = path.display();
        let shown = |token: &SecretString| {
            if say::is_to_a_person() {
                format!("{} (again with `famulus token`)", token.expose_secret())
            } else {
                format!("in {file}")
            }
        };
        match self {
            Self::Known => format!("in {file}"),
            Self::New(token) => shown(token),
            Self::Renewed(token) => {
                format!("{}; it is a new one, since the one before was revoked", shown(token))
            }
            Self::Revoked(_) => {
                let remedy = remedy(path, secret);
                format!("none: the one in {file} was revoked. For a new one:\n    {remedy}")
            }
        }
    }
}

/// What gives the file another token, where this program cannot.
pub(crate) fn remedy(path: &Path, secret: Option<&TokenSecret>) -> String {
    match secret {
        Some(TokenSecret { namespace, name }) => format!(
            "kubectl -n {namespace} patch secret {name} -p \
             \"{{\\\"stringData\\\":{{\\\"token\\\":\\\"$(openssl rand -hex 32)\\\"}}}}\" && \
             kubectl -n {namespace} rollout restart deployment -l app.kubernetes.io/component=app"
        ),
        None => format!("make {} writable, and start the assistant again", path.display()),
    }
}

/// Sees to it that the file holds a token of the owner that works. A revoked one stays revoked.
///
/// The file is written whole before the database learns of the token: a crash in between leaves a
/// file whose token does not work, which [`ensure`] repairs at the next start.
pub async fn ensure(store: &Store, owner: PersonId, path: &Path) -> Result<FirstToken, TokenError> {
    match read(path) {
        Err(TokenError::Missing { .. }) => {
            let token = fresh();
            write(path, token.expose_secret())?;
            make_known(store, owner, &token).await?;
            Ok(FirstToken::New(token))
        }
        Err(error) => Err(error),
        Ok(token) => match standing(store, &token).await? {
            TokenStanding::Valid => Ok(FirstToken::Known),
            TokenStanding::Unknown => {
                make_known(store, owner, &token).await?;
                Ok(FirstToken::New(token))
            }
            TokenStanding::Revoked => {
                let token = fresh();
                if let Err(error) = write(path, token.expose_secret()) {
                    return Ok(FirstToken::Revoked(error));
                }
                make_known(store, owner, &token).await?;
                Ok(FirstToken::Renewed(token))
            }
        },
    }
}

async fn standing(store: &Store, token: &SecretString) -> Result<TokenStanding, TokenError> {
    store.token_standing(hash(token.expose_secret())).await.map_err(TokenError::Store)
}

/// Makes a token the owner's. Another process may have made the same file's token known meanwhile.
async fn make_known(
    store: &Store,
    owner: PersonId,
    token: &SecretString,
) -> Result<(), TokenError> {
    let hash = hash(token.expose_secret());
    let made = store.create_token(owner, "first token", Scope::Owner, hash).await;
    let Err(error) = made else { return Ok(()) };
    match standing(store, token).await {
        Ok(TokenStanding::Valid) => Ok(()),
        Ok(TokenStanding::Unknown | TokenStanding::Revoked) | Err(_) => {
            Err(TokenError::Store(error))
        }
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
    fs::rename(&temporary, path).map_err(|source| {
        // A token that nobody will know is not left lying about.
        let _left = fs::remove_file(&temporary);
        failed(source)
    })
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
