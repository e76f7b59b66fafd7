//! What a backup says of itself: `manifest.json`.
//!
//! A kept shape: what an older release wrote can be read for ever, and a field that is added has a
//! default. [`FORMAT`] goes up only when an older release could not restore the result.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The newest format that this release reads, and the one that it writes.
pub const FORMAT: u32 = 1;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    pub format: u32,
    /// Whose backup it is. It comes back with the database.
    pub installation: Uuid,
    /// The version of the program that took it.
    pub famulus: String,
    /// The newest migration of the database.
    pub schema: i64,
    /// The version of the server that was dumped.
    pub postgres: String,
    pub begun: Timestamp,
    pub ended: Timestamp,
    pub parts: Vec<Part>,
    /// In words, for people.
    #[serde(default)]
    pub contains: Vec<String>,
    #[serde(default)]
    pub leaves_out: Vec<String>,
}

/// One file of a backup, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    pub name: String,
    pub holds: Holds,
    pub bytes: u64,
    /// Of the stored bytes, in hexadecimal digits.
    pub sha256: String,
    pub encrypted: bool,
    /// Whose it is, of what there may be several of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Holds {
    /// A dump of Postgres's custom format.
    Database,
    /// The file `token`.
    Token,
    /// The configuration file.
    Configuration,
    /// What an installation in a cluster derives the keys of its runners from.
    RootKey,
    /// The `Plugin` objects of a cluster, as JSON.
    Plugins,
    /// What a plugin keeps on a volume of its own, as a tar.
    PluginFiles,
    /// What a plugin is configured by, as JSON.
    PluginConfiguration,
    /// What the daemon of a channel keeps of its accounts, as a tar.
    ChannelFiles,
    /// Something that a newer release added.
    #[serde(other)]
    Unknown,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("its manifest cannot be read")]
    Unreadable(#[source] serde_json::Error),
    #[error("its format is {found}, and this release reads up to {FORMAT}; use a newer famulus")]
    Newer { found: u32 },
    #[error("its manifest names the part {name:?}, which is no name of a file")]
    PartName { name: String },
}

impl Manifest {
    pub fn parse(bytes: &[u8]) -> Result<Self, ManifestError> {
        /// All that a newer format is bound to have.
        #[derive(Deserialize)]
        struct Versioned {
            format: u32,
        }
        let Versioned { format } =
            serde_json::from_slice(bytes).map_err(ManifestError::Unreadable)?;
        if format > FORMAT {
            return Err(ManifestError::Newer { found: format });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(ManifestError::Unreadable)?;
        // A name that leads out of the folder would have another file read in its place.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        match manifest.parts.iter().find(|part| {
            part.name.is_empty() || part.name.starts_with('.') || !part.name.chars().all(plain)
        }) {
            Some(part) => Err(ManifestError::PartName { name: part.name.clone() }),
            None => Ok(manifest),
        }
    }

    pub fn to_json(&self) -> Result<Vec<u8>, ManifestError> {
        let mut text = serde_json::to_vec_pretty(self).map_err(ManifestError::Unreadable)?;
        text.push(b'\n');
        Ok(text)
    }

    /// The part that holds this, if there is one.
    pub fn part(&self, holds: Holds) -> Option<&Part> {
        self.parts.iter().find(|part| part.holds == holds)
    }

    /// The parts that hold this of several.
    pub fn parts(&self, holds: Holds) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(move |part| part.holds == holds)
    }

    /// The bytes of all parts.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As it was first written. Never edited: it stands on somebody's disk.
    const FIRST: &str = r#"{
        "format": 1,
        "installation": "01900000-0000-7000-8000-000000000042",
        "famulus": "0.1.0",
        "schema": 13,
        "postgres": "18.4",
        "begun": "2026-11-24T22:30:29Z",
        "ended": "2026-11-24T22:30:31.5Z",
        "parts": [
            {"name": "database.dump.age", "holds": "database", "bytes": 12345,
             "sha256": "00ff", "encrypted": true},
            {"name": "token.age", "holds": "token", "bytes": 300, "sha256": "11ee", "encrypted": true}
        ],
        "contains": ["the database"],
        "leaves_out": []
    }"#;

    #[test]
    fn a_manifest_of_the_first_release_is_read() {
        let manifest = Manifest::parse(FIRST.as_bytes()).unwrap();
        assert_eq!(manifest.schema, 13);
        assert_eq!(manifest.bytes(), 12_645);
        assert_eq!(manifest.part(Holds::Database).unwrap().name, "database.dump.age");
        assert_eq!(manifest.part(Holds::Configuration), None);
        assert_eq!(Manifest::parse(&manifest.to_json().unwrap()).unwrap(), manifest);
    }

    #[test]
    fn what_a_newer_release_added_is_passed_over_and_a_newer_format_is_refused() {
        let added = FIRST.replace("\"token\",", "\"of a newer one\", \"more\": 1,");
        let manifest = Manifest::parse(added.as_bytes()).unwrap();
        assert_eq!(manifest.parts[1].holds, Holds::Unknown);
        let error = Manifest::parse(br#"{"format": 2, "anything": []}"#).unwrap_err();
        assert_eq!(
            error.to_string(),
            "its format is 2, and this release reads up to 1; use a newer famulus"
        );
    }

    #[test]
    fn a_part_stays_in_its_folder() {
        for name in ["../token", "/etc/passwd", "", ".lock", "a/b"] {
            let text = FIRST.replace("database.dump.age", name);
            let error = Manifest::parse(text.as_bytes()).unwrap_err();
            assert!(matches!(error, ManifestError::PartName { .. }), "{error}");
        }
    }
}
