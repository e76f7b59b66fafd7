//! Values that no text may hold, in the spellings in which they could stand there.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};

/// A secret, and where it belongs.
pub(super) struct Canary {
    pub(super) name: &'static str,
    pub(super) value: String,
    /// The Secrets that hold it, as NAMESPACE/NAME.
    pub(super) places: Vec<String>,
}

impl Canary {
    /// Spellings of it that stand in a text.
    pub(super) fn in_text(&self, text: &str) -> Vec<String> {
        let mut found = spellings(&self.value);
        found.retain(|spelling| text.contains(spelling));
        found
    }
}

/// As it is, in base64 wherever it begins there, in hexadecimal, and as a part of an address.
fn spellings(value: &str) -> Vec<String> {
    let mut all = vec![value.to_owned(), value.replace('/', "\\/")];
    for before in 0..3 {
        let bytes = [&[0; 3][..before], value.as_bytes()].concat();
        // Letters that other bytes have a part in are left out.
        let (first, last) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        for engine in [STANDARD, URL_SAFE] {
            all.push(engine.encode(&bytes)[first..last].to_owned());
        }
    }
    let mut address = [String::new(), String::new()];
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            for text in &mut address {
                text.push(char::from(byte));
            }
        } else {
            let _infallible = write!(address[0], "%{byte:02X}");
            let _infallible = write!(address[1], "%{byte:02x}");
        }
    }
    all.extend([hex::encode(value), hex::encode_upper(value)]);
    all.extend(address);
    all.sort();
    all.dedup();
    all
}

#[test]
fn a_canary_is_found_in_every_spelling() {
    let value = "a canary/of+some=length";
    let canary = Canary { name: "it", value: value.to_owned(), places: Vec::new() };
    for text in [
        format!("is {value}!"),
        STANDARD.encode(format!("x{value}, and more")),
        STANDARD.encode(format!("xy{value}.")),
        URL_SAFE.encode(value),
        format!("\\\\x{}00", hex::encode(value)),
        "https://host/?key=a%20canary%2Fof%2Bsome%3Dlength".to_owned(),
    ] {
        assert!(!canary.in_text(&text).is_empty(), "{text}");
    }
    assert!(canary.in_text("a canary/of+some=other length").is_empty());
}
