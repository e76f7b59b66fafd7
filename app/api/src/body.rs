//! Bodies and parameters: read with a limit and a pace, parsed with a place for every mistake.

use crate::{
    app::App,
    body_memory::{BodyMemory, Reservation, SMALL},
    min_rate::MinRate,
    problem::{Kind, Problem},
};
use axum::{
    extract::{FromRequest, FromRequestParts, Query, Request},
    http::{HeaderMap, header, request::Parts},
};
use bytes::{Bytes, BytesMut};
use famulus_core::person::Caller;
use futures::{Stream, StreamExt};
use hyper::body::Body as _;
use serde::de::DeserializeOwned;
use std::{io, str::FromStr, sync::Arc, time::Duration};

/// What is read and thrown away of a body that is too large, so that the client hears why instead of
/// a broken connection.
const DRAINED: usize = 64 * 1024 * 1024;
/// How long that may take.
const DRAIN_TIME: Duration = Duration::from_secs(10);
/// How long a body may take that is held whole, as a multiple of the patience that a single pause
/// meets: it takes memory that others need.
const PATIENCES: u32 = 4;

/// A JSON body, at most `api.json_bytes` long, and the room that it takes until its handler ends.
pub(crate) struct Json<T>(pub(crate) T, pub(crate) Reservation);

/// The bytes of a whole body, and the room that they take.
pub(crate) struct BufferedBody {
    pub(crate) bytes: Bytes,
    pub(crate) held: Reservation,
}

impl<T: DeserializeOwned> FromRequest<Arc<App>> for Json<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &Arc<App>) -> Result<Self, Problem> {
        let limit = app.api.config.json_bytes;
        let BufferedBody { bytes, held } = collect(request, limit, "api.json_bytes", app).await?;
        Ok(Self(parse(&bytes)?, held))
    }
}

/// The caller that the guard let through.
pub(crate) struct Authenticated(pub(crate) Arc<Caller>);

impl FromRequestParts<Arc<App>> for Authenticated {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        parts
            .extensions
            .get::<Arc<Caller>>()
            .cloned()
            .map(Self)
            .ok_or_else(crate::auth::unauthorized)
    }
}

/// The parameters behind `?`.
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<Arc<App>> for QueryParams<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Arc<App>) -> Result<Self, Problem> {
        match Query::try_from_uri(&parts.uri) {
            Ok(Query(asked)) => Ok(Self(asked)),
            Err(rejection) => Err(Problem::bad(
                rejection.body_text(),
                "correct the parameter, or leave it out; GET /openapi.json lists them",
            )),
        }
    }
}

/// Reads an id of a path.
pub(crate) fn id<T: FromStr>(what: &str, text: &str, list: &'static str) -> Result<T, Problem> {
    text.parse().map_err(|_| {
        let text: String = text.chars().take(80).collect();
        Problem::missing(&format!("{what} `{text}`"), list)
    })
}

/// Reads a whole body of at most `limit` bytes; `key` is the setting that raises the limit.
pub(crate) async fn collect(
    request: Request,
    limit: usize,
    key: &'static str,
    app: &App,
) -> Result<BufferedBody, Problem> {
    let length = request.body().size_hint().exact();
    let min_rate = app.api.config.min_rate();
    let mut stream = min_rate.pieces(request.into_body());
    let read = match length.map(usize::try_from) {
        Some(Ok(length)) if length <= limit => {
            read_known(&mut stream, length, min_rate, &app.memory).await
        }
        Some(Ok(_) | Err(_)) => Err(too_large(limit as u64, key)),
        None => read_unknown(&mut stream, limit, key, min_rate, &app.memory).await,
    };
    if read.as_ref().is_err_and(|problem| matches!(problem.kind, Kind::TooLarge | Kind::NoRoom)) {
        drain(stream).await;
    }
    read
}

/// Reads a body whose length was announced.
async fn read_known(
    stream: &mut (impl Stream<Item = io::Result<Bytes>> + Unpin),
    length: usize,
    min_rate: MinRate,
    memory: &BodyMemory,
) -> Result<BufferedBody, Problem> {
    let held = memory.take(length, min_rate.patience()).await?;
    let mut bytes = BytesMut::with_capacity(length);
    in_time(min_rate, async {
        while let Some(piece) = stream.next().await {
            bytes.extend_from_slice(&piece.map_err(|error| broken(&error))?);
        }
        Ok(())
    })
    .await?;
    Ok(BufferedBody { bytes: bytes.freeze(), held })
}

