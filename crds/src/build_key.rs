//! What names one build of a Plugin.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::plugin::Source;

/// Letters of a key: 40 bits, among the builds of one Plugin.
const LETTERS: usize = 10;

/// What was asked to be built: another source has another key, and another number of runners has
/// the same. So a reference of git is looked up once for each source.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BuildKey([u8; LETTERS]);

impl BuildKey {
    /// The key of a source. `refresh` is the annotation [`crate::labels::REFRESH`].
    pub fn source(source: &Source, refresh: Option<&str>) -> Self {
        Self::of("source", source, refresh, None)
    }

    /// The key of going back to a revision that the app keeps.
    pub fn restored(source: &Source, refresh: Option<&str>, revision: &str) -> Self {
        Self::of("restored", source, refresh, Some(revision))
    }

    fn of(what: &str, source: &Source, refresh: Option<&str>, revision: Option<&str>) -> Self {
        let said = serde_json::json!([what, source, refresh, revision]).to_string();
        let digest = Sha256::digest(said.as_bytes());
        let mut letters = [0; LETTERS];
        #[expect(clippy::expect_used, reason = "a byte has two digits")]
        hex::encode_to_slice(&digest[..LETTERS / 2], &mut letters).expect("they fill the letters");
        Self(letters)
    }

    /// Ten hexadecimal digits.
    pub fn as_str(&self) -> &str {
        // Hexadecimal digits are text.
        str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Display for BuildKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for BuildKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn git(url: &str, reference: &str) -> Source {
        serde_json::from_value(serde_json::json!({"git": {"url": url, "ref": reference}})).unwrap()
    }

    #[test]
    fn what_is_built_decides_and_nothing_else() {
        let source = git("git://h/a", "main");
        let keys = [
            BuildKey::source(&source, None),
            BuildKey::source(&git("git://h/a", "v2"), None),
            BuildKey::source(&git("git://h/b", "main"), None),
            BuildKey::source(&source, Some("1")),
            BuildKey::restored(&source, None, "sha256:00"),
            BuildKey::restored(&source, None, "sha256:01"),
        ];
        for (place, key) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == key), Some(place), "{key}");
            assert!(key.as_str().bytes().all(|letter| letter.is_ascii_hexdigit()), "{key}");
        }
        assert_eq!(keys[0], BuildKey::source(&source, None));
    }

    /// A Job that runs while the operator is replaced by a newer one keeps its name.
    #[test]
    fn the_key_of_a_source_stays() {
        assert_eq!(BuildKey::source(&git("git://h/a", "main"), None).as_str(), "628f7e72a8");
    }
}
