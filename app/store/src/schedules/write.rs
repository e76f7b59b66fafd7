//! Rows of schedules, written: checked first, with the next slot computed.

use super::{Row, read_rule};
use crate::{codec::without_nul, error::Error};
use famulus_core::{
    ids::{PersonId, ScheduleId},
    schedule::{self, NewSchedule, Rule, Schedule, ScheduleChange, ScheduleError, canonical_zone},
};
use famulus_queue::Instant;
use jiff::Timestamp;
use serde::Serialize;
use sqlx::PgConnection;
use uuid::Uuid;

/// Whether a person's schedules moved to another zone.
pub(crate) enum Rezoned {
    Done,
    /// A slot of the old zone is due and not yet decided: nothing may move before it is.
    SlotsAreDue,
}

/// Whether a schedule was changed.
pub(super) enum Updated {
    /// `None` when it is not there.
    Done(Option<Box<Schedule>>),
    /// A slot is due and not yet decided: no rule may change before it is.
    SlotIsDue,
}

pub(super) async fn insert(
    conn: &mut PgConnection,
    person: PersonId,
    id: ScheduleId,
    new: NewSchedule,
    now: Timestamp,
) -> Result<Schedule, ScheduleError> {
    let now = to_micros(now);
    let rule = storable(new.rule);
    rule.validate(&new.time_zone, now)?;
    let zone = canonical_zone(&new.time_zone)?;
    let next_due = rule.next_after(&zone, now, now)?;
    let row = sqlx::query_as!(
        Row,
        r#"insert into schedule (id, person_id, agent_id, conversation_id, note, rule, time_zone,
                                 origin, announce, missed, decided_until, next_due, created_at,
                                 name)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $11, $13)
           returning id, person_id, agent_id, conversation_id, name, note, rule, time_zone, origin,
                     announce, missed, enabled, failures, last_error,
                     next_due as "next_due: Instant", created_at as "created_at: Instant""#,
        id.0,
        person.0,
        new.agent.0,
        new.conversation.0,
        without_nul(&new.note),
        to_json(&rule)?,
        zone,
        new.origin.as_ref().map(to_json).transpose()?,
        new.announce,
        new.missed.as_str(),
        Instant(now) as _,
        next_due.map(Instant) as _,
        name_of(new.name.as_deref()),
    )
    .fetch_one(conn)
    .await
    .map_err(Error::on("make a schedule"))?;
    Ok(row.try_into()?)
}

/// When the rule, the zone or the switch changes, the future is computed anew from `now`: what has
/// passed stays as it was decided, what is due is decided first, and nothing else that lies behind
/// is made up for.
pub(super) async fn update(
    conn: &mut PgConnection,
    person: PersonId,
    id: ScheduleId,
    change: &ScheduleChange,
    now: Timestamp,
) -> Result<Updated, ScheduleError> {
    let now = to_micros(now);
    let Some(mut schedule) = locked(conn, person, id).await? else {
        return Ok(Updated::Done(None));
    };
    let is_due = schedule.next_due.is_some_and(|due| due <= now);
    let ScheduleChange { name, note, rule, time_zone, announce, missed, enabled } = change.clone();
    let moves = rule.is_some() || time_zone.is_some();
    let switched = enabled.is_some_and(|enabled| enabled != schedule.enabled);
    if let Some(name) = name {
        schedule.name = name_of(Some(&name));
    }
    schedule.note = note.as_deref().map_or(schedule.note, without_nul);
    schedule.rule = rule.map_or(schedule.rule, storable);
    schedule.time_zone = match time_zone {
        Some(zone) => canonical_zone(&zone)?,
        None => schedule.time_zone,
    };
    schedule.announce = announce.unwrap_or(schedule.announce);
    schedule.missed = missed.unwrap_or(schedule.missed);
    schedule.enabled = enabled.unwrap_or(schedule.enabled);
    let mut decided_until = None;
    if moves || switched {
        if schedule.enabled || moves {
            schedule.rule.validate(&schedule.time_zone, now)?;
        }
        if is_due {
            return Ok(Updated::SlotIsDue);
        }
        decided_until = Some(now);
        schedule.next_due = if schedule.enabled {
            schedule.rule.next_after(&schedule.time_zone, schedule.created_at, now)?
        } else {
            None
        };
    }
    if switched && schedule.enabled {
        schedule.failures = 0;
        schedule.last_error = None;
    }
    sqlx::query!(
        "update schedule set note = $2, rule = $3, time_zone = $4, announce = $5, missed = $6,
                enabled = $7, failures = $8, last_error = $9, next_due = $10,
                decided_until = coalesce($11, decided_until), name = $12
         where id = $1",
        id.0,
        schedule.note,
        to_json(&schedule.rule)?,
        schedule.time_zone,
        schedule.announce,
        schedule.missed.as_str(),
        schedule.enabled,
        schedule.failures,
        schedule.last_error,
        schedule.next_due.map(Instant) as _,
        decided_until.map(Instant) as _,
        schedule.name,
    )
    .execute(conn)
    .await
    .map_err(Error::on("change a schedule"))?;
    Ok(Updated::Done(Some(Box::new(schedule))))
}

