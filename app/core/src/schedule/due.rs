//! What to do about the slots that have passed: which one runs, which ones are recorded as missed.
//!
//! Pure, and bounded however long nothing ran: at most [`MISSED_LISTED`] slots are named, those
//! before them are told as one row. Every slot after `last` and not after `now` is in exactly one
//! of `fire`, `missed` and `unlisted`.

use super::slots::Slots;
use super::{MissedPolicy, Rule, RuleError};
use jiff::{SignedDuration, Timestamp};

/// A slot at most this late simply runs, whatever the policy: that is the rhythm of polling, and
/// not a time during which nothing ran.
pub const ON_TIME_SECONDS: i64 = 60;
/// Missed slots that are listed one by one.
pub const MISSED_LISTED: usize = 100;

/// The decision about everything that fell due until now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueSlots {
    /// The missed slots, oldest first; only the latest [`MISSED_LISTED`] of them.
    pub missed: Vec<Timestamp>,
    /// The missed slots before those listed.
    pub unlisted: Option<SlotRow>,
    /// The slot to run now.
    pub fire: Option<Timestamp>,
    /// The first slot to come, or `None` when there is none any more.
    pub next: Option<Timestamp>,
}

/// Consecutive slots of a schedule that are not named one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotRow {
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: u64,
}

impl DueSlots {
    /// How many slots were missed, listed or not.
    pub fn missed_total(&self) -> u64 {
        self.missed.len() as u64 + self.unlisted.map_or(0, |row| row.count)
    }
}

/// Decides about the slots after `last`, up to and with `now`.
///
/// `anchor` is the time of creation; `last` is the instant up to which slots were decided before
/// (at first the anchor). The caller records the decision and moves `last` to `now` in one
/// transaction. At most one slot fires: a schedule that was due several times runs once.
///
/// # Errors
///
/// Fails when the rule or the zone cannot be read.
pub fn due_slots(
    rule: &Rule,
    zone: &str,
    anchor: Timestamp,
    last: Timestamp,
    now: Timestamp,
    policy: MissedPolicy,
) -> Result<DueSlots, RuleError> {
    let slots = Slots::of(rule, zone, anchor)?;
    let next = slots.next(now.max(last));
    let Some(newest) = slots.latest(last, now) else {
        return Ok(DueSlots { missed: Vec::new(), unlisted: None, fire: None, next });
    };
    let on_time = now.duration_since(newest) <= SignedDuration::from_secs(ON_TIME_SECONDS);
    let fires = match policy {
        MissedPolicy::RunOnce => true,
        MissedPolicy::Skip => on_time,
    };
    let preceding = |slot: Timestamp| slots.latest(last, just_before(slot));

    let mut missed = Vec::new();
    let mut slot = if fires { preceding(newest) } else { Some(newest) };
    while let Some(at) = slot
        && missed.len() < MISSED_LISTED
    {
        missed.push(at);
        slot = preceding(at);
    }
    missed.reverse();
    let unlisted = slot.and_then(|at| {
        Some(SlotRow { first: slots.next(last)?, last: at, count: slots.count(last, at) })
    });
    Ok(DueSlots { missed, unlisted, fire: fires.then_some(newest), next })
}

fn just_before(slot: Timestamp) -> Timestamp {
    slot.checked_sub(SignedDuration::from_nanos(1)).unwrap_or(Timestamp::MIN)
}
