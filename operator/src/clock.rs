//! The one place that reads the system clock.

use jiff::Timestamp;

/// Whole seconds, as the cluster keeps most times.
pub(crate) fn now() -> Timestamp {
    let now = exactly();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}

/// Microseconds: two renewals of a lease always differ.
#[expect(clippy::disallowed_methods, reason = "the operator's clock; what decides is given a time")]
pub(crate) fn exactly() -> Timestamp {
    Timestamp::now()
}
