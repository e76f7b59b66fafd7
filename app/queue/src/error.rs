//! What can go wrong between a worker and its queue.

/// An operation of the queue failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The lane was leased to another worker: nothing that this one does counts any more.
    #[error("the lease has passed to another worker")]
    LeaseLost,
    /// Postgres did not do it; the same operation may succeed later.
    #[error("the database did not {operation}")]
    Database {
        operation: &'static str,
        #[source]
        source: sqlx::Error,
    },
}

impl QueueError {
    pub(crate) fn database(operation: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database { operation, source }
    }
}
