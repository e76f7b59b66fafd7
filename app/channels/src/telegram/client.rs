//! Calls of the Bot API. Its address holds the token, so no error here tells an address.

use super::wire::{Answer, Parameters};
use bytes::Bytes;
use futures::StreamExt;
use reqwest::{RequestBuilder, StatusCode, multipart::Form, redirect};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, de::DeserializeOwned};
use std::time::Duration;
use url::Url;

/// What cannot be connected to within this time is not there.
const CONNECT: Duration = Duration::from_secs(10);
/// Until a method has answered; a long poll waits for longer by what it asks for.
const ANSWER: Duration = Duration::from_secs(30);
/// With a file that is sent: 50 MB, at half a megabyte a second.
const UPLOAD: Duration = Duration::from_mins(2);
/// Bytes of an answer: a poll stops near 4 MiB.
const LARGEST: usize = 16 * 1024 * 1024;
/// Without a time that is named, a busy server is left alone for so long.
const BUSY: Duration = Duration::from_secs(5);

/// Why a call had no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CallError {
    /// Nothing was done.
    #[error("it cannot be reached: {0}")]
    Unreached(&'static str),
    /// It was asked, and may have done it.
    #[error("it broke off before it answered: {0}")]
    Unanswered(&'static str),
    /// Nothing was done.
    #[error("it asks to be left alone for {} s", .after.as_secs())]
    Busy { after: Duration },
    #[error("it knows no bot with this token: {0}")]
    Unauthorized(String),
    /// Somebody else asks for the same updates, or has them sent.
    #[error("{0}")]
    Conflict(String),
    /// Nothing was done.
    #[error("it has a fault of its own: {0}")]
    Down(String),
    /// Nothing was done, and asking again will not help.
    #[error("it refuses: {description}")]
    Refused { code: u16, description: String, moved_to: Option<i64> },
}

/// Who asks the Bot API.
pub(super) struct Client {
    http: reqwest::Client,
    base: Url,
    token: SecretString,
}

impl Client {
    pub(super) fn new(base: Url, token: SecretString) -> Result<Self, reqwest::Error> {
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::none())
            .user_agent(concat!("famulus/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Self { http, base, token })
    }

    /// Asks a method, and waits for its answer for so long beyond what every method takes.
    pub(super) async fn call<T: DeserializeOwned>(
        &self,
        method: &str,
        parameters: &(impl Serialize + Sync),
        beyond: Duration,
    ) -> Result<T, CallError> {
        let request = self.http.post(self.address("", method)).json(parameters);
        answer(request.timeout(ANSWER + beyond)).await
    }

    /// Asks a method with a file.
    pub(super) async fn upload<T: DeserializeOwned>(
        &self,
        method: &str,
        form: Form,
    ) -> Result<T, CallError> {
        let request = self.http.post(self.address("", method)).multipart(form);
        answer(request.timeout(UPLOAD)).await
    }

    /// A file at its path, whose pieces come as they are read.
    pub(super) async fn download(
        &self,
        path: &str,
    ) -> Result<impl futures::Stream<Item = std::io::Result<Bytes>> + Send + 'static, CallError>
    {
        let address = self.file(path).ok_or_else(|| CallError::Refused {
            code: 400,
            description: "the path of the file leads elsewhere".to_owned(),
            moved_to: None,
        })?;
        let sent = self.http.get(address).timeout(UPLOAD).send().await;
        let response = sent.map_err(|error| unanswered(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(refused(status, String::new(), Parameters::default()));
        }
        Ok(response.bytes_stream().map(|piece| {
            piece.map_err(|error| std::io::Error::other(error.without_url().to_string()))
        }))
    }

    /// `base/bot<token>/method`, or `base/file/bot<token>/path`.
    fn address(&self, before: &str, after: &str) -> Url {
        let mut address = self.base.clone();
        let bot = format!("bot{}", self.token.expose_secret());
        // A base that cannot hold a path was refused when it was read.
        if let Ok(mut segments) = address.path_segments_mut() {
            segments.pop_if_empty();
            segments.extend([before].into_iter().filter(|part| !part.is_empty()));
            segments.push(&bot).extend(after.split('/'));
        }
        address
    }

    /// The address of a file, where that lies below the one of all files.
    fn file(&self, path: &str) -> Option<Url> {
        let odd =
            |part: &str| part.is_empty() || part == "." || part == ".." || part.contains('\\');
        let path = path.trim_start_matches('/');
        (!path.split('/').any(odd)).then(|| self.address("file", path))
    }
}

async fn answer<T: DeserializeOwned>(request: RequestBuilder) -> Result<T, CallError> {
    let response = request.send().await.map_err(|error| unanswered(&error))?;
    let status = response.status();
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.map_err(|error| unanswered(&error))?);
        if bytes.len() > LARGEST {
            return Err(CallError::Unanswered("its answer has no end"));
        }
    }
    match serde_json::from_slice::<Answer<T>>(&bytes) {
        Ok(Answer { ok: true, result: Some(result), .. }) => Ok(result),
        Ok(Answer { ok: false, description, error_code, parameters, .. }) => {
            let status = StatusCode::from_u16(error_code).unwrap_or(status);
            Err(refused(status, description, parameters))
        }
        // What stands between may answer for it.
        _ if status.is_server_error() => Err(CallError::Unanswered("something between failed")),
        _ if !status.is_success() => Err(refused(status, String::new(), Parameters::default())),
        Ok(_) | Err(_) => Err(CallError::Unanswered("its answer cannot be read")),
    }
}

/// Without the address, which holds the token.
fn unanswered(error: &reqwest::Error) -> CallError {
    if error.is_connect() {
        CallError::Unreached("no connection")
    } else if error.is_timeout() {
        CallError::Unanswered("no answer in time")
    } else {
        CallError::Unanswered("the connection broke")
    }
}

fn refused(status: StatusCode, description: String, parameters: Parameters) -> CallError {
    let description =
        if description.is_empty() { format!("it answers {status}") } else { description };
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            CallError::Busy { after: parameters.retry_after.map_or(BUSY, Duration::from_secs) }
        }
        StatusCode::UNAUTHORIZED => CallError::Unauthorized(description),
        // A malformed token is no path there; a method that an older server does not have is named.
        StatusCode::NOT_FOUND if description == "Not Found" => CallError::Unauthorized(description),
        StatusCode::CONFLICT => CallError::Conflict(description),
        other if other.is_server_error() => CallError::Down(description),
        other => CallError::Refused {
            code: other.as_u16(),
            description,
            moved_to: parameters.migrate_to_chat_id,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(base: &str) -> Client {
        Client::new(base.parse().unwrap(), "7:secret".to_owned().into()).unwrap()
    }

    #[test]
    fn addresses_stay_below_the_base() {
        let check = |base: &str, path: &str, expected: Option<&str>| {
            let found = client(base).file(path);
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{path}");
        };
        let base = "https://t.example";
        check(base, "photos/a.jpg", Some("https://t.example/file/bot7:secret/photos/a.jpg"));
        check("https://t.example/sub/", "a", Some("https://t.example/sub/file/bot7:secret/a"));
        check(base, "/var/lib/a", Some("https://t.example/file/bot7:secret/var/lib/a"));
        check(base, "a?b#c", Some("https://t.example/file/bot7:secret/a%3Fb%23c"));
        for path in ["../../x", "a/../b", "a//b", "a\\..\\b", "", "."] {
            check(base, path, None);
        }
        let method = client(base).address("", "getMe");
        assert_eq!(method.as_str(), "https://t.example/bot7:secret/getMe");
    }
}
