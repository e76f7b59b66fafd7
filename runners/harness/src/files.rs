//! Files on their way: as bytes, to disk and from it, never whole in memory.

use std::io;
use std::path::Path;

use axum::body::Body;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use famulus_protocol::{FILES_BYTES, Kind, Problem};
use futures::StreamExt;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt;
use tokio_util::io::ReaderStream;

use crate::calls::cannot_write;

/// Bytes of a body that is too large which are still read.
const READ_ON: u64 = 4 * FILES_BYTES;

/// Takes a body of at most 25 MiB as the file `path`. What was there is replaced; a body that breaks
/// off leaves nothing.
pub(crate) async fn receive(path: &Path, body: Body) -> Result<u64, Problem> {
    let beside = path.with_extension("part");
    let received = write(&beside, body).await;
    match received {
        Ok(bytes) => {
            fs::rename(&beside, path).await.map_err(|error| cannot_write(&error))?;
            Ok(bytes)
        }
        Err(problem) => {
            // Swept with its call if it cannot be removed now.
            let _left = fs::remove_file(&beside).await;
            Err(problem)
        }
    }
}

async fn write(path: &Path, body: Body) -> Result<u64, Problem> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut file = options.open(path).await.map_err(|error| cannot_write(&error))?;
    let mut pieces = body.into_data_stream();
    let mut bytes = 0;
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| {
            Problem::new(Kind::Invalid, format!("the file broke off: {error}"), "send it again")
        })?;
        bytes += piece.len() as u64;
        // The rest is read and thrown away, so that the sender hears why instead of a broken
        // connection; not without end.
        if bytes > FILES_BYTES && bytes <= READ_ON {
            continue;
        }
        if bytes > FILES_BYTES {
            return Err(too_large());
        }
        file.write_all(&piece).await.map_err(|error| cannot_write(&error))?;
    }
    if bytes > FILES_BYTES {
        return Err(too_large());
    }
    file.flush().await.map_err(|error| cannot_write(&error))?;
    Ok(bytes)
}

fn too_large() -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the file has more than {FILES_BYTES} bytes"),
        "send a smaller one: all files of a call may have 25 MiB",
    )
}

/// The file as an answer.
pub(crate) async fn send(path: &Path) -> Result<Response, Problem> {
    let missing =
        || Problem::new(Kind::NoFile, "the call has no such file", "see `files` of its result");
    let file = match File::open(path).await {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(missing()),
        Err(error) => return Err(cannot_write(&error)),
    };
    let length = file.metadata().await.map_err(|error| cannot_write(&error))?.len();
    let mut response = Response::new(Body::from_stream(ReaderStream::new(file)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    Ok(response)
}
