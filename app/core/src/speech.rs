//! The speech ports: what was said into a phone becomes text, and text becomes what is heard.
//!
//! Provider wire formats stay behind the ports. They never retry: who asks decides, by the error's
//! [`Disposition`].

use crate::blob::{BlobError, BlobRef, Blobs};
use crate::ids::PersonId;
use crate::message::FilePart;
use crate::model::{Disposition, Usage};
use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::BoxStream;
use std::time::Duration;

/// Turns recordings into text.
#[async_trait]
pub trait Transcriber: Send + Sync + 'static {
    /// Why it would not take this recording, for people; nothing is asked for that.
    fn refusal(&self, recording: &BlobRef) -> Option<String>;

    /// Listens to a file of this person.
    async fn transcribe(
        &self,
        recording: &FilePart,
        person: PersonId,
        blobs: &dyn Blobs,
    ) -> Result<Transcript, SpeechError>;
}

/// What was understood of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript {
    pub text: String,
    pub usage: Usage,
    /// Seconds of sound, rounded up, where the provider counts by them.
    pub seconds: Option<u64>,
}

/// Says text aloud.
#[async_trait]
pub trait Speaker: Send + Sync + 'static {
    /// Characters that are said at once.
    fn most(&self) -> usize;

    /// The recording as it comes.
    async fn say(&self, text: &str) -> Result<Spoken, SpeechError>;
}

/// A recording on its way.
pub struct Spoken {
    pub mime: String,
    /// What its name ends with, without the dot.
    pub extension: &'static str,
    pub bytes: BoxStream<'static, std::io::Result<Bytes>>,
}

/// `section` is the one of the configuration that names the provider.
#[derive(Debug, thiserror::Error)]
pub enum SpeechError {
    #[error("{url} could not be reached; check `{section}.base_url` and the network")]
    Unreachable {
        section: &'static str,
        url: String,
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the provider of `{section}` asks to slow down (status {status})")]
    Busy { section: &'static str, status: u16, after: Option<Duration> },
    #[error("the provider of `{section}` failed (status {status}): {message}")]
    Failed { section: &'static str, status: u16, message: String },
    #[error(
        "the provider of `{section}` refused the credentials (status {status}); check `{section}.api_key`"
    )]
    Unauthorized { section: &'static str, status: u16 },
    #[error("the provider of `{section}` refused the request (status {status}): {message}")]
    Rejected { section: &'static str, status: u16, message: String },
    #[error("the answer of the provider of `{section}` broke off before its end")]
    Cut { section: &'static str },
    #[error(
        "the provider of `{section}` took longer than {seconds} s; `{section}.seconds` is how long it may"
    )]
    Late { section: &'static str, seconds: u64 },
    #[error("the provider of `{section}` sent something that is not its protocol: {what}")]
    Malformed { section: &'static str, what: String },
    #[error(transparent)]
    File(#[from] BlobError),
}

impl SpeechError {
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Busy { after, .. } => Disposition::Retry { after: *after },
            Self::Unreachable { .. }
            | Self::Failed { .. }
            | Self::Cut { .. }
            | Self::Late { .. }
            | Self::Malformed { .. }
            | Self::File(BlobError::Store(_)) => Disposition::Retry { after: None },
            Self::Unauthorized { .. }
            | Self::Rejected { .. }
            | Self::File(
                BlobError::TooLarge { .. } | BlobError::Cut(_) | BlobError::Missing { .. },
            ) => Disposition::TellUser,
        }
    }
}
