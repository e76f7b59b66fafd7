//! What went wrong, from a status, a body, or an error object in the stream.

use famulus_core::Clock as _;
use famulus_core::clock::SystemClock;
use famulus_core::model::ModelError;
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{DATE, HeaderMap, RETRY_AFTER};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use std::time::Duration;

/// Bytes of an error body that are read; the message stands at its beginning.
const BODY_CAP: usize = 64 * 1024;
/// How long an error body may take: the status alone is enough.
const BODY_TIME: Duration = Duration::from_secs(5);
/// Characters of a provider's message that are passed on.
const MESSAGE_CAP: usize = 500;
/// The longest pause that a provider may ask for.
const LONGEST_PAUSE: Duration = Duration::from_hours(24);

/// Reads the error out of a response that is not a success.
pub(crate) async fn of_response(
    mut response: reqwest::Response,
    key: Option<&SecretString>,
) -> ModelError {
    let status = response.status().as_u16();
    let after = retry_after(response.headers());
    let mut body = Vec::new();
    // A body that does not come, or breaks off, leaves the status to speak.
    let _late = tokio::time::timeout(BODY_TIME, async {
        while let Ok(Some(piece)) = response.chunk().await {
            let room = BODY_CAP - body.len();
            body.extend_from_slice(&piece[..piece.len().min(room)]);
            if body.len() == BODY_CAP {
                break;
            }
        }
    })
    .await;
    let text = String::from_utf8_lossy(&body);
    let value = serde_json::from_str::<Value>(&text).unwrap_or(Value::Null);
    let message = match message_of(&value) {
        Some(message) => message.to_owned(),
        None => text.into_owned(),
    };
    of_status(status, code_of(&value), &presentable(&message, key), after)
}

/// An `error` object in the middle of a stream, or in a body that claimed success.
pub(crate) fn of_error_object(error: &Value) -> ModelError {
    let code = error.get("code").or_else(|| error.get("status"));
    let number = code.and_then(|code| {
        code.as_u64().or_else(|| code.as_str().and_then(|text| text.parse().ok()))
    });
    let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
    let kind = code_of(error).unwrap_or_default();
    let status = status.unwrap_or_else(|| {
        if kind.contains("rate_limit") {
            429
        } else if kind.contains("overloaded") {
            529
        } else if kind.contains("invalid_request") || kind.contains("context_length") {
            400
        } else if kind.contains("authentication") || kind.contains("invalid_api_key") {
            401
        } else {
            500
        }
    });
    let whole = error.to_string();
    let message = presentable(message_of(error).unwrap_or(&whole), None);
    of_status(status, Some(kind), &message, None)
}

fn of_status(
    status: u16,
    code: Option<&str>,
    message: &str,
    after: Option<Duration>,
) -> ModelError {
    let message = if message.is_empty() { "it gave no reason" } else { message }.to_owned();
    match status {
        401 | 403 => ModelError::Unauthorized { status },
        // Waiting does not fill an empty account.
        429 if code.is_some_and(|code| code.contains("insufficient_quota")) => {
            ModelError::Rejected { status, message }
        }
        429 | 503 | 529 => ModelError::Busy { status, after },
        300..400 => ModelError::Rejected {
            status,
            message: "it redirects elsewhere; set `model.base_url` to the address itself"
                .to_owned(),
        },
        // Time-outs and conflicts on the provider's side pass.
        408 | 409 | 425 => ModelError::Failed { status, message },
        400..500 => ModelError::Rejected { status, message },
        _ => ModelError::Failed { status, message },
    }
}

/// The message within the shapes that providers use.
fn message_of(value: &Value) -> Option<&str> {
    let inner = value.get("error").unwrap_or(value);
    [Some(inner), inner.get("message"), value.get("message"), value.get("detail")]
        .into_iter()
        .flatten()
        .find_map(Value::as_str)
}

fn code_of(value: &Value) -> Option<&str> {
    let inner = value.get("error").unwrap_or(value);
    [inner.get("code"), inner.get("type")].into_iter().flatten().find_map(Value::as_str)
}

