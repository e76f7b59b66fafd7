//! Files that come with a message: blobs before the message is accepted.

use crate::{ReceiveError, Reception};
use bytes::Bytes;
use famulus_core::{
    blob::BlobError,
    ids::{BlobId, PersonId},
    inbound::Attachment,
    visible::file_name,
};
use futures::stream::BoxStream;
use std::io;

/// A file that comes with a message.
pub enum File<'a> {
    /// It was stored before.
    Stored { id: BlobId, name: String },
    New {
        name: String,
        /// As it was declared.
        media_type: String,
        /// Bytes that it may have.
        most: u64,
        pieces: BoxStream<'a, io::Result<Bytes>>,
    },
}

impl Reception {
    pub(crate) async fn attachment(
        &self,
        person: PersonId,
        file: File<'_>,
    ) -> Result<Attachment, ReceiveError> {
        match file {
            File::Stored { id, name } => match self.desk.get(person, id).await {
                Ok((blob, _unread)) => Ok(Attachment { blob, name: file_name(&name) }),
                Err(BlobError::Missing { id }) => Err(ReceiveError::NoFile { id }),
                Err(source) => Err(ReceiveError::File { name: file_name(&name), source }),
            },
            File::New { name, media_type: declared, most, pieces } => {
                let name = file_name(&name);
                match self.desk.put(person, &media_type(&declared), most, pieces).await {
                    Ok(blob) => Ok(Attachment { blob, name }),
                    Err(source) => Err(ReceiveError::File { name, source }),
                }
            }
        }
    }
}

/// A declared media type, or the one of unknown bytes when it is none.
pub fn media_type(declared: &str) -> String {
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
    fn a_media_type_is_one_or_unknown_bytes() {
        let check = |declared, expected| assert_eq!(media_type(declared), expected);
        check("text/plain", "text/plain");
        check("Image/PNG; q=1", "image/png");
        check("", "application/octet-stream");
        check("text/html\r\nx: y", "application/octet-stream");
        check("text", "application/octet-stream");
    }
}
