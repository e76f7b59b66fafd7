//! The clock port. Instants are UTC; zones appear only where a person reads or writes a time.

use jiff::Timestamp;

/// Where the time comes from. Production reads the system; tests hold the hands.
pub trait Clock: Send + Sync + 'static {
    /// The present instant, microsecond precision (what Postgres keeps).
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the system clock")]
    fn now(&self) -> Timestamp {
        let now = Timestamp::now();
        Timestamp::from_microsecond(now.as_microsecond()).unwrap_or(now)
    }
}
