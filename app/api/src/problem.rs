//! Refusals: RFC 9457 problem documents whose `type` is stable and whose `remedy` says what to do.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use famulus_errors::chain;
use schemars::JsonSchema;
use serde::Serialize;
use std::borrow::Cow;

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
    /// Of a plugin: it cannot be done, or was tried and did not succeed.
    Plugin,
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
            Self::Plugin => {
                (StatusCode::UNPROCESSABLE_ENTITY, "plugin", "Nothing was done with the plugin")
            }
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
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
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
            Plugin,
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
