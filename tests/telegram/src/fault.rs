//! Bad days, one for each call that meets one.

use std::time::Duration;

/// What happens to a call instead of, or around, what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// 429, with the seconds to wait.
    Busy(u64),
    /// Another status, with a body that is no JSON, as something between answers.
    Status(u16),
    /// An error of the Bot API: code and description.
    Refused(u16, String),
    /// The connection is closed and nothing was done.
    CutBefore,
    /// It was done, and the connection is closed before the answer.
    CutAfter,
    /// The answer comes so much later.
    Slow(Duration),
    /// It was done, and the answer is half of its JSON.
    Malformed,
}
