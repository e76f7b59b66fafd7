//! What can go wrong between the app and its database.

use famulus_core::StoreError;
use famulus_queue::QueueError;
use std::sync::Arc;

/// A read or write failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Postgres could not be reached or broke off; the same call may succeed later.
    #[error("the database did not {operation}; it may be restarting: try again")]
    Unavailable {
        operation: &'static str,
        #[source]
        source: sqlx::Error,
    },
    /// Postgres ran out of space: nothing was stored, and what was stored before is safe.
    #[error("the database's disk is full; free some space, nothing that was accepted is lost")]
    DiskFull(#[source] sqlx::Error),
    /// Postgres refused: repeating will not help.
    #[error("the database refused to {operation}")]
    Refused {
        operation: &'static str,
        #[source]
        source: sqlx::Error,
    },
    #[error("the lease of this turn has passed to another worker")]
    LeaseLost,
    /// A crash of Postgres forgot that the turn was taken up: it has to be taken up again.
    #[error("a crash of the database has undone the beginning of this turn; it begins again")]
    Forgotten,
    /// A stored value is not what this release writes.
    #[error("stored {what} cannot be read; was it written by a newer release?")]
    Unreadable {
        what: &'static str,
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    pub(crate) fn on(operation: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::classify(operation, source)
    }

    pub(crate) fn unreadable(what: &'static str) -> impl FnOnce(serde_json::Error) -> Self {
        move |source| Self::Unreadable { what, source }
    }

    fn classify(operation: &'static str, source: sqlx::Error) -> Self {
        let code = source
            .as_database_error()
            .and_then(sqlx::error::DatabaseError::code)
            .map(std::borrow::Cow::into_owned);
        match code.as_deref() {
            Some("53100") => Self::DiskFull(source),
            // Connection trouble, shutdown, too many connections, serialization, deadlock.
            Some(code)
                if code.starts_with("08")
                    || code.starts_with("57P")
                    || code.starts_with("40")
                    || code.starts_with("53") =>
            {
                Self::Unavailable { operation, source }
            }
            Some(_) => Self::Refused { operation, source },
            None => Self::Unavailable { operation, source },
        }
    }

    /// Whether Postgres gave the transaction up for another's sake (deadlock, serialization).
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Self::Unavailable { source, .. } => source
                .as_database_error()
                .and_then(sqlx::error::DatabaseError::code)
                .is_some_and(|code| code.starts_with("40")),
            Self::DiskFull(_)
            | Self::Refused { .. }
            | Self::LeaseLost
            | Self::Forgotten
            | Self::Unreadable { .. } => false,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { .. } | Self::DiskFull(_) | Self::Forgotten => true,
            Self::Refused { .. } | Self::LeaseLost | Self::Unreadable { .. } => false,
        }
    }
}

impl From<QueueError> for Error {
    fn from(error: QueueError) -> Self {
        match error {
            QueueError::LeaseLost => Self::LeaseLost,
            QueueError::Forgotten => Self::Forgotten,
            QueueError::Database { operation, source } => Self::classify(operation, source),
        }
    }
}

impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        match error {
            Error::LeaseLost => Self::LeaseLost,
            Error::Unavailable { .. } | Error::DiskFull(_) | Error::Forgotten => {
                Self::Unavailable(Box::new(error))
            }
            Error::Refused { .. } | Error::Unreadable { .. } => Self::Refused(Box::new(error)),
        }
    }
}

/// An error that several callers share.
pub(crate) fn shared(error: Arc<Error>) -> StoreError {
    match Arc::try_unwrap(error) {
        Ok(error) => error.into(),
        Err(shared) if matches!(*shared, Error::LeaseLost) => StoreError::LeaseLost,
        Err(shared) if shared.is_passing() => StoreError::Unavailable(Box::new(shared)),
        Err(shared) => StoreError::Refused(Box::new(shared)),
    }
}

/// The store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("`{0}` is not a Postgres URL; write postgres://user@host:5432/database")]
    Url(String, #[source] sqlx::Error),
    #[error(
        "Postgres at {target} cannot be reached; is it running, and does `database.url` name it?"
    )]
    Unreachable {
        target: String,
        #[source]
        source: sqlx::Error,
    },
    #[error(
        "Postgres {found} at {target} is too old; upgrade it to 15 or newer, or name no database and let Famulus start its own"
    )]
    TooOld { found: String, target: String },
    #[error(
        "the vector extension is missing on this Postgres; install the package `pgvector` for it, then start again"
    )]
    NoVector(#[source] sqlx::Error),
    #[error(
        "the role `{role}` of this connection is a superuser or bypasses row-level security, and may not be given up: {reason}. Run as a superuser once: CREATE ROLE famulus_app NOLOGIN; GRANT famulus_app TO \"{role}\";"
    )]
    Role { role: String, reason: String },
    #[error(
        "migration {0} was applied to this database in another form than this release knows: another \
         build of Famulus made it; run that build, or restore a backup that a release made"
    )]
    Foreign(i64),
    #[error("the database's schema could not be brought up to date")]
    Migrate(#[source] sqlx::migrate::MigrateError),
    #[error("the database failed while it was being opened")]
    Database(#[source] sqlx::Error),
}
