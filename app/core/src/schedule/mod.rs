//! Schedules: when something is due, computed in the person's zone.
//!
//! Pure. A slot (schedule, due) is computed here and happens once in the store.
//!
//! ```text
//! Rule ─► slots ─► due_slots: fire | missed | next
//!           └─ cron: pattern (minutes of a calendar) on wall (the offsets of a zone)
//! ```
//!
//! When the clocks change, a cron rule that names times of day (`30 2,14 * * *`) happens once per
//! named time: what a gap swallows comes at the first instant after it, and a repeated hour counts
//! at its first passing. A rule that counts through the hours (`*/15 * * * *`) follows the time
//! that really passes.

mod due;
mod pattern;
mod slots;
mod wall;

pub use due::{DueSlots, MISSED_LISTED, ON_TIME_SECONDS, SlotRow, due_slots};

use crate::StoreError;
use crate::clock::Rfc3339;
use crate::ids::{AgentId, ConversationId, KnowledgeId, PersonId, ScheduleId};
use crate::inbound::Address;
use crate::tool::CallKey;
use crate::whole;
use async_trait::async_trait;
use jiff::{Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use slots::Slots;

/// Seconds between two runs of a schedule, at the least.
pub const SHORTEST_INTERVAL_SECONDS: i64 = 60;
/// And at the most: a hundred years.
pub const LONGEST_INTERVAL_SECONDS: i64 = 100 * 365 * 24 * 3600;
/// Failures in a row after which a schedule switches itself off.
pub const FAILURES_UNTIL_DISABLED: i32 = 3;

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Rule {
    /// Five fields, wall-clock time of the schedule's zone.
    Cron {
        #[schemars(extend("format" = "cron"))]
        expression: String,
    },
    /// Every so many seconds from the time of creation.
    Every {
        #[serde(deserialize_with = "whole::read")]
        #[schemars(range(min = SHORTEST_INTERVAL_SECONDS, max = LONGEST_INTERVAL_SECONDS))]
        seconds: i64,
    },
    /// Once.
    At {
        #[schemars(with = "Rfc3339")]
        at: Timestamp,
    },
}

/// What happens to slots that passed while nothing ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedPolicy {
    /// The latest missed slot runs now; those before it are recorded as missed.
    #[default]
    RunOnce,
    /// All of them are recorded as missed.
    Skip,
}

impl MissedPolicy {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RunOnce => "run_once",
            Self::Skip => "skip",
        }
    }
}

/// A stored schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Schedule {
    pub id: ScheduleId,
    pub person: PersonId,
    pub agent: AgentId,
    /// The conversation that its turns run in.
    pub conversation: ConversationId,
    /// What people call it, where somebody named it.
    pub name: Option<String>,
    /// What the assistant is to do when it is due.
    pub note: String,
    pub rule: Rule,
    /// IANA name of the zone that the rule is read in.
    pub time_zone: String,
    /// Where the reply goes when `announce` is set.
    pub origin: Option<Address>,
    /// Whether the reply is delivered, or only kept in the conversation.
    pub announce: bool,
    pub missed: MissedPolicy,
    pub enabled: bool,
    pub failures: i32,
    pub last_error: Option<String>,
    #[schemars(with = "Option<Rfc3339>")]
    pub next_due: Option<Timestamp>,
    #[schemars(with = "Rfc3339")]
    pub created_at: Timestamp,
}

/// A rule is not one that can be kept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error(
        "`{expression}` is not a cron expression: {reason}; write five fields, for example `0 9 * * 1-5` for weekdays at nine"
    )]
    Cron { expression: String, reason: String },
    #[error(
        "every {seconds} s is too often; the shortest interval is {SHORTEST_INTERVAL_SECONDS} s"
    )]
    EveryTooShort { seconds: i64 },
    #[error(
        "every {seconds} s is too seldom; the longest interval is {LONGEST_INTERVAL_SECONDS} s, a hundred years"
    )]
    EveryTooLong { seconds: i64 },
    #[error("{at} has passed; give a time in the future")]
    Past { at: Timestamp },
    #[error("`{expression}` never falls due")]
    Never { expression: String },
    #[error("`{zone}` is not a time zone; use an IANA name such as `Europe/Berlin`")]
    Zone { zone: String },
}

impl Rule {
    /// Checks a rule before it is stored.
    pub fn validate(&self, zone: &str, now: Timestamp) -> Result<(), RuleError> {
        let next = self.next_after(zone, now, now)?;
        match self {
            Self::Every { seconds } if *seconds < SHORTEST_INTERVAL_SECONDS => {
                Err(RuleError::EveryTooShort { seconds: *seconds })
            }
            Self::Every { seconds } if *seconds > LONGEST_INTERVAL_SECONDS => {
                Err(RuleError::EveryTooLong { seconds: *seconds })
            }
            Self::At { at } if *at <= now => Err(RuleError::Past { at: *at }),
            Self::Cron { expression } if next.is_none() => {
                Err(RuleError::Never { expression: expression.clone() })
            }
            Self::Every { .. } | Self::At { .. } | Self::Cron { .. } => Ok(()),
        }
    }

