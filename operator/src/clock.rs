//! The one place that reads the system clock.

use jiff::Timestamp;

/// Whole seconds, as the cluster keeps times.
#[expect(clippy::disallowed_methods, reason = "the operator's clock; what decides is given a time")]
pub(crate) fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
