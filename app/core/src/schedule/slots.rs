//! The slots of a rule: the instants at which it is due.

use super::pattern::Pattern;
use super::{Rule, RuleError, time_zone, wall};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};

/// How far ahead a slot is looked for: fifty years. The rarest date that a pattern can name, a given
/// weekday on the 29th of February, comes at least every 40 years.
const HORIZON: SignedDuration = SignedDuration::from_hours(50 * 366 * 24);

/// A rule, read and ready to be asked.
pub(super) enum Slots {
    Once(Timestamp),
    Interval { anchor: Timestamp, seconds: i64 },
    Wall { pattern: Box<Pattern>, tz: TimeZone },
}

impl Slots {
    pub(super) fn of(rule: &Rule, zone: &str, anchor: Timestamp) -> Result<Self, RuleError> {
        let tz = time_zone(zone)?;
        Ok(match rule {
            Rule::At { at } => Self::Once(*at),
            Rule::Every { seconds } => Self::Interval { anchor, seconds: (*seconds).max(1) },
            Rule::Cron { expression } => {
                Self::Wall { pattern: Box::new(Pattern::parse(expression)?), tz }
            }
        })
    }

    /// The first slot after an instant.
    pub(super) fn next(&self, after: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Once(at) => (*at > after).then_some(*at),
            Self::Interval { anchor, seconds } => {
                nth(*anchor, *seconds, passed(*anchor, *seconds, after) + 1)
            }
            Self::Wall { pattern, tz } => {
                let until = after.checked_add(HORIZON).unwrap_or(Timestamp::MAX);
                wall::next(pattern, tz, after, until)
            }
        }
    }

    /// The last slot after `after` and not after `until`.
    pub(super) fn latest(&self, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        if until <= after {
            return None;
        }
        match self {
            Self::Once(at) => (after < *at && *at <= until).then_some(*at),
            Self::Interval { anchor, seconds } => {
                let number = passed(*anchor, *seconds, until);
                nth(*anchor, *seconds, number).filter(|slot| number > 0 && *slot > after)
            }
            Self::Wall { pattern, tz } => wall::latest(pattern, tz, after, until),
        }
    }

    /// How many slots lie after `after` and not after `until`.
    pub(super) fn count(&self, after: Timestamp, until: Timestamp) -> u64 {
        if until <= after {
            return 0;
        }
        match self {
            Self::Once(_) => u64::from(self.latest(after, until).is_some()),
            Self::Interval { anchor, seconds } => passed(*anchor, *seconds, until)
                .saturating_sub(passed(*anchor, *seconds, after))
                .unsigned_abs(),
            Self::Wall { pattern, tz } => wall::count(pattern, tz, after, until),
        }
    }
}

/// Whole intervals between the anchor and an instant; none before the anchor.
fn passed(anchor: Timestamp, seconds: i64, at: Timestamp) -> i64 {
    at.duration_since(anchor).as_secs().max(0) / seconds
}

fn nth(anchor: Timestamp, seconds: i64, number: i64) -> Option<Timestamp> {
    anchor.checked_add(SignedDuration::from_secs(number.checked_mul(seconds)?)).ok()
}
