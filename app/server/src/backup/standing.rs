//! How the backups stand, for whoever asks: the last good one, the last that was restored to see
//! whether it can be, and what went wrong.

use famulus_api::Standing;
use famulus_backup::manifest::Manifest;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::{fs, io, path::Path};

/// Where the last drill that succeeded is noted, in the data directory.
const NOTE: &str = "backup-verified.json";

/// A backup that was restored into a database that was thrown away, and was sound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Verified {
    pub(super) backup: String,
    pub(super) at: Timestamp,
}

impl Verified {
    /// The last one. A note that cannot be read says nothing.
    pub(super) fn read(data_dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(data_dir.join(NOTE)).ok()?).ok()
    }

    pub(super) fn note(&self, data_dir: &Path) -> io::Result<()> {
        let (new, path) = (data_dir.join(format!(".{NOTE}")), data_dir.join(NOTE));
        fs::write(&new, serde_json::to_vec(self)?)?;
        fs::rename(&new, &path)
    }
}

/// What can be done about a fault, where these backups are taken.
pub(super) struct Remedies {
    /// When the first is taken.
    pub(super) first: &'static str,
    pub(super) take: &'static str,
    pub(super) verify: &'static str,
}

/// Where `famulus up` takes them.
pub(super) const HERE: Remedies = Remedies {
    first: "the first is taken within minutes",
    take: "see to the cause; `famulus backup` tries again at once",
    verify: "see to the cause; `famulus backup verify` tries again",
};

/// The newest good backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) name: String,
    pub(super) begun: Timestamp,
    pub(super) encrypted: bool,
    /// What it was to hold and does not, in words.
    pub(super) lacks: Option<String>,
}

impl Last {
    pub(super) fn of(name: &str, manifest: &Manifest) -> Self {
        let encrypted = manifest.parts.iter().any(|part| part.encrypted);
        Self { name: name.to_owned(), begun: manifest.begun, encrypted, lacks: None }
    }
}

/// What is known of the backups.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    pub(super) last: Option<Last>,
    pub(super) verified: Option<Verified>,
    /// Why none was taken, though one was due.
    pub(super) not_taken: Option<String>,
    /// The backup that a drill failed on, and why.
    pub(super) not_restored: Option<(String, String)>,
}

impl Known {
    /// Takes in what the note of the drills says. One that succeeded since, by hand or by the clock,
    /// makes good one that failed.
    pub(super) fn learn(&mut self, verified: Option<Verified>) {
        if verified != self.verified {
            self.not_restored = None;
            self.verified = verified;
        }
    }

    /// In words. `takes`: whether some are taken by the clock.
    pub(super) fn standing(&self, takes: bool, can: &Remedies, now: Timestamp) -> Standing {
        let last = match &self.last {
            Some(Last { name, begun, .. }) => {
                format!("the last is {name}, {} old", age(now.duration_since(*begun)))
            }
            None if self.not_taken.is_some() => "there is none".to_owned(),
            None if takes => format!("none yet; {}", can.first),
            None => "none, and none is taken: `backup.every_hours` is 0".to_owned(),
        };
        if let Some(error) = &self.not_taken {
            return Standing {
                ok: false,
                detail: format!("none was taken, though one is due ({error}); {last}"),
                remedy: Some(can.take),
            };
        }
        if let Some((name, error)) = &self.not_restored {
            return Standing {
                ok: false,
                detail: format!("{name} could not be restored to see whether it can be ({error})"),
                remedy: Some(can.verify),
            };
        }
        if let Some(Last { lacks: Some(lacks), .. }) = &self.last {
            let detail = format!("{last}, and lacks {lacks}");
            return Standing { ok: false, detail, remedy: Some(can.take) };
        }
        let verified = match (&self.last, &self.verified) {
            (None, None) => String::new(),
            (Some(_), None) => "; none was restored yet to see whether it can be".to_owned(),
            (_, Some(Verified { backup, at })) => {
                format!("; {backup} was restored to see, {} ago", age(now.duration_since(*at)))
            }
        };
        Standing { ok: true, detail: last + &verified, remedy: None }
    }

    /// For metrics: seconds since 1970.
    pub(super) fn count(&self) {
        if let Some(last) = &self.last {
            metrics::gauge!("famulus_backup_last_seconds").set(last.begun.as_second() as f64);
        }
        if let Some(verified) = &self.verified {
            let at = verified.at.as_second() as f64;
            metrics::gauge!("famulus_backup_last_verified_seconds").set(at);
        }
    }
}

/// A span, for people.
fn age(span: SignedDuration) -> String {
    let minutes = span.as_mins().max(0);
    match minutes {
        0..120 => format!("{minutes} min"),
        120..2880 => format!("{} h", minutes / 60),
        _ => format!("{} days", minutes / 1440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn what_stands_is_said_in_words() {
        let now = at("2026-11-24T12:00:00Z");
        let check = |known: &Known, takes: bool, ok: bool, detail: &str| {
            let standing = known.standing(takes, &HERE, now);
            assert_eq!((standing.ok, standing.detail.as_str()), (ok, detail));
            assert_eq!(standing.remedy.is_some(), !ok, "who reads of a fault reads what to do");
        };
        let mut known = Known::default();
        check(&known, true, true, "none yet; the first is taken within minutes");
        check(&known, false, true, "none, and none is taken: `backup.every_hours` is 0");
        known.not_taken = Some("the disk is full".to_owned());
        check(
            &known,
            true,
            false,
            "none was taken, though one is due (the disk is full); there is none",
        );
        let begun = at("2026-11-24T08:30:00Z");
        let last = Last { name: "A".to_owned(), begun, encrypted: true, lacks: None };
        known.last = Some(last.clone());
        check(
            &known,
            true,
            false,
            "none was taken, though one is due (the disk is full); the last is A, 3 h old",
        );
        known.not_taken = None;
        check(
            &known,
            true,
            true,
            "the last is A, 3 h old; none was restored yet to see whether it can be",
        );
        let earlier = Verified { backup: "B".to_owned(), at: at("2026-11-20T12:00:00Z") };
        known.learn(Some(earlier.clone()));
        check(&known, true, true, "the last is A, 3 h old; B was restored to see, 4 days ago");
        known.last = Some(Last { lacks: Some("the files of w: gone".to_owned()), ..last.clone() });
        check(&known, true, false, "the last is A, 3 h old, and lacks the files of w: gone");
        known.last = Some(last);
        known.not_restored = Some(("A".to_owned(), "it is damaged".to_owned()));
        check(
            &known,
            true,
            false,
            "A could not be restored to see whether it can be (it is damaged)",
        );
        known.learn(Some(earlier));
        assert!(!known.standing(true, &HERE, now).ok, "nothing was restored since");
        known.learn(Some(Verified { backup: "A".to_owned(), at: at("2026-11-24T11:00:00Z") }));
        check(&known, true, true, "the last is A, 3 h old; A was restored to see, 60 min ago");
    }

    #[test]
    fn a_note_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Verified::read(folder.path()), None);
        let verified = Verified { backup: "A".to_owned(), at: at("2026-11-20T12:00:00Z") };
        verified.note(folder.path()).unwrap();
        assert_eq!(Verified::read(folder.path()), Some(verified));
        fs::write(folder.path().join(NOTE), "{").unwrap();
        assert_eq!(Verified::read(folder.path()), None);
    }
}
