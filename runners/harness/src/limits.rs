//! How much a runner takes on.

use std::time::Duration;

/// Bounds of a runner.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Calls of concurrent tools at once.
    pub concurrent: usize,
    /// Calls that may wait, in each of the two queues.
    pub waiting: usize,
    /// Results that may wait to be acknowledged.
    pub kept: usize,
    /// How long uploads wait for their call.
    pub upload_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { concurrent: 16, waiting: 64, kept: 256, upload_age: Duration::from_mins(30) }
    }
}
