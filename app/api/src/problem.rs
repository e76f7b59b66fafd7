//! Refusals: RFC 9457 problem documents whose `type` is stable and whose `remedy` says what to do.

use crate::handlers::{approvals::not_theirs, conversations::missing};
use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use famulus_core::{
    StoreError,
    accept::AcceptError,
    blob::BlobError,
    schedule::{RuleError, ScheduleError},
};
use famulus_errors::chain;
use famulus_reception::ReceiveError;
use famulus_store::{Error, PersonError};
use schemars::JsonSchema;
use serde::Serialize;
use std::{borrow::Cow, error::Error as _, sync::Arc};

/// Seconds after which a passing failure may be over.
const PASSING_SECONDS: u32 = 2;

/// What went wrong, by name. The name is the problem's `type`, and stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    BadRequest,
    InvalidJson,
    CredentialsInUrl,
    Unauthorized,
    OwnerOnly,
    NotAsked,
    CrossOrigin,
    NotFound,
    NoRoute,
    Method,
    Conflict,
    WrongCall,
    Gone,
    Unprocessable,
    SandboxAway,
    KeyReused,
    TooLarge,
    TooSlow,
    TooManyFailures,
    TooManyRequests,
    TooManyViewers,
    NoRoom,
    Unavailable,
    DiskFull,
    Internal,
}

impl Kind {
    /// Status, slug and title.
    fn facts(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            Self::BadRequest => {
                (StatusCode::BAD_REQUEST, "bad-request", "The request is not valid")
            }
            Self::InvalidJson => {
                (StatusCode::BAD_REQUEST, "invalid-json", "The body is not the JSON that is needed")
            }
            Self::CredentialsInUrl => (
                StatusCode::BAD_REQUEST,
                "credentials-in-url",
                "Credentials do not belong in a URL",
            ),
            Self::Unauthorized => {
                (StatusCode::UNAUTHORIZED, "unauthorized", "A valid token is needed")
            }
            Self::OwnerOnly => (StatusCode::FORBIDDEN, "owner-only", "Only the owner may do this"),
            Self::NotAsked => (StatusCode::FORBIDDEN, "not-asked", "Somebody else is asked"),
            Self::CrossOrigin => {
                (StatusCode::FORBIDDEN, "cross-origin", "Another site may not do this")
            }
            Self::NotFound => (StatusCode::NOT_FOUND, "not-found", "It is not here"),
            Self::NoRoute => (StatusCode::NOT_FOUND, "no-such-route", "There is no such path"),
            Self::Method => (
                StatusCode::METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "The path has no such method",
            ),
            Self::Conflict => (StatusCode::CONFLICT, "conflict", "It is not as it was expected"),
            Self::WrongCall => {
                (StatusCode::FORBIDDEN, "wrong-call", "The call is not the caller's")
            }
            Self::Gone => (StatusCode::GONE, "gone", "It is not wanted any more"),
            Self::Unprocessable => (
                StatusCode::UNPROCESSABLE_ENTITY,
                "unprocessable",
                "The content is not what it says",
            ),
            Self::SandboxAway => {
                (StatusCode::SERVICE_UNAVAILABLE, "sandbox-away", "The sandbox does not answer")
            }
            Self::KeyReused => {
                (StatusCode::CONFLICT, "key-reused", "The key was used for another message")
            }
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large", "The body is too large"),
            Self::TooSlow => (StatusCode::REQUEST_TIMEOUT, "too-slow", "The body came too slowly"),
            Self::TooManyFailures => {
                (StatusCode::TOO_MANY_REQUESTS, "too-many-failures", "Too many wrong credentials")
            }
            Self::TooManyRequests => {
                (StatusCode::TOO_MANY_REQUESTS, "too-many-requests", "Too many requests")
            }
            Self::TooManyViewers => {
                (StatusCode::SERVICE_UNAVAILABLE, "too-many-viewers", "Too many event streams")
            }
            Self::NoRoom => (StatusCode::SERVICE_UNAVAILABLE, "no-room", "Too many bodies at once"),
            Self::Unavailable => {
                (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "The database does not answer")
            }
            Self::DiskFull => (StatusCode::INSUFFICIENT_STORAGE, "disk-full", "The disk is full"),
            Self::Internal => {
                (StatusCode::INTERNAL_SERVER_ERROR, "internal", "Something is wrong here")
            }
        }
    }

    pub fn status(self) -> StatusCode {
        self.facts().0
    }
}

