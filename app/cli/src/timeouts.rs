//! How long this side waits: for a word of the server, and before it tries again.

use std::time::Duration;

/// Often enough that nobody waits long for a server that is back.
const LONGEST: Duration = Duration::from_secs(10);
/// A server that asks for more than this is not waited for.
pub(crate) const LONGEST_ASKED: Duration = Duration::from_secs(30);

/// The waits of one command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// Before the second attempt; each further one waits twice as long.
    pub(crate) first: Duration,
    /// A stream without a byte for this long is dead.
    pub(crate) silence: Duration,
    /// A turn without an event for this long is asked after.
    pub(crate) quiet: Duration,
    /// The same while somebody is asked: somebody else may have answered.
    pub(crate) quiet_asking: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            // Soon enough that a restarted server is hardly noticed.
            first: Duration::from_millis(250),
            // The server pings every 15 s; three missed pings are a dead connection.
            silence: Duration::from_secs(45),
            quiet: Duration::from_secs(10),
            quiet_asking: Duration::from_secs(3),
        }
    }
}

impl Timeouts {
    /// The pause after the given number of failures in a row, from 1: doubles up to 10 s. A
    /// longer one that the server asked for goes before, up to [`LONGEST_ASKED`].
    pub(crate) fn pause(self, failures: u32, asked: Option<Duration>) -> Duration {
        let times = 1 << failures.saturating_sub(1).min(16);
        let doubled = self.first.saturating_mul(times).min(LONGEST);
        doubled.max(asked.unwrap_or_default().min(LONGEST_ASKED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_and_the_server_may_ask_for_more() {
        let pause = |failures, asked| Timeouts::default().pause(failures, asked);
        let pauses: Vec<u64> = (1..9).map(|n| pause(n, None).as_millis() as u64).collect();
        assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        assert_eq!(pause(1, Some(Duration::from_secs(3))), Duration::from_secs(3));
        assert_eq!(pause(1, Some(Duration::from_hours(1))), LONGEST_ASKED);
        assert_eq!(pause(u32::MAX, None), LONGEST);
    }
}
