//! What was done with a Plugin through the app, in an annotation of it: written with the change itself, and gone
//! with the object.

use famulus_core::plugin::PluginEvent;
use famulus_crds::labels::HISTORY;
use famulus_crds::plugin::{Condition, ConditionStatus, ConditionType, Plugin, PluginStatus};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use crate::plugin::CachedPlugin;

/// What lets a revision be gone back to.
pub(super) const PERMITTED: &str = "permitted";
/// A revision is offered.
pub(super) const FETCHED: &str = "fetched";

const SECOND: SignedDuration = SignedDuration::from_secs(1);

/// Events that are kept.
const KEPT: usize = 50;

#[derive(Serialize, Deserialize)]
struct Event {
    at: Timestamp,
    what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    who: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    revision: Option<String>,
}

/// What became of a Plugin is read from these.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) noted: Option<&'a str>,
    /// The revision that is wanted.
    pub(super) pin: Option<&'a str>,
    pub(super) generation: Option<i64>,
    pub(super) status: Option<&'a PluginStatus>,
}

impl<'a> Facts<'a> {
    pub(super) fn of(plugin: &'a Plugin) -> Self {
        Self {
            noted: plugin.annotations().get(HISTORY).map(String::as_str),
            pin: plugin.spec.revision.as_deref(),
            generation: plugin.metadata.generation,
            status: plugin.status.as_ref(),
        }
    }

    pub(super) fn of_cached(known: &'a CachedPlugin) -> Self {
        Self {
            noted: known.history.as_deref(),
            pin: known.pin.as_deref(),
            generation: Some(known.generation),
            status: Some(&known.status),
        }
    }

    pub(super) fn serving(self) -> Option<&'a str> {
        self.status?.revision.as_deref()
    }

    fn built(self) -> Option<&'a Condition> {
        let mut all = self.status?.conditions.iter();
        all.find(|condition| condition.kind == ConditionType::Built.name())
    }

    /// Why what is pinned does not serve, once that is known.
    pub(super) fn failure(self) -> Option<&'a Condition> {
        let is_wanted = self.pin.is_some() && self.serving() != self.pin;
        let built = self.built().filter(|_| is_wanted)?;
        let is_of_now = built.observed_generation == self.generation;
        (is_of_now && built.status == ConditionStatus::False).then_some(built)
    }

    /// What was done, oldest first.
    pub(super) fn done(self) -> Vec<PluginEvent> {
        let event = |Event { at, what, who, revision }| PluginEvent { at, what, who, revision };
        events(self.noted).into_iter().map(event).collect()
    }

    /// Whether a yes was said to the revision since it was fetched: one that was rolled back from is not offered
    /// again.
    pub(super) fn is_answered(self, revision: &str) -> bool {
        let of_it = |event: &&PluginEvent| {
            let is_either = event.what == PERMITTED || event.what == FETCHED;
            is_either && event.revision.as_deref() == Some(revision)
        };
        self.done().iter().rfind(of_it).is_some_and(|event| event.what == PERMITTED)
    }

    /// What was done, and what became of the last of it, in order.
    pub(super) fn history(self) -> Vec<PluginEvent> {
        let mut history = self.done();
        let serves = self.pin.is_some() && self.serving() == self.pin;
        let (what, at) = if let Some(failed) = self.failure() {
            let what = format!("failed: {}: {}", failed.reason, failed.message);
            (what, &failed.last_transition_time)
        } else if let Some(since) =
            self.status.and_then(PluginStatus::serving_since).filter(|_| serves)
        {
            ("serves".to_owned(), since)
        } else {
            return history;
        };
        let end = PluginEvent { at: at.0, what, who: None, revision: self.pin.map(str::to_owned) };
        // A cluster tells the time in whole seconds.
        let place = history.partition_point(|event| event.at < end.at + SECOND);
        history.insert(place, end);
        history
    }
}

