//! Schedules that fall due: each slot is decided once, and what it starts is accepted in the same
//! transaction.
//!
//! Order of locks, that of every transaction that touches both: conversations by id, then
//! schedules. A schedule that another process decides at this moment is passed over.

mod message;

use crate::{
    accept_batch::{Lessee, MessageScope, accept_in},
    codec::read_enum,
    db::{Scope, Store, Tx},
    error::Error,
    reach::Homes,
    schedules::{SlotOutcome, read_address, read_rule},
};
use famulus_core::{
    crash,
    ids::{AgentId, ConversationId, PersonId, ScheduleId, TurnId},
    inbound::{Address, Inbound},
    schedule::{DueSlots, MissedPolicy, RuleError, due_slots},
};
use famulus_lifecycle::boxed;
use famulus_queue::{Instant, hint::Topic};
use jiff::Timestamp;
use message::inbound;
use std::collections::HashSet;
use uuid::Uuid;

pub(crate) use message::NOWHERE;
pub use message::nowhere;

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// The turns that began.
    pub turns: Vec<TurnId>,
    /// Slots that passed without one.
    pub missed: u64,
    /// When the next slot falls due; not after `now` when there was more than one sweep takes.
    pub next_due: Option<Timestamp>,
}

/// A schedule whose row this transaction holds.
pub(crate) struct Due {
    id: ScheduleId,
    person: PersonId,
    host: PersonId,
    agent: AgentId,
    conversation: ConversationId,
    name: Option<String>,
    note: String,
    zone: String,
    person_zone: String,
    origin: Option<Address>,
}

/// A slot as it is recorded, or a row of missed ones as one.
struct Slot<'a> {
    due: &'a Due,
    at: Timestamp,
    outcome: SlotOutcome,
    count: i64,
    first: Option<Instant>,
}

/// What is decided about one schedule.
pub(crate) struct Decision {
    due: Due,
    pub(crate) slots: DueSlots,
}

impl Store {
    /// Decides all slots that are due at `now`, of at most `limit` schedules, and starts a turn for
    /// each that fires.
    #[boxed]
    pub async fn fire_due(&self, now: Timestamp, limit: i64) -> Result<Fired, Error> {
        let next_due = self.next_slot().await?;
        if next_due.is_none_or(|due| due > now) {
            return Ok(Fired { next_due, ..Fired::default() });
        }
        let mut tx = self.begin(Scope::System).await?;
        let mut fired = Fired::default();
        let decisions = decide(&mut tx, &self.homes(), now, limit).await?;
        let firing = record(&mut tx, &decisions, now).await?;
        fired.missed = decisions.iter().map(|decision| decision.slots.missed_total()).sum();
        fired.turns = start(&mut tx, &firing, now).await?;
        crash::before("schedule.fire");
        tx.commit().await.map_err(Error::on("fire schedules"))?;
        crash::after("schedule.fire");
        if !fired.turns.is_empty() {
            self.hints.announce(Topic::Turn);
        }
        fired.next_due = self.next_slot().await?;
        Ok(fired)
    }

    async fn next_slot(&self) -> Result<Option<Timestamp>, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let due = sqlx::query_scalar!(
            r#"select min(next_due) as "due: Instant" from schedule
               where enabled and next_due is not null"#
        )
        .fetch_one(&mut *tx)
        .await
        .map_err(Error::on("look for the next slot"))?;
        tx.commit().await.map_err(Error::on("look for the next slot"))?;
        Ok(due.map(|due| due.0))
    }
}

struct DueRow {
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
    created_at: Instant,
    decided_until: Instant,
    host: Uuid,
    person_zone: String,
    /// Where the person is reached.
    home: Option<serde_json::Value>,
}

