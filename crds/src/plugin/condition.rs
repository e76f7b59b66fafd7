//! Conditions: single facts about a plugin, each with why it is so.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Reason;

/// The most letters of a message.
const MOST_LETTERS: usize = 1024;

/// One fact about the plugin.
// `kind` and `reason` are texts, so that what a newer operator says can still be read. The schema
// has the closed lists, and `Condition::new` writes from them only.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Debug, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    #[serde(rename = "type")]
    #[schemars(with = "ConditionType")]
    pub kind: String,

    /// Whether it holds.
    pub status: ConditionStatus,

    #[schemars(with = "Reason")]
    pub reason: String,

    /// What is the case and what to do about it, for a person.
    #[schemars(length(max = 1024))]
    pub message: String,

    /// Since when the status is what it is.
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub last_transition_time: Time,

    /// The generation of the spec that this was found out for. With a greater generation in the
    /// metadata, it speaks of a spec that has changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What the condition is about. `Ready`: a call of a permitted tool is answered; a plugin that is
/// idle is ready, since a call starts it. `Built`: the wanted revision was built. `Configured`: all
/// required keys have a value. `Permitted`: there is a tool that may run. `StateKept`: files that
/// the plugin writes outlive its runner. `NetworkIsolated`: its network was found closed.
/// `Confined`: its Pod is confined as was asked for.
#[derive(
    JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum ConditionType {
    Ready,
    Built,
    Configured,
    Permitted,
    StateKept,
    NetworkIsolated,
    Confined,
}

impl ConditionType {
    /// As it stands in the resource.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Built => "Built",
            Self::Configured => "Configured",
            Self::Permitted => "Permitted",
            Self::StateKept => "StateKept",
            Self::NetworkIsolated => "NetworkIsolated",
            Self::Confined => "Confined",
        }
    }
}

/// `Unknown` is said while it is being found out.
#[derive(JsonSchema, Serialize, Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

impl Condition {
    /// What `reason` says, of the type and with the status that belong to it. `generation` is that
    /// of the spec that was looked at. A message that is too long is cut.
    pub fn new(reason: Reason, message: &str, generation: i64, now: Time) -> Self {
        let (kind, status) = reason.says();
        Self::with(kind, status, reason, message, generation, now)
    }

    /// *Not ready*, for a reason of another type: so `Ready` alone says what is wrong.
    pub fn not_ready(reason: Reason, message: &str, generation: i64, now: Time) -> Self {
        let status = ConditionStatus::False;
        Self::with(ConditionType::Ready, status, reason, message, generation, now)
    }

    fn with(
        kind: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: &str,
        generation: i64,
        now: Time,
    ) -> Self {
        Self {
            kind: kind.name().to_owned(),
            status,
            reason: reason.name().to_owned(),
            message: message.chars().take(MOST_LETTERS).collect(),
            last_transition_time: now,
            observed_generation: Some(generation),
        }
    }
}

/// Puts a condition in the place of the one of its type. The time of the last transition stays
/// unless the status changed: a status in which nothing changed is written as it was.
pub fn set_condition(conditions: &mut Vec<Condition>, mut condition: Condition) {
    match conditions.iter_mut().find(|before| before.kind == condition.kind) {
        Some(before) => {
            if before.status == condition.status {
                condition.last_transition_time = before.last_transition_time.clone();
            }
            *before = condition;
        }
        None => conditions.push(condition),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: &str) -> Time {
        Time(time.parse().unwrap())
    }

    #[test]
    fn idle_is_ready() {
        let condition =
            Condition::new(Reason::Idle, "a call starts it", 3, at("2026-11-21T10:00:00Z"));
        let json = serde_json::to_value(condition).unwrap();
        let expected = serde_json::json!({
            "type": "Ready",
            "status": "True",
            "reason": "Idle",
            "message": "a call starts it",
            "lastTransitionTime": "2026-11-21T10:00:00Z",
            "observedGeneration": 3,
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn only_a_change_of_status_is_a_transition() {
        let (early, late) = (at("2026-11-21T10:00:00Z"), at("2026-11-21T11:00:00Z"));
        let mut conditions = Vec::new();
        set_condition(&mut conditions, Condition::new(Reason::Idle, "", 1, early.clone()));
        set_condition(&mut conditions, Condition::new(Reason::Building, "", 1, early.clone()));

        set_condition(&mut conditions, Condition::new(Reason::Running, "", 2, late.clone()));
        assert_eq!(conditions[0], Condition::new(Reason::Running, "", 2, early));

        let broken = Condition::not_ready(Reason::BuildFailed, "exit status 1", 2, late);
        set_condition(&mut conditions, broken.clone());
        assert_eq!(conditions[0], broken);
        assert_eq!(conditions.len(), 2);
    }

    #[test]
    fn what_a_newer_operator_says_can_be_read() {
        let json = r#"{"type": "Blessed", "status": "True", "reason": "Sunday", "message": "",
            "lastTransitionTime": "2026-11-21T10:00:00Z", "by": "nobody"}"#;
        let condition: Condition = serde_json::from_str(json).unwrap();
        assert_eq!(Reason::parse(&condition.reason), None);
    }

    #[test]
    fn a_message_is_cut_where_the_schema_ends() {
        let time = at("2026-11-21T10:00:00Z");
        let condition = Condition::new(Reason::InitFailed, &"ä".repeat(2000), 1, time);
        assert_eq!(condition.message.chars().count(), MOST_LETTERS);
    }
}
