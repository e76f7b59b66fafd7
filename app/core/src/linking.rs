//! Making a program that speaks on a platform a device of an account: somebody scans a link with a
//! device that is one already.

use async_trait::async_trait;

/// Links an account of ours to the program of a channel.
#[async_trait]
pub trait Linker: Send + Sync + 'static {
    /// A link to be scanned, good for one use and a minute or two.
    async fn begin(&self) -> Result<String, LinkError>;

    /// Waits until the link was scanned: the account, as people know it. It is called right after
    /// [`Self::begin`], and once.
    async fn finish(&self, link: &str) -> Result<String, LinkError>;
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The program does not answer.
    #[error("{0}")]
    Away(String),
    #[error("nobody scanned the link in time")]
    Late,
    /// The program refuses, and why.
    #[error("{0}")]
    Refused(String),
}
