//! What a port of the store fails with, whatever it keeps.

/// A port of the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Postgres could not be reached or broke off: the same call may succeed later.
    #[error("the database did not answer")]
    Unavailable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The lease is somebody else's: whatever this worker does no longer counts.
    #[error("the lease of this turn has passed to another worker")]
    LeaseLost,
    /// The store refused: repeating will not help.
    #[error("the store refused the write")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
}