/// Locks the schedules that are due, and decides about their slots.
pub(crate) async fn decide(
    tx: &mut Tx,
    homes: &Homes,
    now: Timestamp,
    limit: i64,
) -> Result<Vec<Decision>, Error> {
    let conversations = sqlx::query_scalar!(
        "select id from conversation
         where id in (select conversation_id from schedule
                      where enabled and next_due <= $1 order by next_due limit $2)
         order by id for no key update",
        Instant(now) as _,
        limit,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(Error::on("lock the conversations of due schedules"))?;
    let rows = sqlx::query_as!(
        DueRow,
        r#"select s.id, s.person_id, s.agent_id, s.conversation_id, s.name, s.note, s.rule,
                  s.time_zone, s.origin, s.announce, s.missed, s.created_at as "created_at: Instant",
                  s.decided_until as "decided_until: Instant",
                  c.person_id as host, p.time_zone as person_zone,
                  (select jsonb_build_object('channel', i.channel, 'account', i.account,
                                             'chat', i.chat)
                   from identity i
                   where i.person_id = p.id and p.disabled_at is null and i.channel = any($4)
                       and i.chat is not null and i.unreachable_at is null
                   order by i.id is not distinct from p.home desc, i.used_at desc nulls last
                   limit 1) as home
           from schedule s
           join conversation c on c.id = s.conversation_id
           join person p on p.id = s.person_id
           where s.enabled and s.next_due <= $1 and s.conversation_id = any($2)
           order by s.next_due limit $3
           for no key update of s skip locked"#,
        Instant(now) as _,
        &conversations,
        limit,
        &homes.chats,
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(Error::on("lock due schedules"))?;
    let mut decisions = Vec::with_capacity(rows.len());
    for row in rows {
        let id = row.id;
        // One schedule that cannot be decided must not hold up the others.
        match decide_one(row, homes, now) {
            Ok(Ok(decision)) => decisions.push(decision),
            Ok(Err(error)) => {
                tracing::error!(schedule.id = %id, %error, "a schedule is switched off");
                switch_off(tx, id, &error.to_string()).await?;
            }
            Err(error) => {
                tracing::error!(schedule.id = %id, %error, "a schedule is left to a newer release");
                postpone(tx, id, now).await?;
            }
        }
    }
    Ok(decisions)
}

/// The inner error is a rule that can be kept no more (its zone is gone, say); the outer one is a
/// row that another release wrote.
fn decide_one(
    row: DueRow,
    homes: &Homes,
    now: Timestamp,
) -> Result<Result<Decision, RuleError>, Error> {
    let rule = read_rule(row.rule)?;
    let origin = match (read_address(row.origin)?, read_address(row.home)?) {
        // Where it was made, if anybody is reached there.
        (Some(made), Some(home)) if homes.kept.contains(&made.channel) => Some(home),
        (made, home) => made.or(home),
    };
    let origin = origin.filter(|_| row.announce);
    let policy: MissedPolicy = read_enum("the policy for missed slots", &row.missed)?;
    let (anchor, last) = (row.created_at.0, row.decided_until.0);
    Ok(due_slots(&rule, &row.time_zone, anchor, last, now, policy).map(|slots| Decision {
        slots,
        due: Due {
            id: ScheduleId(row.id),
            person: PersonId(row.person_id),
            host: PersonId(row.host),
            agent: AgentId(row.agent_id),
            conversation: ConversationId(row.conversation_id),
            name: row.name,
            note: row.note,
            zone: row.time_zone,
            person_zone: row.person_zone,
            origin,
        },
    }))
}

async fn postpone(tx: &mut Tx, schedule: Uuid, now: Timestamp) -> Result<(), Error> {
    sqlx::query!(
        "update schedule set next_due = $2::timestamptz + interval '1 minute' where id = $1",
        schedule,
        Instant(now) as _,
    )
    .execute(&mut **tx)
    .await
    .map_err(Error::on("postpone a schedule"))?;
    Ok(())
}

async fn switch_off(tx: &mut Tx, schedule: Uuid, reason: &str) -> Result<(), Error> {
    sqlx::query!(
        "update schedule set enabled = false, next_due = null, last_error = $2 where id = $1",
        schedule,
        reason,
    )
    .execute(&mut **tx)
    .await
    .map_err(Error::on("switch a schedule off"))?;
    Ok(())
}

/// Records every slot and moves the schedules on; returns what is to start. A slot that stands
/// recorded already is not started again.
pub(crate) async fn record<'a>(
    tx: &mut Tx,
    decisions: &'a [Decision],
    now: Timestamp,
) -> Result<Vec<(&'a Due, Timestamp)>, Error> {
    let mut slots: Vec<Slot<'_>> = Vec::new();
    for Decision { due, slots: decided } in decisions {
        let one = |at: &Timestamp, outcome| Slot { due, at: *at, outcome, count: 1, first: None };
        slots.extend(decided.unlisted.map(|row| Slot {
            count: i64::try_from(row.count).unwrap_or(i64::MAX),
            first: Some(Instant(row.first)),
            ..one(&row.last, SlotOutcome::Missed)
        }));
        slots.extend(decided.missed.iter().map(|at| one(at, SlotOutcome::Missed)));
        slots.extend(decided.fire.iter().map(|at| one(at, SlotOutcome::Fired)));
    }
    let recorded = sqlx::query!(
        r#"insert into schedule_slot (schedule_id, due_at, person_id, outcome, slots, first_due_at)
           select * from unnest($1::uuid[], $2::timestamptz[], $3::uuid[], $4::text[], $5::bigint[],
                                $6::timestamptz[])
           on conflict (schedule_id, due_at) do nothing
           returning schedule_id, due_at as "due_at: Instant""#,
        &slots.iter().map(|slot| slot.due.id.0).collect::<Vec<_>>(),
        &slots.iter().map(|slot| Instant(slot.at)).collect::<Vec<_>>() as &[Instant],
        &slots.iter().map(|slot| slot.due.person.0).collect::<Vec<_>>(),
        &slots.iter().map(|slot| slot.outcome.as_str().to_owned()).collect::<Vec<_>>(),
        &slots.iter().map(|slot| slot.count).collect::<Vec<_>>(),
        &slots.iter().map(|slot| slot.first).collect::<Vec<_>>() as &[Option<Instant>],
    )
    .fetch_all(&mut **tx)
    .await
    .map_err(Error::on("record slots"))?;
    // A rule without a next slot has had its last.
    sqlx::query!(
        "update schedule s
         set decided_until = $1, next_due = d.next, enabled = d.next is not null
         from unnest($2::uuid[], $3::timestamptz[]) as d (id, next) where s.id = d.id",
        Instant(now) as _,
        &decisions.iter().map(|decision| decision.due.id.0).collect::<Vec<_>>(),
        &decisions.iter().map(|decision| decision.slots.next.map(Instant)).collect::<Vec<_>>()
            as &[Option<Instant>],
    )
    .execute(&mut **tx)
    .await
    .map_err(Error::on("move schedules on"))?;
    let recorded: HashSet<(Uuid, Timestamp)> =
        recorded.into_iter().map(|row| (row.schedule_id, row.due_at.0)).collect();
    Ok(slots
        .into_iter()
        .filter(|slot| {
            slot.outcome == SlotOutcome::Fired && recorded.contains(&(slot.due.id.0, slot.at))
        })
        .map(|slot| (slot.due, slot.at))
        .collect())
}

/// Accepts the messages that start the turns, and writes the turns beside their slots.
async fn start(
    tx: &mut Tx,
    firing: &[(&Due, Timestamp)],
    now: Timestamp,
) -> Result<Vec<TurnId>, Error> {
    if firing.is_empty() {
        return Ok(Vec::new());
    }
    let inbounds: Vec<Inbound> = firing.iter().map(|(due, at)| inbound(due, *at, now)).collect();
    let scope = MessageScope::Transaction;
    let accepted = accept_in(&mut **tx, scope, &inbounds, Lessee::nobody()).await?.results;
    let mut turns: Vec<Option<Uuid>> = Vec::with_capacity(firing.len());
    for ((due, at), accepted) in firing.iter().zip(accepted) {
        turns.push(match accepted {
            Ok(accepted) => Some(accepted.turn.0),
            Err(error) => {
                tracing::error!(schedule.id = %due.id, due = %at, %error, "a slot did not start");
                None
            }
        });
    }
    sqlx::query!(
        "update schedule_slot s
         set turn_id = t.turn, outcome = case when t.turn is null then 'missed' else 'fired' end
         from unnest($1::uuid[], $2::timestamptz[], $3::uuid[]) as t (schedule, due, turn)
         where s.schedule_id = t.schedule and s.due_at = t.due",
        &firing.iter().map(|(due, _)| due.id.0).collect::<Vec<_>>(),
        &firing.iter().map(|(_, at)| Instant(*at)).collect::<Vec<_>>() as &[Instant],
        &turns as &[Option<Uuid>],
    )
    .execute(&mut **tx)
    .await
    .map_err(Error::on("note the turns of slots"))?;
    Ok(turns.into_iter().flatten().map(TurnId).collect())
}
