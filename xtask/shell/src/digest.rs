//! Checksums as text.

use sha2::{Digest, Sha256, Sha384};

pub fn sha256(data: &[u8]) -> String {
    hex::encode(Sha256::digest(data))
}

pub fn sha384(data: &[u8]) -> String {
    hex::encode(Sha384::digest(data))
}
