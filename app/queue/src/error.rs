//! What can go wrong between a worker and its queue.

/// An operation of the queue failed.
#[derive(Debug, thiserror::Error)]
pub enum QueueError {
    /// The lane was leased to another worker: nothing that this one does counts any more.
    #[error("the lease has passed to another worker")]
    LeaseLost,
    /// The lease is held, but a crash of Postgres forgot that its work was taken up: the worker has
    /// to take it up again.
    #[error("a crash of the database has undone the beginning of this work; it begins again")]
    Forgotten,
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
