//! Files inside JSON: decoded piece by piece into the store, before the message is accepted.

use crate::{handlers::messages::shown, problem::Problem};
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use famulus_core::{
    blob::{BlobError, Blobs},
    inbound::Attachment,
    person::Caller,
};
use futures::StreamExt as _;
use serde::Deserialize;
use std::{borrow::Cow, io};

/// Characters that are decoded at once: a multiple of four.
const PIECE: usize = 64 * 1024;
/// The size of a body limits a file, not this.
const LIMIT: u64 = u64::MAX;

/// What senders put at the end of base64 differs.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// A file as it stands in a request.
#[derive(Deserialize)]
pub(crate) struct InlineFile<'a> {
    #[serde(borrow)]
    data: Cow<'a, str>,
    #[serde(default)]
    filename: String,
    #[serde(default, rename = "mimeType")]
    mime_type: String,
}

/// Stores one file.
pub(crate) async fn store(
    blobs: &dyn Blobs,
    caller: &Caller,
    file: &InlineFile<'_>,
) -> Result<Attachment, Problem> {
    let name = shown(&file.filename);
    let pieces = futures::stream::iter(decode(&file.data)).boxed();
    match blobs.put(caller.person.id, &media_type(&file.mime_type), LIMIT, pieces).await {
        Ok(blob) => Ok(Attachment { blob, name }),
        Err(BlobError::Cut(_)) => Err(Problem::bad(
            format!("the data of the file `{name}` is not base64"),
            "encode the file's bytes with the standard alphabet, in one line",
        )),
        Err(other) => Err(other.into()),
    }
}

fn decode(data: &str) -> impl Iterator<Item = io::Result<Bytes>> + Send {
    data.as_bytes().chunks(PIECE).map(|piece| {
        BASE64
            .decode(piece)
            .map(Bytes::from)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    })
}

/// A declared media type, or the one of unknown bytes when it is none.
pub(crate) fn media_type(declared: &str) -> String {
    let declared = declared.trim();
    let is_token = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let essence = declared.split(';').next().unwrap_or_default().trim();
    match essence.split_once('/') {
        Some((kind, subtype)) if is_token(kind) && is_token(subtype) && essence.len() <= 127 => {
            essence.to_ascii_lowercase()
        }
        Some(_) | None => "application/octet-stream".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_decoded_in_pieces() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|n| n as u8).collect();
        let text = BASE64.encode(&bytes);
        let decoded: Vec<u8> =
            decode(&text).map(Result::unwrap).flat_map(|piece| piece.to_vec()).collect();
        assert!(decoded == bytes);
        assert!(decode("aGk").all(|piece| piece.is_ok()), "padding may be left out");
        assert!(decode("a!").any(|piece| piece.is_err()));
        let cut_in_between = format!("{}={}", "a".repeat(PIECE - 1), "aGk=");
        assert!(decode(&cut_in_between).any(|piece| piece.is_err()));
    }

    #[test]
    fn a_media_type_is_one_or_unknown_bytes() {
        let check = |declared, expected| assert_eq!(media_type(declared), expected);
        check("text/plain", "text/plain");
        check("Image/PNG; q=1", "image/png");
        check("", "application/octet-stream");
        check("text/html\r\nx: y", "application/octet-stream");
        check("text", "application/octet-stream");
    }
}
