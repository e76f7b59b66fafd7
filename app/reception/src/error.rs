//! Why something was not received. Each door words it for who stands before it.

use famulus_core::{
    StoreError,
    accept::AcceptError,
    approval::Approval,
    blob::BlobError,
    ids::{BlobId, ConversationId},
};

/// Nothing of it was kept, but files that came before the one that failed.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error("conversation {id} does not exist, or belongs to somebody else")]
    NoConversation { id: ConversationId },
    #[error("attachment {id} is not stored, or belongs to somebody else")]
    NoFile { id: BlobId },
    /// A file that came with the message.
    #[error("the file `{name}` could not be stored")]
    File { name: String, source: BlobError },
    /// The question is another's to answer.
    #[error("the question is not put to who answered it")]
    NotTheirs(Box<Approval>),
    #[error(transparent)]
    Accept(#[from] AcceptError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ReceiveError {
    /// Whether the same may be received later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Store(error) | Self::Accept(AcceptError::Store(error)) => {
                matches!(error, StoreError::Unavailable(_))
            }
            Self::File { source: BlobError::Store(_) | BlobError::Cut(_), .. } => true,
            Self::NoConversation { .. }
            | Self::NoFile { .. }
            | Self::File { .. }
            | Self::NotTheirs(_)
            | Self::Accept(_) => false,
        }
    }
}