async fn locked(
    conn: &mut PgConnection,
    person: PersonId,
    id: ScheduleId,
) -> Result<Option<Schedule>, Error> {
    sqlx::query_as!(
        Row,
        r#"select id, person_id, agent_id, conversation_id, name, note, rule, time_zone, origin,
                  announce, missed, enabled, failures, last_error,
                  next_due as "next_due: Instant", created_at as "created_at: Instant"
           from schedule where id = $1 and person_id = $2 for no key update"#,
        id.0,
        person.0,
    )
    .fetch_optional(conn)
    .await
    .map_err(Error::on("read a schedule"))?
    .map(Schedule::try_from)
    .transpose()
}

pub(super) async fn delete(
    conn: &mut PgConnection,
    person: PersonId,
    id: ScheduleId,
) -> Result<bool, Error> {
    let done =
        sqlx::query!("delete from schedule where id = $1 and person_id = $2", id.0, person.0)
            .execute(conn)
            .await
            .map_err(Error::on("delete a schedule"))?;
    Ok(done.rows_affected() == 1)
}

/// Moves the person's wall-clock schedules from the old zone to the new one, from now on, in the
/// transaction that moves the person.
pub(crate) async fn rezone(
    conn: &mut PgConnection,
    person: PersonId,
    old: &str,
    new: &str,
) -> Result<Rezoned, Error> {
    let rows = sqlx::query!(
        r#"select id, rule, time_zone, enabled, next_due as "next_due: Instant",
                  created_at as "created_at: Instant", now() as "now!: Instant"
           from schedule where person_id = $1 and rule->>'kind' = 'cron'
           order by id for no key update"#,
        person.0,
    )
    .fetch_all(&mut *conn)
    .await
    .map_err(Error::on("read the schedules to move"))?;
    let mut moving: Vec<(Uuid, Option<Instant>)> = Vec::new();
    let mut target = String::new();
    for row in rows {
        let rule = read_rule(row.rule)?;
        let moved = schedule::rezone(&rule, &row.time_zone, old, new).and_then(|zone| {
            let Some(zone) = zone else { return Ok(None) };
            let next = rule.next_after(&zone, row.created_at.0, row.now.0)?;
            Ok(Some((zone, next)))
        });
        match moved {
            Ok(None) => {}
            Ok(Some(_)) if row.next_due.is_some_and(|due| due <= row.now) => {
                return Ok(Rezoned::SlotsAreDue);
            }
            Ok(Some((zone, next))) => {
                target = zone;
                moving.push((row.id, next.filter(|_| row.enabled).map(Instant)));
            }
            Err(error) => {
                tracing::warn!(schedule.id = %row.id, %error, "a schedule keeps its old zone");
            }
        }
    }
    if moving.is_empty() {
        return Ok(Rezoned::Done);
    }
    let (ids, due): (Vec<Uuid>, Vec<Option<Instant>>) = moving.into_iter().unzip();
    sqlx::query!(
        "update schedule s set time_zone = $1, next_due = m.due, decided_until = now()
         from unnest($2::uuid[], $3::timestamptz[]) as m (id, due) where s.id = m.id",
        target,
        &ids,
        &due as &[Option<Instant>],
    )
    .execute(conn)
    .await
    .map_err(Error::on("move the schedules"))?;
    Ok(Rezoned::Done)
}

/// A name, unless it is blank.
fn name_of(name: Option<&str>) -> Option<String> {
    name.map(without_nul).filter(|name| !name.trim().is_empty())
}

/// What Postgres keeps of an instant; a rule and its slots must agree on it.
fn to_micros(at: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(at.as_microsecond()).unwrap_or(at)
}

fn storable(rule: Rule) -> Rule {
    match rule {
        Rule::At { at } => Rule::At { at: to_micros(at) },
        other @ (Rule::Cron { .. } | Rule::Every { .. }) => other,
    }
}

/// Only for values whose text was checked to hold no NUL, which jsonb refuses.
fn to_json<T: Serialize>(value: &T) -> Result<serde_json::Value, Error> {
    serde_json::to_value(value).map_err(Error::unreadable("a schedule"))
}
