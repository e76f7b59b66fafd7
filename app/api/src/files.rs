//! Files inside JSON: decoded piece by piece into the store, before the message is accepted.

use crate::problem::Problem;
use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig},
};
use bytes::Bytes;
use famulus_core::blob::BlobError;
use famulus_reception::{File, ReceiveError, media_type};
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

impl<'a> InlineFile<'a> {
    /// A spoken message. Its kind is the declared one, or else what its first bytes say.
    ///
    /// # Errors
    /// It is declared as something else, or nobody says what it is.
    pub(crate) fn spoken(data: Cow<'a, str>, declared: Option<&str>) -> Result<Self, Problem> {
        let declared = declared.map(media_type);
        let mime_type = match declared.as_deref() {
            Some(named) if named.starts_with("audio/") => named.to_owned(),
            Some(other) => {
                return Err(Problem::bad(
                    format!("`audioContentType` is `{other}`, which is no kind of audio"),
                    "send the kind of the audio, for example audio/wav; other files go into `files`",
                ));
            }
            None => audio_type(&data).map(str::to_owned).ok_or_else(|| {
                Problem::bad(
                    "what kind of audio `audio` is cannot be told from its first bytes",
                    "send it in base64, and its kind in `audioContentType`, for example audio/wav",
                )
            })?,
        };
        Ok(Self { data, filename: "audio".to_owned(), mime_type })
    }

    /// As it comes with a message, decoded as it is stored.
    pub(crate) fn pieces(&self) -> File<'_> {
        File::New {
            name: self.filename.clone(),
            media_type: self.mime_type.clone(),
            most: LIMIT,
            pieces: futures::stream::iter(decode(&self.data)).boxed(),
        }
    }
}

/// The kinds of audio that name themselves in their first bytes: where, and how.
const AUDIO: [(usize, &[u8], &str); 8] = [
    (0, b"RIFF", "audio/wav"),
    (0, b"OggS", "audio/ogg"),
    (0, b"fLaC", "audio/flac"),
    (0, b"ID3", "audio/mpeg"),
    (0, b"\xff\xfb", "audio/mpeg"),
    (0, b"\xff\xf1", "audio/aac"),
    (4, b"ftyp", "audio/mp4"),
    (0, b"\x1a\x45\xdf\xa3", "audio/webm"),
];

fn audio_type(data: &str) -> Option<&'static str> {
    let head = BASE64.decode(data.as_bytes().get(..16)?).ok()?;
    let fits = |(at, mark, _): &&(usize, &[u8], &str)| head[*at..].starts_with(mark);
    AUDIO.iter().find(fits).map(|(_, _, kind)| *kind)
}

/// What is wrong with a file of a request, where its text is no base64.
pub(crate) fn unreadable(error: ReceiveError) -> Problem {
    if let ReceiveError::File { name, source: BlobError::Cut(_) } = &error {
        return Problem::bad(
            format!("the data of the file `{name}` is not base64"),
            "encode the file's bytes with the standard alphabet, in one line",
        );
    }
    error.into()
}

fn decode(data: &str) -> impl Iterator<Item = io::Result<Bytes>> + Send {
    data.as_bytes().chunks(PIECE).map(|piece| {
        BASE64
            .decode(piece)
            .map(Bytes::from)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    })
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
    fn audio_is_what_it_is_called_or_what_it_begins_with() {
        let spoken = |bytes: &[u8], declared: Option<&str>| {
            InlineFile::spoken(BASE64.encode(bytes).into(), declared).map(|file| file.mime_type)
        };
        let wav = b"RIFF\x24\x00\x00\x00WAVEfmt ";
        let mp4 = b"\x00\x00\x00\x20ftypM4A \x00\x00";
        assert_eq!(spoken(wav, None).unwrap(), "audio/wav");
        assert_eq!(spoken(mp4, None).unwrap(), "audio/mp4");
        assert_eq!(spoken(mp4, Some("Audio/X-M4A; codecs=1")).unwrap(), "audio/x-m4a");
        for (bytes, declared) in
            [(&wav[..], Some("text/plain")), (b"twelve bytes", None), (b"", None)]
        {
            assert!(spoken(bytes, declared).is_err(), "{declared:?}");
        }
    }
}