/// Reads a body whose end nobody knows: as a small one, until it is too large for that.
async fn read_unknown(
    stream: &mut (impl Stream<Item = io::Result<Bytes>> + Unpin),
    limit: usize,
    key: &'static str,
    min_rate: MinRate,
    memory: &BodyMemory,
) -> Result<BufferedBody, Problem> {
    let mut held = memory.take(SMALL.min(limit), min_rate.patience()).await?;
    let mut bytes = BytesMut::new();
    let mut end = SMALL.min(limit);
    loop {
        let over = in_time(min_rate, async {
            while let Some(piece) = stream.next().await {
                let piece = piece.map_err(|error| broken(&error))?;
                if bytes.len() + piece.len() > end {
                    return Ok(Some(piece));
                }
                bytes.extend_from_slice(&piece);
            }
            Ok(None)
        })
        .await?;
        let Some(piece) = over else { return Ok(BufferedBody { bytes: bytes.freeze(), held }) };
        if end == limit || bytes.len() + piece.len() > limit {
            return Err(too_large(limit as u64, key));
        }
        held = memory.take(limit, min_rate.patience()).await?;
        end = limit;
        bytes.reserve(limit - bytes.len());
        bytes.extend_from_slice(&piece);
    }
}

/// Reads until the time is over that a body may take which is held whole.
async fn in_time<T>(
    min_rate: MinRate,
    read: impl Future<Output = Result<T, Problem>>,
) -> Result<T, Problem> {
    let read = tokio::time::timeout(min_rate.patience() * PATIENCES, read).await;
    read.unwrap_or_else(|_| Err(Problem::too_slow()))
}

/// Reads on for a while without keeping anything.
pub(crate) async fn drain(mut rest: impl Stream<Item = io::Result<Bytes>> + Unpin) {
    let mut left = DRAINED;
    let drained = async {
        while let Some(Ok(piece)) = rest.next().await {
            match left.checked_sub(piece.len()) {
                Some(less) => left = less,
                None => return,
            }
        }
    };
    // A client that is slower than this sees a broken connection instead of the reason.
    let _late = tokio::time::timeout(DRAIN_TIME, drained).await;
}

/// Parses JSON; a mistake is named with its place.
pub(crate) fn parse<'a, T: serde::Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    // An empty body is an object without fields: most requests have no field that is needed.
    let bytes: &'a [u8] = if bytes.is_empty() { b"{}" } else { bytes };
    no_array(bytes)?;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let parsed = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path = error.path().to_string();
        let place = if path == "." { String::new() } else { format!("at `{path}`: ") };
        invalid(format!("{place}{}", error.into_inner()))
    })?;
    deserializer.end().map_err(|error| invalid(error.to_string()))?;
    Ok(parsed)
}

/// Refuses an array, which would otherwise be read as the fields of an object in their order.
fn no_array(bytes: &[u8]) -> Result<(), Problem> {
    let before = bytes.len() - bytes.trim_ascii_start().len();
    if bytes.get(before) != Some(&b'[') {
        return Ok(());
    }
    let lines = bytes[..before].split(|byte| *byte == b'\n');
    let (line, column) = lines.fold((0, 0), |(count, _), line| (count + 1, line.len() + 1));
    Err(invalid(format!(
        "the body is an array, but an object is expected, at line {line} column {column}"
    )))
}

fn invalid(detail: String) -> Problem {
    Problem::new(Kind::InvalidJson, detail, "correct the body; GET /openapi.json describes it")
}

pub(crate) fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(crate) fn too_large(limit: u64, key: &str) -> Problem {
    Problem::new(
        Kind::TooLarge,
        format!("the body is larger than {limit} bytes"),
        format!("send less at once, or raise `{key}` in the configuration"),
    )
}

fn broken(error: &io::Error) -> Problem {
    if error.kind() == io::ErrorKind::TimedOut {
        return Problem::too_slow();
    }
    Problem::bad("the body broke off before its end", "send the request again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields)]
    struct Outer {
        #[serde(default)]
        inner: Vec<Inner>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Inner {
        count: u32,
    }

    #[test]
    fn a_mistake_is_named_with_its_place() {
        let check = |body: &str, expected: &str| {
            let problem = parse::<Outer>(body.as_bytes()).unwrap_err();
            assert_eq!(problem.kind, Kind::InvalidJson);
            assert!(problem.detail.contains(expected), "{}", problem.detail);
        };
        check(r#"{"inner":[{"count":1},{"count":"x"}]}"#, "at `inner[1].count`");
        check(r#"{"inner":[}"#, "line 1 column 11");
        check(r#"{"other":1}"#, "unknown field `other`");
        check("{} {}", "trailing characters");
        check("\n [[{\"count\":1}]]", "an object is expected, at line 2 column 2");
        check(" ", "EOF while parsing a value at line 1 column 1");
        assert_eq!(parse::<Outer>(b"").unwrap(), Outer { inner: Vec::new() });
    }
}
