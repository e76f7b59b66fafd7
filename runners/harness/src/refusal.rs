//! A refusal as an answer.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use famulus_protocol::{Kind, Problem};

/// Seconds after which trying again makes sense.
const PASSING_SECONDS: u32 = 1;

/// What a handler refuses with.
#[derive(Debug)]
pub(crate) struct Refusal(pub(crate) Problem);

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Self(problem)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let Self(problem) = self;
        let status = StatusCode::from_u16(problem.kind.status())
            .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        // A struct of texts always serialises.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if problem.kind.is_passing() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(PASSING_SECONDS));
        }
        if problem.kind == Kind::Unauthorized {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
