//! The secret that the app and this runner share.

use std::fs;
use std::io;
use std::path::PathBuf;

use axum::http::{HeaderMap, header};
use famulus_protocol::{Kind, Problem};
use subtle::ConstantTimeEq;

/// A file that holds the bearer. It is read at every use, so that a new one counts at once.
#[derive(Clone, Debug)]
pub struct Bearer {
    file: PathBuf,
}

impl Bearer {
    pub fn new(file: PathBuf) -> Self {
        Self { file }
    }

    /// The bearer that counts now.
    ///
    /// # Errors
    /// The file cannot be read, or is empty: an empty bearer would open the door to everybody.
    pub fn read(&self) -> io::Result<String> {
        let text = fs::read_to_string(&self.file)?.trim().to_owned();
        if text.is_empty() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(text) }
    }

    /// Lets a request pass that carries the bearer. Takes the same time wherever the two differ.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let expected = self.read().map_err(|error| {
            tracing::error!(%error, file = %self.file.display(), "the bearer cannot be read");
            Problem::new(
                Kind::Internal,
                "the runner cannot read its own bearer",
                "see the log of the runner, and the Secret that it mounts",
            )
        })?;
        let given = headers.get(header::AUTHORIZATION).map_or(&b""[..], |value| value.as_bytes());
        let given = given.strip_prefix(b"Bearer ").unwrap_or_default();
        if bool::from(given.ct_eq(expected.as_bytes())) {
            return Ok(());
        }
        Err(Problem::new(
            Kind::Unauthorized,
            "the bearer is missing or wrong",
            "send `Authorization: Bearer …` with the bearer of this runner",
        ))
    }
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
