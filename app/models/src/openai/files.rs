//! The files of a request: read through the blob port, within limits.
//!
//! A file that cannot be shown fails the request only while it is new; once an answer stands
//! behind it, it is named instead, so that no file can close a conversation for good.

use super::history::{Entry, Piece};
use super::notes;
use famulus_core::blob::{BlobError, Blobs};
use famulus_core::ids::{BlobId, PersonId};
use famulus_core::message::FilePart;
use famulus_core::model::ModelError;
use futures::StreamExt as _;
use std::collections::BTreeMap;

/// Bytes of one file: what hosted models take at most of one image.
pub(crate) const FILE_CAP: u64 = 20 << 20;
/// Bytes of all files of a request; the newest come first. The body holds them a third larger.
pub(crate) const TOTAL_CAP: u64 = 32 << 20;

pub(crate) type Loaded = BTreeMap<BlobId, Vec<u8>>;

/// Reads what the entries refer to, and turns what cannot be shown into text.
pub(crate) async fn load(
    entries: &mut [Entry],
    blobs: &dyn Blobs,
    person: PersonId,
) -> Result<Loaded, ModelError> {
    let mut loaded = Loaded::new();
    let mut room = TOTAL_CAP;
    let answered = entries.iter().rposition(|entry| matches!(entry, Entry::Assistant(_)));
    for (position, entry) in entries.iter_mut().enumerate().rev() {
        let new = answered.is_none_or(|answer| position > answer);
        let Entry::User(pieces) = entry else { continue };
        for piece in pieces.iter_mut().rev() {
            let file = match piece {
                Piece::Text(_) => continue,
                Piece::Image(file) | Piece::Audio(file, _) => file,
            };
            if loaded.contains_key(&file.blob.id) {
                continue;
            }
            match fits(file, room) {
                Ok(()) => {}
                Err(why) if new => {
                    return Err(ModelError::Rejected {
                        status: 413,
                        message: format!("the file `{}` {why}; send a smaller one", file.name),
                    });
                }
                Err(why) => {
                    *piece = Piece::Text(notes::file_left_out(file, &why));
                    continue;
                }
            }
            match read(file, blobs, person).await? {
                Some(bytes) => {
                    room = room.saturating_sub(bytes.len() as u64);
                    loaded.insert(file.blob.id, bytes);
                }
                None => {
                    *piece = Piece::Text(notes::file_left_out(file, "it is not stored any more"));
                }
            }
        }
    }
    Ok(loaded)
}

fn fits(file: &FilePart, room: u64) -> Result<(), String> {
    let size = file.blob.size;
    if size > FILE_CAP {
        Err(format!("has {size} bytes, more than the {FILE_CAP} that a model is sent of one file"))
    } else if size > room {
        Err(format!("would make more than the {TOTAL_CAP} bytes that a model is sent at once"))
    } else {
        Ok(())
    }
}

async fn read(
    file: &FilePart,
    blobs: &dyn Blobs,
    person: PersonId,
) -> Result<Option<Vec<u8>>, ModelError> {
    // The store may come back: the disposition is to try again.
    let failed = |error: &BlobError| {
        tracing::warn!(blob.id = %file.blob.id, %error, "a file for the model could not be read");
        ModelError::Failed {
            status: 503,
            message: format!("the file `{}` could not be read from the store", file.name),
        }
    };
    let mut stream = match blobs.get(person, file.blob.id).await {
        Ok((_, stream)) => stream,
        Err(BlobError::Missing { .. }) => return Ok(None),
        Err(error @ (BlobError::TooLarge { .. } | BlobError::Cut(_) | BlobError::Store(_))) => {
            return Err(failed(&error));
        }
    };
    let mut bytes = Vec::with_capacity(usize::try_from(file.blob.size).unwrap_or_default());
    while let Some(piece) = stream.next().await {
        let piece = piece.map_err(|error| failed(&error))?;
        if (bytes.len() + piece.len()) as u64 > FILE_CAP {
            let limit = FILE_CAP;
            return Err(failed(&BlobError::TooLarge { limit }));
        }
        bytes.extend_from_slice(&piece);
    }
    Ok(Some(bytes))
}