/// One line, no longer than a person reads, without the key: providers quote it.
fn presentable(message: &str, key: Option<&SecretString>) -> String {
    let hidden = match key.map(SecretString::expose_secret) {
        Some(key) if !key.is_empty() => message.replace(key, "[key]"),
        Some(_) | None => message.to_owned(),
    };
    let words: Vec<&str> = hidden
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter(|w| !w.is_empty())
        .collect();
    let line = words.join(" ");
    match line.char_indices().nth(MESSAGE_CAP) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// Seconds, or a date; a date is measured against the server's own clock where it tells it.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let pause = if let Ok(seconds) = text.parse::<f64>() {
        Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST_PAUSE)
    } else {
        let until = date(text)?;
        let date_header = headers.get(DATE).and_then(|value| value.to_str().ok());
        let now = date_header.and_then(date).unwrap_or_else(|| SystemClock.now());
        // A date in the past asks for no pause.
        Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO)
    };
    Some(pause.min(LONGEST_PAUSE))
}

/// A wrong weekday takes nothing from a date.
fn date(text: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;
    use serde_json::json;

    fn show(error: &ModelError) -> String {
        format!("{error:?}")
    }

    #[test]
    fn a_status_becomes_what_it_means() {
        let check = |status: u16, code: Option<&str>, expected: &str| {
            let after = Some(Duration::from_secs(3));
            assert_eq!(show(&of_status(status, code, "why", after)), expected);
        };
        check(401, None, "Unauthorized { status: 401 }");
        check(403, None, "Unauthorized { status: 403 }");
        for status in [400, 402, 404, 413, 422] {
            let expected = format!("Rejected {{ status: {status}, message: \"why\" }}");
            check(status, None, &expected);
        }
        for status in [429, 503, 529] {
            check(status, None, &format!("Busy {{ status: {status}, after: Some(3s) }}"));
        }
        check(429, Some("insufficient_quota"), "Rejected { status: 429, message: \"why\" }");
        for status in [408, 409, 500, 502, 504, 520] {
            check(status, None, &format!("Failed {{ status: {status}, message: \"why\" }}"));
        }
        assert!(show(&of_status(302, None, "", None)).contains("model.base_url"));
        assert!(show(&of_status(500, None, "", None)).contains("no reason"));
    }

    #[test]
    fn an_error_object_becomes_what_it_means() {
        let check = |value: Value, expected: &str| {
            assert_eq!(show(&of_error_object(&value)), expected, "{value}");
        };
        check(json!({"message": "a", "code": 502}), "Failed { status: 502, message: \"a\" }");
        check(json!({"message": "a", "code": "429"}), "Busy { status: 429, after: None }");
        check(
            json!({"message": "a", "type": "rate_limit_exceeded"}),
            "Busy { status: 429, after: None }",
        );
        check(json!({"type": "overloaded_error"}), "Busy { status: 529, after: None }");
        check(
            json!({"message": "too long", "code": "context_length_exceeded"}),
            "Rejected { status: 400, message: \"too long\" }",
        );
        check(json!("boom"), "Failed { status: 500, message: \"boom\" }");
        check(json!({"x": 1}), "Failed { status: 500, message: \"{\\\"x\\\":1}\" }");
    }

    #[test]
    fn a_message_is_found_cut_and_cleaned() {
        let check = |value: Value, expected: Option<&str>| assert_eq!(message_of(&value), expected);
        check(json!({"error": {"message": "a"}}), Some("a"));
        check(json!({"error": "a"}), Some("a"));
        check(json!({"message": "a"}), Some("a"));
        check(json!({"detail": "a"}), Some("a"));
        check(json!({"detail": [1]}), None);
        let key = SecretString::from("sk-1");
        assert_eq!(presentable("bad key\nsk-1\u{7}!", Some(&key)), "bad key [key] !");
        assert_eq!(presentable(&"ä".repeat(900), None), format!("{}…", "ä".repeat(500)));
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let check = |value: &str, date: Option<&str>, expected: Option<u64>| {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_str(value).unwrap());
            if let Some(date) = date {
                headers.insert(DATE, HeaderValue::from_str(date).unwrap());
            }
            assert_eq!(retry_after(&headers), expected.map(Duration::from_secs), "{value}");
        };
        let day = 24 * 60 * 60;
        check("7", None, Some(7));
        check("0", None, Some(0));
        check("-1", None, Some(0));
        check("1e300", None, Some(day));
        check("NaN", None, Some(0));
        check("soon", None, None);
        let now = Some("Sat, 21 Nov 2026 10:00:00 GMT");
        check("Sat, 21 Nov 2026 10:00:30 GMT", now, Some(30));
        check("Sat, 21 Nov 2026 09:00:00 GMT", now, Some(0));
        check("Sat, 21 Nov 2027 09:00:00 GMT", now, Some(day));
        check("Sat, 21 Nov 2009 09:00:00 GMT", None, Some(0));
        assert_eq!(retry_after(&HeaderMap::new()), None);
    }
}
