//! Stores in memory and a clock set by hand, for tests. They keep what the ports promise: a write
//! happens once for its call, an id is derived from it, a person sees their own.

pub mod plugins;
mod post;
mod speaker;

pub use post::{FakePost, ways};
pub use speaker::FakeSpeaker;

use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::StoreError;
use famulus_core::ids::{KnowledgeId, PersonId, ScheduleId};
use famulus_core::knowledge::{Knowledge, KnowledgeKind, KnowledgeStore, Upsert};
use famulus_core::schedule::{
    NewSchedule, Schedule, ScheduleChange, ScheduleError, ScheduleStore, knowledge_id_of,
    schedule_id_of,
};
use famulus_core::tool::CallKey;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A clock that stands still until it is moved.
#[derive(Debug)]
pub struct HandClock(Mutex<Timestamp>);

impl HandClock {
    pub fn at(now: Timestamp) -> Arc<Self> {
        Arc::new(Self(Mutex::new(now)))
    }

    pub fn advance(&self, by: SignedDuration) {
        let mut now = self.0.lock();
        *now = now.saturating_add(by).unwrap_or(*now);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock()
    }
}

/// Knowledge in memory.
pub struct FakeKnowledge {
    clock: Arc<dyn Clock>,
    state: Mutex<KnowledgeState>,
}

#[derive(Default)]
struct KnowledgeState {
    entries: Vec<(PersonId, Knowledge)>,
    upserts: BTreeMap<CallKey, Option<Knowledge>>,
    deletes: BTreeMap<CallKey, bool>,
}

impl FakeKnowledge {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }
}

#[async_trait]
impl KnowledgeStore for FakeKnowledge {
    async fn digest(&self, person: PersonId) -> Result<Vec<Knowledge>, StoreError> {
        let state = self.state.lock();
        let own = state.entries.iter().filter(|(owner, _)| *owner == person);
        Ok(own
            .map(|(_, entry)| match entry.kind {
                KnowledgeKind::Memory => entry.clone(),
                KnowledgeKind::Scratchpad => Knowledge { body: String::new(), ..entry.clone() },
            })
            .collect())
    }

    async fn read(
        &self,
        person: PersonId,
        id: KnowledgeId,
    ) -> Result<Option<Knowledge>, StoreError> {
        let state = self.state.lock();
        let found = state.entries.iter().find(|(owner, e)| *owner == person && e.id == id);
        Ok(found.map(|(_, entry)| entry.clone()))
    }

    async fn upsert(
        &self,
        person: PersonId,
        key: CallKey,
        entry: Upsert,
    ) -> Result<Option<Knowledge>, StoreError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some(done) = state.upserts.get(&key) {
            return Ok(done.clone());
        }
        let Upsert { id, kind, title, body } = entry;
        let saved = if let Some(id) = id {
            let mut own = state.entries.iter_mut().filter(|(owner, _)| *owner == person);
            own.find(|(_, old)| old.id == id && old.kind == kind).map(|(_, old)| {
                *old = Knowledge { title, body, updated_at: now, ..old.clone() };
                old.clone()
            })
        } else {
            let id = knowledge_id_of(key);
            let new = Knowledge { id, kind, title, body, created_at: now, updated_at: now };
            state.entries.push((person, new.clone()));
            Some(new)
        };
        state.upserts.insert(key, saved.clone());
        Ok(saved)
    }

    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: KnowledgeId,
    ) -> Result<bool, StoreError> {
        let mut state = self.state.lock();
        if let Some(done) = state.deletes.get(&key) {
            return Ok(*done);
        }
        let before = state.entries.len();
        state.entries.retain(|(owner, entry)| !(*owner == person && entry.id == id));
        let deleted = state.entries.len() < before;
        state.deletes.insert(key, deleted);
        Ok(deleted)
    }
}

/// Schedules in memory. Nothing fires them.
pub struct FakeSchedules {
    clock: Arc<dyn Clock>,
    state: Mutex<ScheduleState>,
}

#[derive(Default)]
struct ScheduleState {
    schedules: Vec<Schedule>,
    changes: BTreeMap<CallKey, Option<Schedule>>,
    deletes: BTreeMap<CallKey, bool>,
}

impl FakeSchedules {
    pub fn new(clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self { clock, state: Mutex::default() })
    }
}

#[async_trait]
impl ScheduleStore for FakeSchedules {
    async fn list(&self, person: PersonId) -> Result<Vec<Schedule>, StoreError> {
        let state = self.state.lock();
        Ok(state.schedules.iter().filter(|schedule| schedule.person == person).cloned().collect())
    }

    async fn create(
        &self,
        person: PersonId,
        key: CallKey,
        new: NewSchedule,
    ) -> Result<Schedule, ScheduleError> {
        let id = schedule_id_of(key);
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some(done) = state.schedules.iter().find(|schedule| schedule.id == id) {
            return Ok(done.clone());
        }
        let NewSchedule {
            agent,
            conversation,
            name,
            note,
            rule,
            time_zone,
            origin,
            announce,
            missed,
        } = new;
        rule.validate(&time_zone, now)?;
        let schedule = Schedule {
            id,
            person,
            agent,
            conversation,
            name,
            note,
            next_due: rule.next_after(&time_zone, now, now)?,
            rule,
            time_zone,
            origin,
            announce,
            missed,
            enabled: true,
            failures: 0,
            last_error: None,
            created_at: now,
        };
        state.schedules.push(schedule.clone());
        Ok(schedule)
    }

    async fn change(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
        change: ScheduleChange,
    ) -> Result<Option<Schedule>, ScheduleError> {
        let now = self.clock.now();
        let mut state = self.state.lock();
        if let Some(done) = state.changes.get(&key) {
            return Ok(done.clone());
        }
        let found = state.schedules.iter_mut().find(|s| s.person == person && s.id == id);
        let changed = match found {
            Some(schedule) => Some(apply(schedule, change, now)?),
            None => None,
        };
        state.changes.insert(key, changed.clone());
        Ok(changed)
    }

    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
    ) -> Result<bool, StoreError> {
        let mut state = self.state.lock();
        if let Some(done) = state.deletes.get(&key) {
            return Ok(*done);
        }
        let before = state.schedules.len();
        state.schedules.retain(|schedule| !(schedule.person == person && schedule.id == id));
        let deleted = state.schedules.len() < before;
        state.deletes.insert(key, deleted);
        Ok(deleted)
    }
}

fn apply(
    schedule: &mut Schedule,
    change: ScheduleChange,
    now: Timestamp,
) -> Result<Schedule, ScheduleError> {
    let ScheduleChange { name, note, rule, time_zone, announce, missed, enabled } = change;
    let mut new = schedule.clone();
    new.name = name.map_or(new.name, |name| Some(name).filter(|name| !name.is_empty()));
    new.note = note.unwrap_or(new.note);
    new.rule = rule.unwrap_or(new.rule);
    new.time_zone = time_zone.unwrap_or(new.time_zone);
    new.announce = announce.unwrap_or(new.announce);
    new.missed = missed.unwrap_or(new.missed);
    new.enabled = enabled.unwrap_or(new.enabled);
    if new.enabled && !schedule.enabled {
        (new.failures, new.last_error) = (0, None);
    }
    new.next_due = new.rule.next_after(&new.time_zone, new.created_at, now)?;
    *schedule = new.clone();
    Ok(new)
}
