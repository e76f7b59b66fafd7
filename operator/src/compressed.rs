//! Objects as few bytes: JSON, compressed against the first object of their kind.
//!
//! Objects of one kind, made by one program, differ in little but their names and numbers. What they
//! share is kept once, as the dictionary of all others.

use std::sync::OnceLock;

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a compressed object refers back to; the format sees no farther.
const LONGEST: usize = 64 * 1024;

/// One object. It is read with the [`Compressor`] that made it.
pub(crate) struct Compressed(Box<[u8]>);

/// Packs objects of one kind.
#[derive(Default)]
pub(crate) struct Compressor {
    dictionary: OnceLock<Box<[u8]>>,
}

impl Compressor {
    pub(crate) fn compress<K: Serialize>(
        &self,
        object: &K,
    ) -> Result<Compressed, serde_json::Error> {
        let text = serde_json::to_vec(object)?;
        let dictionary =
            self.dictionary.get_or_init(|| text[text.len().saturating_sub(LONGEST)..].into());
        Ok(Compressed(compress_prepend_size_with_dict(&text, dictionary).into()))
    }

    pub(crate) fn decompress<K: DeserializeOwned>(
        &self,
        compressed: &Compressed,
    ) -> Result<K, UnpackError> {
        // Nothing was compressed before there was one.
        let dictionary = self.dictionary.get().map_or(&[][..], |bytes| bytes);
        let text = decompress_size_prepended_with_dict(&compressed.0, dictionary)?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// What was compressed cannot be read: another compressor made it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UnpackError {
    #[error("its bytes are not of this compressor")]
    Bytes(#[from] lz4_flex::block::DecompressError),
    #[error("it is no object of this kind")]
    Object(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ServiceAccount;
    use kube::ResourceExt;

    use super::*;

    fn account(number: u32, note: &str) -> ServiceAccount {
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(format!("p{number}-identity"));
        account.metadata.labels = Some(
            ["app.kubernetes.io/managed-by", "famulus.dev/plugin", "famulus.dev/release"]
                .map(|name| (name.to_owned(), format!("the value of {name}")))
                .into(),
        );
        account.metadata.annotations = Some([("note".to_owned(), note.to_owned())].into());
        account
    }

    #[test]
    fn what_is_compressed_is_read_again() {
        let compressor = Compressor::default();
        for (number, note) in [(0, ""), (1, "short"), (2, &"long ".repeat(40_000)), (3, "ü\u{0}")]
        {
            let before = account(number, note);
            let compressed = compressor.compress(&before).unwrap();
            assert_eq!(
                compressor.decompress::<ServiceAccount>(&compressed).unwrap(),
                before,
                "{number}"
            );
        }
    }

    #[test]
    fn one_more_of_a_kind_takes_next_to_nothing() {
        let compressor = Compressor::default();
        let first = compressor.compress(&account(1, "of the first")).unwrap();
        let one = account(2, "of the second");
        let compressed = compressor.compress(&one).unwrap();
        let text = serde_json::to_vec(&one).unwrap();
        assert!(compressed.0.len() < text.len() / 3, "{} of {}", compressed.0.len(), text.len());
        assert_eq!(
            compressor.decompress::<ServiceAccount>(&first).unwrap().name_any(),
            "p1-identity"
        );
    }

    #[test]
    fn another_press_does_not_pass_off_something_else() {
        let (compressor, other) = (Compressor::default(), Compressor::default());
        compressor.compress(&account(1, "a")).unwrap();
        let compressed = compressor.compress(&account(2, "a")).unwrap();
        assert!(other.decompress::<ServiceAccount>(&compressed).is_err());
    }
}
