//! Bad days, one for each call that meets one.

use serde_json::{Value, json};
use std::time::Duration;

/// What happens to a call instead of, or around, what it asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Fault {
    /// Another status, with a body that is no JSON, as something between answers.
    Status(u16),
    /// An error of the daemon's: code, words and data.
    Refused(i64, String, Value),
    /// The connection is closed and nothing was done.
    CutBefore,
    /// It was done, and the connection is closed before the answer.
    CutAfter,
    /// The answer comes so much later.
    Slow(Duration),
    /// It was done, and the answer is half of its JSON.
    Malformed,
}

impl Fault {
    /// A message that goes to nobody, as the daemon tells it.
    pub fn undelivered(code: i64, kind: &str, more: Value) -> Self {
        let mut outcome = json!({"recipientAddress": {"uuid": null, "number": null}, "type": kind});
        if let (Some(outcome), Some(more)) = (outcome.as_object_mut(), more.as_object()) {
            outcome.extend(more.clone());
        }
        let data = json!({"response": {"timestamp": 1_700_000_000_000_i64, "results": [outcome]}});
        Self::Refused(code, "Failed to send message".to_owned(), data)
    }
}
