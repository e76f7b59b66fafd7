//! A pattern on the wall clock of a time zone: which instants it means.
//!
//! A zone's time line is a row of stretches in which its offset does not change:
//!
//! ```text
//!            winter                summer                winter
//!   ───────────────────┤├──────────────────────┤├──────────────────
//!             …01:59   ││ 03:00…        …02:59 ││ 02:00…
//!                  gap of an hour          an hour repeated
//! ```
//!
//! A pattern that counts through the hours means every stretch in full: it skips a gap and runs in
//! both halves of a repeated hour. A pattern of fixed times means a wall clock that only moves
//! forward: what a gap swallowed comes at the first instant after it, and what a stretch repeats
//! has happened already.

use super::pattern::Pattern;
use jiff::{
    SignedDuration, Timestamp,
    civil::DateTime,
    tz::{Offset, TimeZone},
};
use std::ops::Range;

const TICK: SignedDuration = SignedDuration::from_nanos(1);

/// The first slot after `after` and not after `until`.
pub(super) fn next(
    pattern: &Pattern,
    tz: &TimeZone,
    after: Timestamp,
    until: Timestamp,
) -> Option<Timestamp> {
    let mut stretch = Stretch::around(tz, later(after));
    loop {
        if let Some(slot) = stretch.first(pattern, after, until) {
            return Some(slot);
        }
        if stretch.end > until {
            return None;
        }
        stretch = stretch.following(tz)?;
    }
}

/// The last slot after `after` and not after `until`.
pub(super) fn latest(
    pattern: &Pattern,
    tz: &TimeZone,
    after: Timestamp,
    until: Timestamp,
) -> Option<Timestamp> {
    let mut stretch = Stretch::around(tz, until);
    loop {
        if let Some(slot) = stretch.last(pattern, after, until) {
            return Some(slot);
        }
        if stretch.start <= after {
            return None;
        }
        stretch = Stretch::around(tz, earlier(stretch.start));
    }
}

/// How many slots lie after `after` and not after `until`.
pub(super) fn count(pattern: &Pattern, tz: &TimeZone, after: Timestamp, until: Timestamp) -> u64 {
    let mut stretch = Stretch::around(tz, later(after));
    let mut count = 0;
    while stretch.start <= until {
        count += stretch.count(pattern, after, until);
        match stretch.following(tz) {
            Some(next) => stretch = next,
            None => break,
        }
    }
    count
}

/// A stretch of time under one offset, from `start` up to but not including `end`.
struct Stretch {
    start: Timestamp,
    end: Timestamp,
    offset: Offset,
    /// What the clock would have shown at `start` had it not been changed.
    expected: DateTime,
}

impl Stretch {
    /// The stretch that holds an instant.
    fn around(tz: &TimeZone, at: Timestamp) -> Self {
        let start = tz.preceding(later(at)).next().map_or(Timestamp::MIN, |t| t.timestamp());
        Self::starting(tz, start)
    }

    fn following(&self, tz: &TimeZone) -> Option<Self> {
        (self.end < Timestamp::MAX).then(|| Self::starting(tz, self.end))
    }

    fn starting(tz: &TimeZone, start: Timestamp) -> Self {
        let end = tz.following(start).next().map_or(Timestamp::MAX, |t| t.timestamp());
        let expected = tz.to_offset(earlier(start)).to_datetime(start);
        Self { start, end, offset: tz.to_offset(start), expected }
    }

    fn first(&self, pattern: &Pattern, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        self.delayed(pattern, after, until)
            .or_else(|| self.instant(pattern.first(&self.shown(pattern, after, until))?))
    }

    fn last(&self, pattern: &Pattern, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        pattern
            .last(&self.shown(pattern, after, until))
            .and_then(|civil| self.instant(civil))
            .or_else(|| self.delayed(pattern, after, until))
    }

    fn count(&self, pattern: &Pattern, after: Timestamp, until: Timestamp) -> u64 {
        let shown = self.shown(pattern, after, until);
        let delayed = self.delayed(pattern, after, until).is_some()
            && pattern.first(&shown).and_then(|civil| self.instant(civil)) != Some(self.start);
        pattern.count(&shown) + u64::from(delayed)
    }

    /// The start, when the gap before it swallowed a fixed time.
    fn delayed(&self, pattern: &Pattern, after: Timestamp, until: Timestamp) -> Option<Timestamp> {
        let within = after < self.start && self.start <= until;
        let gap = self.expected..self.offset.to_datetime(self.start);
        (pattern.fixed && within && pattern.first(&gap).is_some()).then_some(self.start)
    }

    /// What the clock shows in this stretch after `after` and not after `until`, without what a
    /// fixed time has seen before.
    fn shown(&self, pattern: &Pattern, after: Timestamp, until: Timestamp) -> Range<DateTime> {
        let civil = |at: Timestamp| self.offset.to_datetime(at);
        let start = civil(self.start.max(later(after)));
        let start = if pattern.fixed { start.max(self.expected) } else { start };
        start..civil(self.end.min(later(until)))
    }

    fn instant(&self, civil: DateTime) -> Option<Timestamp> {
        self.offset.to_timestamp(civil).ok()
    }
}

fn later(at: Timestamp) -> Timestamp {
    at.checked_add(TICK).unwrap_or(Timestamp::MAX)
}

fn earlier(at: Timestamp) -> Timestamp {
    at.checked_sub(TICK).unwrap_or(Timestamp::MIN)
}