    /// The first slot after `after`, or `None` when there is none within fifty years.
    ///
    /// `anchor` is the time of creation, from which intervals count.
    pub fn next_after(
        &self,
        zone: &str,
        anchor: Timestamp,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, RuleError> {
        Ok(Slots::of(self, zone, anchor)?.next(after))
    }
}

/// The IANA name of a zone as the time zone database spells it.
pub fn canonical_zone(zone: &str) -> Result<String, RuleError> {
    let unknown = || RuleError::Zone { zone: zone.to_owned() };
    time_zone(zone)?.iana_name().map(str::to_owned).ok_or_else(unknown)
}

/// The zone that a schedule moves to when its person moves from `old` to `new`, or `None` when it
/// stays as it is.
///
/// Only wall-clock rules move, and only those kept in the zone that the person leaves: nine in the
/// morning stays nine in the morning wherever they live. An interval and an instant mean the same
/// everywhere, and a schedule in another zone was put there on purpose. Slots that were decided
/// stay as they are; the caller computes the next one from the present instant.
pub fn rezone(rule: &Rule, zone: &str, old: &str, new: &str) -> Result<Option<String>, RuleError> {
    let (old, new) = (canonical_zone(old)?, canonical_zone(new)?);
    let moves = match rule {
        Rule::Cron { .. } => canonical_zone(zone)? == old && old != new,
        Rule::Every { .. } | Rule::At { .. } => false,
    };
    Ok(moves.then_some(new))
}

fn time_zone(zone: &str) -> Result<TimeZone, RuleError> {
    TimeZone::get(zone).map_err(|_| RuleError::Zone { zone: zone.to_owned() })
}

/// What a schedule is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    pub agent: AgentId,
    pub conversation: ConversationId,
    pub name: Option<String>,
    pub note: String,
    pub rule: Rule,
    pub time_zone: String,
    pub origin: Option<Address>,
    pub announce: bool,
    pub missed: MissedPolicy,
}

/// What may be changed of a schedule; `None` leaves it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScheduleChange {
    /// An empty one takes the name away.
    pub name: Option<String>,
    pub note: Option<String>,
    pub rule: Option<Rule>,
    pub time_zone: Option<String>,
    pub announce: Option<bool>,
    pub missed: Option<MissedPolicy>,
    pub enabled: Option<bool>,
}

/// Where schedules are kept. Writes carry the call's key and happen once for it.
#[async_trait]
pub trait ScheduleStore: Send + Sync + 'static {
    async fn list(&self, person: PersonId) -> Result<Vec<Schedule>, StoreError>;
    async fn create(
        &self,
        person: PersonId,
        key: CallKey,
        new: NewSchedule,
    ) -> Result<Schedule, ScheduleError>;
    /// Returns `None` when it is not there.
    async fn change(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
        change: ScheduleChange,
    ) -> Result<Option<Schedule>, ScheduleError>;
    /// Returns whether it was there.
    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
    ) -> Result<bool, StoreError>;
}

#[derive(Debug, thiserror::Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Rule(#[from] RuleError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Ids that an idempotent write derives from its call, so that a repeat names the same row.
pub fn knowledge_id_of(key: CallKey) -> KnowledgeId {
    KnowledgeId(derived(key, 1))
}

/// See [`knowledge_id_of`].
pub fn schedule_id_of(key: CallKey) -> ScheduleId {
    ScheduleId(derived(key, 2))
}

fn derived(key: CallKey, kind: u8) -> uuid::Uuid {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update([kind]);
    hash.update(key.turn.0.as_bytes());
    for part in [key.step, key.call, key.item] {
        hash.update(part.to_be_bytes());
    }
    let digest = hash.finalize();
    // Keep the turn's timestamp in front, so that derived ids sort by time like all others.
    let mut bytes = *key.turn.0.as_bytes();
    bytes[6..16].copy_from_slice(&digest[..10]);
    uuid::Builder::from_bytes(bytes).with_version(uuid::Version::SortRand).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call's effect keeps the schedule that it made.
    #[test]
    fn an_old_schedule_still_parses() {
        let stored = r#"{"id":"01890000-0000-7000-8000-000000000000",
            "person":"01890000-0000-7000-8000-000000000001",
            "agent":"01890000-0000-7000-8000-000000000002",
            "conversation":"01890000-0000-7000-8000-000000000003","note":"water the plants",
            "rule":{"kind":"every","seconds":3600},"time_zone":"Europe/Berlin","origin":null,
            "announce":true,"missed":"run_once","enabled":true,"failures":0,"last_error":null,
            "next_due":null,"created_at":"2026-11-21T10:00:00Z"}"#;
        let schedule: Schedule = serde_json::from_str(stored).unwrap();
        assert_eq!((schedule.name, schedule.note.as_str()), (None, "water the plants"));
    }
}