/// One more, as it stands in the annotation.
pub(super) fn with(noted: Option<&str>, event: &PluginEvent) -> String {
    let mut all = events(noted);
    let PluginEvent { at, what, who, revision } = event.clone();
    all.push(Event { at, what, who, revision });
    let many = all.len().saturating_sub(KEPT);
    // Texts and times always become JSON.
    serde_json::to_string(all.get(many..).unwrap_or_default()).unwrap_or_default()
}

/// What somebody made unreadable begins anew.
fn events(noted: Option<&str>) -> Vec<Event> {
    noted.and_then(|noted| serde_json::from_str(noted).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_crds::plugin::Reason;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    #[test]
    fn the_newest_are_kept() {
        let mut noted = String::new();
        for number in 0..60 {
            let event = PluginEvent {
                at: Timestamp::UNIX_EPOCH,
                what: number.to_string(),
                who: Some("Ada".to_owned()),
                revision: None,
            };
            noted = with(Some(&noted), &event);
        }
        let kept: Vec<String> = events(Some(&noted)).into_iter().map(|event| event.what).collect();
        assert_eq!(kept.len(), KEPT);
        assert_eq!((kept.first().unwrap().as_str(), kept.last().unwrap().as_str()), ("10", "59"));
    }

    #[test]
    fn the_end_of_a_build_keeps_its_place_while_the_source_is_looked_at() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let event = |(second, what): (i64, &str)| PluginEvent {
            at: at(second) + SignedDuration::from_millis(500),
            what: what.to_owned(),
            who: None,
            revision: Some("a".to_owned()),
        };
        let done = [(10, FETCHED), (11, PERMITTED), (40, FETCHED)].map(event);
        let noted = done
            .iter()
            .fold(None, |noted: Option<String>, event| Some(with(noted.as_deref(), event)));
        let built = |status, second| {
            let mut built = Condition::new(Reason::RevisionBuilt, "", 1, Time(at(second)));
            built.status = status;
            built
        };
        let check = |serves_since: Option<i64>, built: Condition, expected: &[&str]| {
            let status = PluginStatus {
                revision: Some("a".to_owned()),
                serves_since: serves_since.map(|second| Time(at(second))),
                conditions: vec![built],
                ..PluginStatus::default()
            };
            let facts = Facts {
                noted: noted.as_deref(),
                pin: Some("a"),
                generation: Some(1),
                status: Some(&status),
            };
            let history = facts.history();
            let told: Vec<&str> = history.iter().map(|event| event.what.as_str()).collect();
            assert_eq!(told, expected, "{serves_since:?}");
        };
        let (holds, unknown) = (ConditionStatus::True, ConditionStatus::Unknown);
        let in_order = [FETCHED, PERMITTED, "serves", FETCHED];
        // Within the second in which it was permitted.
        check(Some(11), built(holds, 41), &in_order);
        check(Some(13), built(unknown, 40), &in_order);
        // Of an operator that does not say it yet.
        check(None, built(holds, 41), &[FETCHED, PERMITTED, FETCHED, "serves"]);
        check(None, built(unknown, 40), &[FETCHED, PERMITTED, FETCHED]);
    }

    #[test]
    fn what_was_answered_is_not_offered_again_until_it_is_fetched_again() {
        let mut noted = String::new();
        let mut answered = Vec::new();
        for (what, revision) in [
            (FETCHED, "a"),
            (PERMITTED, "a"),
            (FETCHED, "b"),
            (PERMITTED, "b"),
            ("rolled back", "a"),
            (FETCHED, "b"),
        ] {
            let (at, revision) = (Timestamp::UNIX_EPOCH, Some(revision.to_owned()));
            noted =
                with(Some(&noted), &PluginEvent { at, what: what.to_owned(), who: None, revision });
            let facts = Facts { noted: Some(&noted), pin: None, generation: None, status: None };
            answered.push((facts.is_answered("a"), facts.is_answered("b")));
        }
        let (no, yes) = (false, true);
        assert_eq!(answered, [(no, no), (yes, no), (yes, no), (yes, yes), (yes, yes), (yes, no)]);
    }
}
