//! Masking of known secret values.
//!
//! A list of known values finds every secret that the program was given and nothing else; guessing
//! by pattern does neither. The price is that each value must be added before it is first used.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::alphabet::{self, Alphabet};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};
use parking_lot::RwLock;

/// What stands in the place of a secret.
const MASK: &[u8] = b"[redacted]";

/// Below this, masking would hit ordinary words and tell an observer what they are.
const SHORTEST: usize = 6;

/// The value is too short to be masked wherever it occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a secret of fewer than {SHORTEST} characters cannot be kept out of the logs: use a longer one"
)]
pub struct TooShort;

/// Masks known secrets. Clones share one list.
#[derive(Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<KnownSecrets>>,
}

#[derive(Default)]
struct KnownSecrets {
    forms: BTreeSet<Vec<u8>>,
    /// Absent while nothing is known.
    search: Option<Arc<AhoCorasick>>,
}

impl Redactor {
    /// Masks `value` from now on: as it is, in base64 of either alphabet at any alignment (inside
    /// `Basic` credentials, for one), percent-encoded, and escaped for JSON or by `{:?}`.
    ///
    /// # Errors
    /// The value has fewer than six characters.
    pub fn add(&self, value: &str) -> Result<(), TooShort> {
        if value.chars().count() < SHORTEST {
            return Err(TooShort);
        }
        let mut known = self.known.write();
        let before = known.forms.len();
        known.forms.extend(forms_of(value));
        if known.forms.len() > before {
            known.search = Some(search_for(&known.forms));
        }
        Ok(())
    }

    /// `text` with every known secret masked; borrowed when it holds none.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.redact_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    pub(crate) fn redact_bytes<'a>(&self, text: &'a [u8]) -> Cow<'a, [u8]> {
        let search = self.known.read().search.clone();
        let Some(search) = search else { return Cow::Borrowed(text) };
        let mut masked = Vec::new();
        let mut done = 0;
        for hit in search.find_iter(text) {
            masked.extend_from_slice(&text[done..hit.start()]);
            masked.extend_from_slice(MASK);
            done = hit.end();
        }
        if done == 0 {
            return Cow::Borrowed(text);
        }
        masked.extend_from_slice(&text[done..]);
        Cow::Owned(masked)
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").finish_non_exhaustive()
    }
}

fn search_for(forms: &BTreeSet<Vec<u8>>) -> Arc<AhoCorasick> {
    // The contiguous automaton takes a fraction of the memory that the default would choose for so
    // few patterns; log lines are short, so speed does not matter here.
    let built = AhoCorasick::builder()
        .kind(Some(AhoCorasickKind::ContiguousNFA))
        .match_kind(MatchKind::LeftmostLongest)
        .build(forms);
    #[expect(clippy::expect_used, reason = "a search without its newest secret must not go on")]
    let search =
        built.expect("secrets stay far below the two billion bytes that an automaton holds");
    Arc::new(search)
}

fn forms_of(value: &str) -> BTreeSet<Vec<u8>> {
    let mut forms = BTreeSet::from([value.as_bytes().to_vec()]);
    let debug = value.escape_debug().to_string();
    for text in [value, &debug] {
        forms.insert(json_escaped(text).into_bytes());
    }
    forms.insert(debug.into_bytes());
    for hex in [HexCase::Upper, HexCase::Lower] {
        for style in [Percent::Uri, Percent::Form] {
            forms.insert(percent_encoded(value, style, hex).into_bytes());
        }
    }
    for alphabet in [&alphabet::STANDARD, &alphabet::URL_SAFE] {
        forms.extend(base64_forms(value.as_bytes(), alphabet));
    }
    forms
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

#[derive(Clone, Copy)]
enum HexCase {
    Upper,
    Lower,
}

impl HexCase {
    fn digit(self, nibble: u8) -> char {
        let digits = match self {
            Self::Upper => b"0123456789ABCDEF",
            Self::Lower => b"0123456789abcdef",
        };
        char::from(digits[usize::from(nibble)])
    }
}

#[derive(Clone, Copy)]
enum Percent {
    /// Everything but the unreserved characters of a URI.
    Uri,
    /// As HTML forms do it: space becomes a plus.
    Form,
}

fn percent_encoded(value: &str, style: Percent, hex: HexCase) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        let plain = byte.is_ascii_alphanumeric()
            || match style {
                Percent::Uri => b"-._~".contains(&byte),
                Percent::Form => b"-._*".contains(&byte),
            };
        match style {
            _ if plain => out.push(char::from(byte)),
            Percent::Form if byte == b' ' => out.push('+'),
            Percent::Uri | Percent::Form => {
                out.push('%');
                out.push(hex.digit(byte >> 4));
                out.push(hex.digit(byte & 0xf));
            }
        }
    }
    out
}

