//! What a container says at its end, where the kubelet reads it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

use famulus_protocol::SelfTest;
use famulus_protocol::revision::{BuildFailure, Built, Bundled, Copied, Probed};
use serde::Serialize;

/// Bytes that the kubelet takes.
const LONGEST: usize = 4096;

/// Bytes of a text within a message, so that the whole fits also when it is full of escapes.
const LONGEST_TEXT: usize = 1400;

/// Bytes of what an init script said.
const LONGEST_OUTPUT: usize = 2048;

/// A report that can be made to fit.
pub trait Report: Serialize {
    /// Takes something away. Says whether there was anything.
    fn shorten(&mut self) -> bool;
}

/// Writes the report, shortened until it fits.
pub fn write(path: &Path, mut report: impl Report) -> io::Result<()> {
    let mut text = serde_json::to_vec(&report)?;
    while text.len() > LONGEST && report.shorten() {
        text = serde_json::to_vec(&report)?;
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.write_all(&text)
}

impl Report for SelfTest {
    fn shorten(&mut self) -> bool {
        let mut any = false;
        for check in &mut self.checks {
            any |= halve(&mut check.detail);
        }
        any
    }
}

impl Report for Probed {
    fn shorten(&mut self) -> bool {
        halve(&mut self.detail)
    }
}

impl Report for Bundled {
    fn shorten(&mut self) -> bool {
        match self {
            Self::Failed(failure) => halve(&mut failure.message),
            Self::Done { tools, required_keys, config_keys, .. } => {
                // The description has them all.
                config_keys.pop().or_else(|| tools.pop()).or_else(|| required_keys.pop()).is_some()
            }
        }
    }
}

impl Report for Built {
    fn shorten(&mut self) -> bool {
        match self {
            Self::Failed(failure) => halve(&mut failure.message),
            Self::Done { init_output, .. } => halve(init_output),
        }
    }
}

impl Report for Copied {
    fn shorten(&mut self) -> bool {
        match self {
            Self::Failed(failure) => halve(&mut failure.message),
            Self::Done { .. } => false,
        }
    }
}

fn halve(text: &mut String) -> bool {
    let half = text.len() / 2;
    text.truncate(text.floor_char_boundary(half));
    half > 0
}

/// A failure with a text that is short and plain.
pub fn failure(reason: &str, message: &str) -> BuildFailure {
    BuildFailure { reason: reason.to_owned(), message: clean(message, LONGEST_TEXT) }
}

/// The end of what an init script said.
pub fn output(text: &str) -> String {
    let text = text.trim();
    let from = text.ceil_char_boundary(text.len().saturating_sub(LONGEST_OUTPUT));
    text[from..].to_owned()
}

/// Without what a terminal would take for a command, and not longer than so many bytes.
pub fn clean(text: &str, most: usize) -> String {
    let plain = |letter: char| if letter == '\n' || !letter.is_control() { letter } else { ' ' };
    let mut text: String = text.trim().chars().map(plain).collect();
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_fits_whatever_it_holds() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log");
        let names = |count: usize| (0..count).map(|n| format!("a-long-name-{n}")).collect();
        let done = Bundled::Done {
            revision: format!("sha256:{}", "0".repeat(64)),
            commit: Some("c".repeat(40)),
            tools: names(500),
            required_keys: names(3),
            config_keys: names(500),
        };
        write(&file, done).unwrap();
        let text = std::fs::read(&file).unwrap();
        assert!(text.len() <= LONGEST, "{}", text.len());
        let Bundled::Done { tools, required_keys, config_keys, .. } =
            serde_json::from_slice(&text).unwrap()
        else {
            panic!("it failed")
        };
        assert!(tools.len() > 100 && required_keys.len() == 3 && config_keys.is_empty());

        write(&file, Bundled::Failed(failure("BuildFailed", &"\u{1}\"".repeat(9000)))).unwrap();
        let text = std::fs::read(&file).unwrap();
        assert!(text.len() <= LONGEST);
        let built = Built::Done { revision: "r".into(), init_output: output(&"ä\"".repeat(5000)) };
        write(&file, built).unwrap();
        assert!(std::fs::read(&file).unwrap().len() <= LONGEST);
    }

    #[test]
    fn what_others_wrote_is_made_plain() {
        assert_eq!(clean("remote: \u{1b}[31mred\r\nnext\n", 100), "remote:  [31mred \nnext");
        assert_eq!(clean("äää", 3), "ä…");
    }
}
