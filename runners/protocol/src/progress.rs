//! What is streamed while a call waits and runs: one JSON object a line.

use serde::{Deserialize, Serialize};

use crate::CallResult;

/// One line of progress. The last line of a stream is a result; a stream that ends without one was
/// cut, and the call goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Progress {
    /// It waits for `position` others.
    Queued {
        position: u32,
    },
    /// Run `run` of `runs` has begun, counted from 0.
    Started {
        run: u32,
        runs: u32,
    },
    /// The tool wrote to standard error.
    Said {
        run: u32,
        text: String,
    },
    /// Lines that this viewer was too slow for.
    Skipped {
        lines: u64,
    },
    /// Nothing happened; the connection lives.
    Alive,
    Result(CallResult),
}
