//! Schedules: made, changed, moved to another zone, and told how their turns ended.
//!
//! A rule is checked before it is stored. `decided_until` is the instant up to which slots were
//! decided; `next_due` is the first slot behind it, computed whenever either the rule or that
//! instant moves, and null while the schedule is off. Which slots happen is decided in
//! [`crate::sweep`].

mod outcome;
mod write;

pub(crate) use outcome::outcome;
pub(crate) use write::{Rezoned, rezone};

use crate::{
    codec::read_enum,
    db::{Scope, Store, Tx},
    error::Error,
    idempotency,
};
use async_trait::async_trait;
use famulus_core::{
    StoreError,
    ids::{AgentId, ConversationId, PersonId, ScheduleId, TurnId},
    inbound::Address,
    schedule::{
        NewSchedule, Rule, Schedule, ScheduleChange, ScheduleError, ScheduleStore, schedule_id_of,
    },
    tool::CallKey,
};
use famulus_lifecycle::boxed;
use famulus_queue::{Instant, hint::Topic};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use write::{Updated, delete, insert, update};

/// Times that a change lets due slots go first.
const TRIES: usize = 3;
/// Schedules whose slots are decided then.
const AT_ONCE: i64 = 100;

/// What became of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlotOutcome {
    Fired,
    Missed,
}

impl SlotOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fired => "fired",
            Self::Missed => "missed",
        }
    }
}

/// A slot that was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotInfo {
    pub due_at: Timestamp,
    pub outcome: SlotOutcome,
    pub turn: Option<TurnId>,
    pub decided_at: Timestamp,
    /// How many slots this stands for: more than one only where so many were missed that they are
    /// not listed one by one. `due_at` is then the last of them.
    pub slots: i64,
    /// The first of them.
    pub first_due_at: Option<Timestamp>,
}

struct Row {
    id: Uuid,
    person_id: Uuid,
    agent_id: Uuid,
    conversation_id: Uuid,
    name: Option<String>,
    note: String,
    rule: serde_json::Value,
    time_zone: String,
    origin: Option<serde_json::Value>,
    announce: bool,
    missed: String,
    enabled: bool,
    failures: i32,
    last_error: Option<String>,
    next_due: Option<Instant>,
    created_at: Instant,
}

impl TryFrom<Row> for Schedule {
    type Error = Error;

    fn try_from(row: Row) -> Result<Self, Error> {
        Ok(Self {
            id: ScheduleId(row.id),
            person: PersonId(row.person_id),
            agent: AgentId(row.agent_id),
            conversation: ConversationId(row.conversation_id),
            name: row.name,
            note: row.note,
            rule: read_rule(row.rule)?,
            time_zone: row.time_zone,
            origin: read_address(row.origin)?,
            announce: row.announce,
            missed: read_enum("the policy for missed slots", &row.missed)?,
            enabled: row.enabled,
            failures: row.failures,
            last_error: row.last_error,
            next_due: row.next_due.map(|at| at.0),
            created_at: row.created_at.0,
        })
    }
}

pub(crate) fn read_rule(rule: serde_json::Value) -> Result<Rule, Error> {
    serde_json::from_value(rule).map_err(Error::unreadable("a schedule's rule"))
}

pub(crate) fn read_address(address: Option<serde_json::Value>) -> Result<Option<Address>, Error> {
    address.map(serde_json::from_value).transpose().map_err(Error::unreadable("an address"))
}

impl From<Error> for ScheduleError {
    fn from(error: Error) -> Self {
        Self::Store(error.into())
    }
}

fn still_due() -> Error {
    Error::Unavailable {
        operation: "change a schedule while its slots fall due",
        source: sqlx::Error::RowNotFound,
    }
}

/// For the model: writes carry the call's key.
#[async_trait]
impl ScheduleStore for Store {
    async fn list(&self, person: PersonId) -> Result<Vec<Schedule>, StoreError> {
        Ok(self.schedules(person).await?)
    }

    async fn create(
        &self,
        person: PersonId,
        key: CallKey,
        new: NewSchedule,
    ) -> Result<Schedule, ScheduleError> {
        let now = self.queue.now().await.map_err(Error::from)?;
        let mut tx = self.begin(Scope::Person(person)).await?;
        if let Some(earlier) = idempotency::take(&mut tx, person, key).await? {
            return Ok(earlier);
        }
        let made = insert(&mut tx, person, schedule_id_of(key), new, now).await?;
        idempotency::commit(tx, key, &made).await?;
        self.hints.announce(Topic::Control);
        Ok(made)
    }

    async fn change(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
        change: ScheduleChange,
    ) -> Result<Option<Schedule>, ScheduleError> {
        let now = self.queue.now().await.map_err(Error::from)?;
        let mut change = change;
        for _ in 0..TRIES {
            let mut tx = self.begin(Scope::Person(person)).await?;
            if let Some(earlier) = idempotency::take(&mut tx, person, key).await? {
                return Ok(earlier);
            }
            match update(&mut tx, person, id, &change, now).await? {
                Updated::Done(changed) => {
                    let changed = changed.map(|schedule| *schedule);
                    idempotency::commit(tx, key, &changed).await?;
                    self.hints.announce(Topic::Control);
                    return Ok(changed);
                }
                Updated::SlotIsDue => {
                    self.decide_first(tx, &mut change, now).await?;
                }
            }
        }
        Err(still_due().into())
    }

    async fn delete(
        &self,
        person: PersonId,
        key: CallKey,
        id: ScheduleId,
    ) -> Result<bool, StoreError> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        if let Some(earlier) = idempotency::take(&mut tx, person, key).await? {
            return Ok(earlier);
        }
        let was_there = delete(&mut tx, person, id).await?;
        idempotency::commit(tx, key, &was_there).await?;
        self.hints.announce(Topic::Control);
        Ok(was_there)
    }
}

