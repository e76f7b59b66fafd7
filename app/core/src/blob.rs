//! Stored files. A part holds a [`BlobRef`]; the bytes stand behind the [`Blobs`] port.

use crate::ids::{BlobId, PersonId};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of one stored piece, and so the most that streaming holds of a file at once.
pub const PIECE: usize = 256 * 1024;

/// A stored file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlobRef {
    pub id: BlobId,
    /// Lower-case hex of the content's SHA-256.
    pub sha256: String,
    /// Media type as the sender declared it, or `application/octet-stream`.
    pub mime: String,
    /// Bytes.
    pub size: u64,
}

/// Where files are kept.
#[async_trait]
pub trait Blobs: Send + Sync + 'static {
    /// Stores a file as it streams in, at most `limit` bytes.
    ///
    /// # Errors
    /// [`BlobError::TooLarge`] beyond the limit, [`BlobError::Cut`] when the source breaks off;
    /// in both cases nothing stays behind.
    async fn put(
        &self,
        person: PersonId,
        mime: &str,
        limit: u64,
        bytes: BoxStream<'_, std::io::Result<Bytes>>,
    ) -> Result<BlobRef, BlobError>;

    /// Streams a file of this person.
    async fn get(
        &self,
        person: PersonId,
        id: BlobId,
    ) -> Result<(BlobRef, BoxStream<'static, Result<Bytes, BlobError>>), BlobError>;
}

#[derive(Debug, thiserror::Error)]
pub enum BlobError {
    #[error(
        "the file is larger than {limit} bytes; send a smaller one or raise `api.upload_bytes`"
    )]
    TooLarge { limit: u64 },
    #[error("the upload ended before its end; send it again")]
    Cut(#[source] std::io::Error),
    #[error("file {id} is not stored, or belongs to somebody else")]
    Missing { id: BlobId },
    #[error("the file store did not answer")]
    Store(#[source] Box<dyn std::error::Error + Send + Sync>),
}
