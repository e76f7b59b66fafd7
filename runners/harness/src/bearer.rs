//! The secret that the app and this runner share.

use std::fs;
use std::io;
use std::path::PathBuf;

use axum::http::{HeaderMap, header};
use famulus_protocol::{Kind, Problem, RENDERED_HEADER};
use subtle::ConstantTimeEq;

use crate::mount::Mount;

/// Where the bearer comes from. It is looked up at every use, so that a new one counts at once.
#[derive(Clone, Debug)]
pub struct Bearer {
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    File(PathBuf),
    Mount(Mount),
}

/// What this runner proves itself with.
#[derive(Clone)]
pub struct Credentials {
    pub bearer: String,
    /// The UID of the Plugin and the number of the bearer, where there are any.
    pub identity: Option<(String, i64)>,
}

impl Bearer {
    /// A file that holds the bearer and nothing else.
    pub fn new(file: PathBuf) -> Self {
        Self { source: Source::File(file) }
    }

    /// What the operator mounts: the app says which it used, and may be ahead or behind.
    pub fn mounted(mount: Mount) -> Self {
        Self { source: Source::Mount(mount) }
    }

    /// The newest.
    ///
    /// # Errors
    /// It cannot be read, or is empty: an empty bearer would open the door to everybody.
    pub fn read(&self) -> io::Result<Credentials> {
        match &self.source {
            Source::File(file) => {
                let bearer = fs::read_to_string(file)?.trim().to_owned();
                if bearer.is_empty() {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                Ok(Credentials { bearer, identity: None })
            }
            Source::Mount(mount) => {
                let mounted = mount.read()?;
                let identity = Some((mounted.wanted.uid, mounted.wanted.rendered));
                Ok(Credentials { bearer: mounted.bearer, identity })
            }
        }
    }

    /// Lets a request pass that carries the bearer, and waits until what it needs was mounted.
    pub(crate) async fn admit(&self, headers: &HeaderMap) -> Result<(), Problem> {
        if let Source::Mount(mount) = &self.source {
            mount.reach(rendered(headers)?).await?;
        }
        self.check(headers)
    }

    /// Lets a request pass that carries the bearer of backups.
    pub(crate) async fn admit_keeper(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let keeper = match &self.source {
            Source::File(_) => None,
            Source::Mount(mount) => {
                mount.reach(rendered(headers)?).await?;
                mount.read().map_err(|error| unreadable(&error))?.keeper
            }
        };
        if keeper.is_some_and(|keeper| bool::from(given(headers).ct_eq(keeper.as_bytes()))) {
            return Ok(());
        }
        Err(unauthorized("the bearer of backups"))
    }

    /// Takes the same time wherever two bearers differ.
    fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let accepted = match &self.source {
            Source::File(_) => self.read().map(|credentials| vec![credentials.bearer]),
            Source::Mount(mount) => Ok(mount.bearers()),
        };
        let accepted = accepted.map_err(|error| unreadable(&error))?;
        let given = given(headers);
        // All are compared, so that the time does not tell which one it was.
        let matching =
            accepted.iter().filter(|one| bool::from(given.ct_eq(one.as_bytes()))).count();
        if matching > 0 {
            return Ok(());
        }
        Err(unauthorized("the bearer of this runner"))
    }
}

fn given(headers: &HeaderMap) -> &[u8] {
    let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
    given.strip_prefix(b"Bearer ").unwrap_or_default()
}

fn unreadable(error: &io::Error) -> Problem {
    tracing::error!(%error, "the bearer cannot be read");
    Problem::new(
        Kind::Internal,
        "the runner cannot read its own bearer",
        "see the log of the runner, and the Secret that it mounts",
    )
}

fn unauthorized(wanted: &str) -> Problem {
    Problem::new(
        Kind::Unauthorized,
        "the bearer is missing or wrong",
        format!("send `Authorization: Bearer …` with {wanted}"),
    )
}

/// The number that a request was made with; a request without one needs none.
fn rendered(headers: &HeaderMap) -> Result<i64, Problem> {
    let Some(value) = headers.get(RENDERED_HEADER) else { return Ok(0) };
    value.to_str().ok().and_then(|text| text.parse().ok()).ok_or_else(|| {
        Problem::new(
            Kind::Invalid,
            format!("the header {RENDERED_HEADER} holds no number"),
            "send the number of the bearer",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_bearer_passes_and_a_new_one_counts_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bearer");
        let bearer = Bearer::new(file.clone());
        let check = |given: Option<&str>, kind: Option<Kind>| {
            let mut headers = HeaderMap::new();
            if let Some(given) = given {
                headers.insert(header::AUTHORIZATION, given.parse().unwrap());
            }
            let refused = bearer.check(&headers).err().map(|problem| problem.kind);
            assert_eq!(refused, kind, "{given:?}");
        };
        check(Some("Bearer one"), Some(Kind::Internal));
        fs::write(&file, "\n").unwrap();
        check(Some("Bearer "), Some(Kind::Internal));
        fs::write(&file, "one\n").unwrap();
        check(Some("Bearer one"), None);
        for wrong in ["Bearer on", "Bearer one ", "Bearer onf", "bearer one", "one", "Bearer "] {
            check(Some(wrong), Some(Kind::Unauthorized));
        }
        check(None, Some(Kind::Unauthorized));
        fs::write(&file, "two").unwrap();
        check(Some("Bearer one"), Some(Kind::Unauthorized));
        check(Some("Bearer two"), None);
    }
}
