//! A fence around what is no instruction, whoever wrote it.
//!
//! It ends with a mark that is computed from what stands inside: no text can hold its own. The same text
//! always reads the same.

use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Puts `body`, cut to so many characters, between two lines that it cannot hold.
pub fn fence(text: &mut String, heading: &str, body: &str, most: usize) {
    let total = body.chars().count();
    let kept: String = body.chars().take(most).collect();
    let mark = hex::encode(&Sha256::digest(kept.as_bytes())[..6]);
    // Writing to a String cannot fail.
    let _infallible = write!(text, "--- {heading}; ends at {mark} ---\n{kept}\n--- {mark} ---");
    if total > most {
        let _infallible =
            write!(text, "\n[cut: {} of {total} characters are missing]", total - most);
    }
}