/// For people. `now` is the caller's clock, from which the first slot is computed.
impl Store {
    /// A person's schedules, in order of creation.
    #[boxed]
    pub async fn schedules(&self, person: PersonId) -> Result<Vec<Schedule>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query_as!(
            Row,
            r#"select id, person_id, agent_id, conversation_id, name, note, rule, time_zone,
                      origin, announce, missed, enabled, failures, last_error,
                      next_due as "next_due: Instant", created_at as "created_at: Instant"
               from schedule where person_id = $1 order by created_at, id"#,
            person.0,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read schedules"))?;
        tx.commit().await.map_err(Error::on("read schedules"))?;
        rows.into_iter().map(Schedule::try_from).collect()
    }

    /// One of a person's schedules.
    #[boxed]
    pub async fn schedule(
        &self,
        person: PersonId,
        id: ScheduleId,
    ) -> Result<Option<Schedule>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let row = sqlx::query_as!(
            Row,
            r#"select id, person_id, agent_id, conversation_id, name, note, rule, time_zone,
                      origin, announce, missed, enabled, failures, last_error,
                      next_due as "next_due: Instant", created_at as "created_at: Instant"
               from schedule where id = $1 and person_id = $2"#,
            id.0,
            person.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("read a schedule"))?;
        tx.commit().await.map_err(Error::on("read a schedule"))?;
        row.map(Schedule::try_from).transpose()
    }

    /// Makes a schedule in one of the person's conversations.
    ///
    /// # Errors
    /// [`ScheduleError::Rule`] when the rule or the zone cannot be kept; the store refuses when the
    /// conversation is not there or is somebody else's.
    #[boxed]
    pub async fn create_schedule(
        &self,
        person: PersonId,
        new: NewSchedule,
        now: Timestamp,
    ) -> Result<Schedule, ScheduleError> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        sqlx::query_scalar!(
            r#"select 1 as "one!" from conversation where id = $1"#,
            new.conversation.0,
        )
        .fetch_optional(&mut *tx)
        .await
        .map_err(Error::on("find the schedule's conversation"))?
        .ok_or(Error::Refused {
            operation: "make a schedule in a conversation that is not the person's",
            source: sqlx::Error::RowNotFound,
        })?;
        let made = insert(&mut tx, person, ScheduleId::new(), new, now).await?;
        tx.commit().await.map_err(Error::on("make a schedule"))?;
        self.hints.announce(Topic::Control);
        Ok(made)
    }

    /// Changes a schedule; `None` when it is not there.
    ///
    /// # Errors
    /// [`ScheduleError::Rule`] when what it would become cannot be kept.
    #[boxed]
    pub async fn change_schedule(
        &self,
        person: PersonId,
        id: ScheduleId,
        change: ScheduleChange,
        now: Timestamp,
    ) -> Result<Option<Schedule>, ScheduleError> {
        let mut change = change;
        for _ in 0..TRIES {
            let mut tx = self.begin(Scope::Person(person)).await?;
            match update(&mut tx, person, id, &change, now).await? {
                Updated::Done(changed) => {
                    let changed = changed.map(|schedule| *schedule);
                    tx.commit().await.map_err(Error::on("change a schedule"))?;
                    self.hints.announce(Topic::Control);
                    return Ok(changed);
                }
                Updated::SlotIsDue => {
                    self.decide_first(tx, &mut change, now).await?;
                }
            }
        }
        Err(still_due().into())
    }

    /// Decides the slots that are due, by the rules as they are, before one of those rules changes.
    async fn decide_first(
        &self,
        tx: Tx,
        change: &mut ScheduleChange,
        now: Timestamp,
    ) -> Result<(), Error> {
        // A sweep passes over what another transaction has locked, so this one must be gone.
        tx.rollback().await.map_err(Error::on("let a slot go first"))?;
        self.fire_due(now, AT_ONCE).await?;
        // Its last slot switches a schedule off, but the change gives it others.
        change.enabled.get_or_insert(true);
        Ok(())
    }

    /// Deletes a schedule with the record of its slots; false when it was not there.
    #[boxed]
    pub async fn delete_schedule(&self, person: PersonId, id: ScheduleId) -> Result<bool, Error> {
        let mut tx = self.begin(Scope::Person(person)).await?;
        let was_there = delete(&mut tx, person, id).await?;
        tx.commit().await.map_err(Error::on("delete a schedule"))?;
        self.hints.announce(Topic::Control);
        Ok(was_there)
    }

    /// What became of a schedule's slots, latest first.
    #[boxed]
    pub async fn schedule_slots(
        &self,
        person: PersonId,
        id: ScheduleId,
        limit: i64,
    ) -> Result<Vec<SlotInfo>, Error> {
        let mut tx = self.begin_relaxed(Scope::Person(person)).await?;
        let rows = sqlx::query!(
            r#"select due_at as "due_at: Instant", outcome, turn_id,
                      decided_at as "decided_at: Instant", slots,
                      first_due_at as "first_due_at: Instant"
               from schedule_slot where schedule_id = $1 and person_id = $2
               order by due_at desc limit $3"#,
            id.0,
            person.0,
            limit,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(Error::on("read a schedule's slots"))?;
        tx.commit().await.map_err(Error::on("read a schedule's slots"))?;
        rows.into_iter()
            .map(|row| {
                Ok(SlotInfo {
                    due_at: row.due_at.0,
                    outcome: read_enum("a slot's outcome", &row.outcome)?,
                    turn: row.turn_id.map(TurnId),
                    decided_at: row.decided_at.0,
                    slots: row.slots,
                    first_due_at: row.first_due_at.map(|at| at.0),
                })
            })
            .collect()
    }
}
