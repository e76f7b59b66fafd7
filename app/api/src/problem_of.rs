//! The errors of other crates, as what a client is told of them.

use crate::{
    handlers::{approvals::not_theirs, conversations::missing},
    problem::{Kind, Problem},
};
use famulus_core::{
    StoreError,
    accept::AcceptError,
    blob::BlobError,
    schedule::{RuleError, ScheduleError},
};
use famulus_reception::ReceiveError;
use famulus_store::{Error, PersonError};
use std::{error::Error as _, sync::Arc};

/// Seconds after which a passing failure may be over.
const PASSING_SECONDS: u32 = 2;

impl From<&Error> for Problem {
    fn from(error: &Error) -> Self {
        match error {
            Error::Unavailable { .. } => {
                tracing::warn!(
                    error = %error,
                    cause = error.source().map(tracing::field::display),
                    "the database did not answer a request"
                );
                Self::new(
                    Kind::Unavailable,
                    error.to_string(),
                    "send the same request again; with an Idempotency-Key nothing happens twice",
                )
                .after(PASSING_SECONDS)
            }
            Error::DiskFull(_) => {
                tracing::warn!(
                    error = %error,
                    cause = error.source().map(tracing::field::display),
                    "a request was refused: the disk is full"
                );
                Self::new(
                    Kind::DiskFull,
                    error.to_string(),
                    "free some space on the database's disk, then send the request again",
                )
                .after(60)
            }
            Error::Refused { .. }
            | Error::LeaseLost
            | Error::Forgotten
            | Error::Unreadable { .. } => Self::internal(error),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl From<AcceptError> for Problem {
    fn from(error: AcceptError) -> Self {
        match error {
            AcceptError::KeyReused { .. } => Self::new(
                Kind::KeyReused,
                error.to_string(),
                "use a new Idempotency-Key for another message, or send the same body again",
            ),
            AcceptError::NoConversation { .. } => Self::new(
                Kind::NotFound,
                error.to_string(),
                "leave the conversation out to reach the main one, or see GET /v1/conversations",
            ),
            AcceptError::NoAttachment { .. } => Self::new(
                Kind::NotFound,
                error.to_string(),
                "upload the file with POST /v1/blobs and name the id that comes back",
            ),
            AcceptError::Store(error) => Self::from(error),
        }
    }
}

/// What the store said, which several callers may share.
fn error_of_the_store<'a>(source: &'a (dyn std::error::Error + 'static)) -> Option<&'a Error> {
    source.downcast_ref::<Arc<Error>>().map(Arc::as_ref).or_else(|| source.downcast_ref())
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(source) => match error_of_the_store(source.as_ref()) {
                Some(error) => Self::from(error),
                None => Self::new(
                    Kind::Unavailable,
                    "the database did not answer",
                    "send the same request again",
                )
                .after(PASSING_SECONDS),
            },
            StoreError::LeaseLost | StoreError::Refused(_) => Self::internal(&error),
        }
    }
}

impl From<ReceiveError> for Problem {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::NoConversation { .. } => missing(),
            ReceiveError::NoFile { id } => {
                Self::missing(&format!("attachment {id}"), "the answer of POST /v1/blobs")
            }
            ReceiveError::File { source, .. } => Self::from(source),
            ReceiveError::NotTheirs(approval) => not_theirs(&approval),
            ReceiveError::Accept(error) => Self::from(error),
            ReceiveError::Store(error) => Self::from(error),
        }
    }
}

impl From<ScheduleError> for Problem {
    fn from(error: ScheduleError) -> Self {
        match error {
            // What was possible when it was written may have passed by now.
            ScheduleError::Rule(rule @ RuleError::Past { .. }) => {
                Self::new(Kind::Conflict, rule.to_string(), "name a later time")
            }
            ScheduleError::Rule(rule) => {
                Self::bad(rule.to_string(), "correct the rule or the time zone and send it again")
            }
            ScheduleError::Store(error) => Self::from(error),
        }
    }
}

impl From<PersonError> for Problem {
    fn from(error: PersonError) -> Self {
        match error {
            PersonError::Zone(rule) => {
                Self::bad(rule.to_string(), "send an IANA name such as `Europe/Berlin`")
            }
            PersonError::Store(error) => Self::from(error),
        }
    }
}

impl From<BlobError> for Problem {
    fn from(error: BlobError) -> Self {
        match error {
            BlobError::TooLarge { limit } => Self::new(
                Kind::TooLarge,
                format!("the file is larger than {limit} bytes"),
                "send a smaller file, or raise `api.upload_bytes` or `api.blob_bytes`",
            ),
            BlobError::Cut(source) if source.kind() == std::io::ErrorKind::TimedOut => {
                Self::too_slow()
            }
            BlobError::Cut(_) => {
                Self::bad("the file ended before its end", "send it again; nothing was kept of it")
            }
            BlobError::Missing { .. } => Self::new(
                Kind::NotFound,
                error.to_string(),
                "upload the file with POST /v1/blobs and use the id that comes back",
            ),
            BlobError::Store(source) => match source.downcast_ref::<Error>() {
                Some(error) => Self::from(error),
                None => Self::new(
                    Kind::Unavailable,
                    "the file store did not answer",
                    "send the same request again",
                )
                .after(PASSING_SECONDS),
            },
        }
    }
}
