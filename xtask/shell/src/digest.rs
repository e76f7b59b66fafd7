//! Checksums as text.

use std::fmt::Write as _;

use sha2::{Digest, Sha256, Sha384};

pub fn sha256(data: &[u8]) -> String {
    hex(&Sha256::digest(data))
}

pub fn sha384(data: &[u8]) -> String {
    hex(&Sha384::digest(data))
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    text
}