/// The encoding of the value alone, and for each of the three positions that it can take in a
/// longer text the characters that depend on the value only.
fn base64_forms(value: &[u8], alphabet: &Alphabet) -> Vec<Vec<u8>> {
    let engine = GeneralPurpose::new(alphabet, NO_PAD);
    let mut forms = vec![engine.encode(value).into_bytes()];
    for before in 0..3 {
        let mut shifted = vec![0; before];
        shifted.extend_from_slice(value);
        let encoded = engine.encode(&shifted).into_bytes();
        let first = (before * 8).div_ceil(6);
        let end = shifted.len() * 8 / 6;
        forms.push(encoded[first..end].to_vec());
    }
    forms
}

#[cfg(test)]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};

    use super::*;

    const SECRET: &str = "p\u{e4}ss \"wörd\"/+?~\n9";

    fn redactor() -> Redactor {
        let redactor = Redactor::default();
        redactor.add(SECRET).unwrap();
        redactor
    }

    #[test]
    fn every_spelling_is_masked() {
        let basic = |user: &str| BASE64_STANDARD.encode(format!("{user}:{SECRET}"));
        let spellings = [
            ("as it is", SECRET.to_owned()),
            ("json", json_escaped(SECRET)),
            ("debug", SECRET.escape_debug().to_string()),
            ("debug in json", json_escaped(&SECRET.escape_debug().to_string())),
            ("base64", BASE64_STANDARD.encode(SECRET)),
            ("base64 url", BASE64_URL_SAFE_NO_PAD.encode(SECRET)),
            ("percent", "p%C3%A4ss%20%22w%C3%B6rd%22%2F%2B%3F~%0A9".to_owned()),
            ("percent, lower", "p%c3%a4ss%20%22w%c3%b6rd%22%2f%2b%3f~%0a9".to_owned()),
            ("form", "p%C3%A4ss+%22w%C3%B6rd%22%2F%2B%3F%7E%0A9".to_owned()),
        ];
        for (name, spelling) in spellings {
            let masked = redactor().redact(&format!("a={spelling};b")).into_owned();
            let rest =
                masked.strip_prefix("a=[redacted]").unwrap_or_else(|| panic!("{name}: {masked}"));
            assert!(rest.trim_start_matches('=') == ";b", "{name}: {masked}");
        }
        for user in ["", "u", "us", "use", "user"] {
            let encoded = basic(user);
            let masked = redactor().redact(&encoded).into_owned();
            assert!(masked.contains("[redacted]"), "{user}: {masked}");
            // What is left encodes the user, the colon and at most one shared character a side.
            let left = masked.replace("[redacted]", "");
            assert!(left.len() <= (user.len() + 1) * 8 / 6 + 4, "{user}: {masked}");
        }
    }

    #[test]
    fn other_text_is_borrowed() {
        assert!(matches!(redactor().redact("nothing here"), Cow::Borrowed("nothing here")));
        assert!(matches!(Redactor::default().redact(SECRET), Cow::Borrowed(_)));
    }

    #[test]
    fn several_secrets_and_the_longer_of_two_that_overlap() {
        let redactor = redactor();
        redactor.add("token-1").unwrap();
        redactor.add("token-1-long").unwrap();
        assert_eq!(
            redactor.redact("x token-1 y token-1-long z token-2"),
            "x [redacted] y [redacted] z token-2"
        );
    }

    #[test]
    fn short_values_are_refused() {
        assert_eq!(Redactor::default().add("12345"), Err(TooShort));
        assert_eq!(Redactor::default().add("ööööö"), Err(TooShort));
        assert_eq!(Redactor::default().add("123456"), Ok(()));
    }
}
