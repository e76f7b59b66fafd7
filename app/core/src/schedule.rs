//! Schedules: when something is due, computed in the person's zone.
//!
//! Pure. A slot (schedule, due) is computed here and happens once in the store.

use crate::ids::{AgentId, ConversationId, KnowledgeId, PersonId, ScheduleId};
use crate::inbound::Address;
use crate::tool::{CallKey, StoreError};
use async_trait::async_trait;
use croner::{Cron, parser::CronParser};
use jiff::{SignedDuration, Timestamp, tz::TimeZone};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Seconds between two runs of a schedule, at the least.
pub const SHORTEST_INTERVAL_SECONDS: i64 = 60;
/// Failures in a row after which a schedule switches itself off.
pub const FAILURES_UNTIL_DISABLED: i32 = 3;

/// When a schedule is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Rule {
    /// Five fields, wall-clock time of the schedule's zone.
    Cron { expression: String },
    /// Every so many seconds from the time of creation.
    Every { seconds: i64 },
    /// Once.
    At {
        #[schemars(with = "String")]
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
    #[schemars(with = "Option<String>")]
    pub next_due: Option<Timestamp>,
    #[schemars(with = "String")]
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
        "`{expression}` would run more often than once a minute, which no schedule may"
    )]
    TooOften { expression: String },
    #[error("every {seconds} s is too often; the shortest interval is {SHORTEST_INTERVAL_SECONDS} s")]
    EveryTooShort { seconds: i64 },
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
        let tz = time_zone(zone)?;
        match self {
            Self::Every { seconds } if *seconds < SHORTEST_INTERVAL_SECONDS => {
                Err(RuleError::EveryTooShort { seconds: *seconds })
            }
            Self::Every { .. } => Ok(()),
            Self::At { at } if *at <= now => Err(RuleError::Past { at: *at }),
            Self::At { .. } => Ok(()),
            Self::Cron { expression } => {
                let cron = parse_cron(expression)?;
                next_cron(&cron, &tz, now)
                    .map(|_| ())
                    .ok_or_else(|| RuleError::Never { expression: expression.clone() })
            }
        }
    }

    /// The first slot after `after`, or `None` when there is none.
    ///
    /// `anchor` is the time of creation, from which intervals count.
    pub fn next_after(
        &self,
        zone: &str,
        anchor: Timestamp,
        after: Timestamp,
    ) -> Result<Option<Timestamp>, RuleError> {
        let tz = time_zone(zone)?;
        Ok(match self {
            Self::At { at } => (*at > after).then_some(*at),
            Self::Every { seconds } => next_interval(anchor, *seconds, after),
            Self::Cron { expression } => next_cron(&parse_cron(expression)?, &tz, after),
        })
    }
}

fn time_zone(zone: &str) -> Result<TimeZone, RuleError> {
    TimeZone::get(zone).map_err(|_| RuleError::Zone { zone: zone.to_owned() })
}

/// Parses five fields; seconds and years are refused, which also bounds the rate to once a minute.
fn parse_cron(expression: &str) -> Result<Cron, RuleError> {
    let refuse =
        |reason: String| RuleError::Cron { expression: expression.to_owned(), reason };
    if expression.split_whitespace().count() != 5 && !expression.trim_start().starts_with('@') {
        return Err(refuse("it does not have five fields".into()));
    }
    CronParser::builder()
        .seconds(croner::parser::Seconds::Disallowed)
        .build()
        .parse(expression)
        .map_err(|e| refuse(e.to_string()))
}

fn next_cron(cron: &Cron, tz: &TimeZone, after: Timestamp) -> Option<Timestamp> {
    cron.find_next_occurrence(&after.to_zoned(tz.clone()), false).ok().map(|z| z.timestamp())
}

fn next_interval(anchor: Timestamp, seconds: i64, after: Timestamp) -> Option<Timestamp> {
    let seconds = seconds.max(1);
    let passed = after.as_second() - anchor.as_second();
    let runs = if passed < 0 { 1 } else { passed / seconds + 1 };
    anchor.checked_add(SignedDuration::from_secs(runs.checked_mul(seconds)?)).ok()
}

/// What a schedule is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    pub agent: AgentId,
    pub conversation: ConversationId,
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