/// A refusal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub kind: Kind,
    /// What is the matter with this very request.
    pub detail: Cow<'static, str>,
    /// What to do.
    pub remedy: Cow<'static, str>,
    /// Seconds after which trying again makes sense.
    pub retry_after: Option<u32>,
    /// Methods that the path has, for [`Kind::Method`].
    pub allow: Option<String>,
}

/// The body of a refusal, as it is sent.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct Document<'a> {
    /// A stable name: `/problems/` and a word.
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    /// What to do about it.
    remedy: &'a str,
}

impl Problem {
    pub fn new(
        kind: Kind,
        detail: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { kind, detail: detail.into(), remedy: remedy.into(), retry_after: None, allow: None }
    }

    pub(crate) fn bad(
        detail: impl Into<Cow<'static, str>>,
        remedy: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self::new(Kind::BadRequest, detail, remedy)
    }

    pub(crate) fn missing(what: &str, list: &'static str) -> Self {
        Self::new(
            Kind::NotFound,
            format!("{what} does not exist, or belongs to somebody else"),
            format!("see {list} for what there is"),
        )
    }

    pub(crate) fn too_slow() -> Self {
        Self::new(
            Kind::TooSlow,
            "the body came too slowly",
            "send it again over a better connection, and large files with POST /v1/blobs; or raise \
             `api.request_timeout_seconds`, or lower `api.body_bytes_per_second`",
        )
    }

    pub(crate) fn after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// An error whose message names the cause, and for which trying again does not help.
    fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = chain(error), "a request failed");
        Self::new(
            Kind::Internal,
            error.to_string(),
            "see the log of the server; the request had no effect unless it is shown elsewhere",
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (status, slug, title) = self.kind.facts();
        let document = Document {
            r#type: format!("/problems/{slug}"),
            title,
            status: status.as_u16(),
            detail: &self.detail,
            remedy: &self.remedy,
        };
        // A struct of texts and a number always serialises.
        let body = serde_json::to_vec(&document).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.kind == Kind::Unauthorized {
            headers.insert(
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Basic realm=\"famulus\""),
            );
        }
        if let Some(allow) = self.allow.and_then(|allow| HeaderValue::try_from(allow).ok()) {
            headers.insert(header::ALLOW, allow);
        }
        response
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_type_and_what_to_do() {
        let problem = Problem::new(Kind::TooManyFailures, "ten wrong tokens", "wait").after(42);
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
        assert_eq!(response.headers()[header::RETRY_AFTER], "42");
        assert_eq!(response.headers()[header::CONTENT_TYPE], "application/problem+json");
        assert!(!response.headers().contains_key(header::WWW_AUTHENTICATE));
        let document = Document {
            r#type: "/problems/x".into(),
            title: "t",
            status: 400,
            detail: "d",
            remedy: "r",
        };
        assert_eq!(
            serde_json::to_string(&document).unwrap(),
            r#"{"type":"/problems/x","title":"t","status":400,"detail":"d","remedy":"r"}"#
        );
    }

    #[test]
    fn an_unauthorized_answer_asks_for_credentials() {
        let response = Problem::new(Kind::Unauthorized, "d", "r").into_response();
        assert_eq!(response.headers()[header::WWW_AUTHENTICATE], "Basic realm=\"famulus\"");
    }

    #[test]
    fn slugs_are_unique() {
        use Kind::*;
        let all = [
            BadRequest,
            InvalidJson,
            CredentialsInUrl,
            Unauthorized,
            OwnerOnly,
            NotAsked,
            CrossOrigin,
            NotFound,
            NoRoute,
            Method,
            Conflict,
            WrongCall,
            Gone,
            Unprocessable,
            SandboxAway,
            KeyReused,
            TooLarge,
            TooSlow,
            TooManyFailures,
            TooManyRequests,
            TooManyViewers,
            NoRoom,
            Unavailable,
            DiskFull,
            Internal,
        ];
        let slugs: std::collections::BTreeSet<_> = all.iter().map(|kind| kind.facts().1).collect();
        assert_eq!(slugs.len(), all.len());
    }
}
