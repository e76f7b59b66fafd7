//! Schedules of the caller.

use crate::{
    app::App,
    body::{Authenticated, Json, QueryParams, id},
    handlers::{Answer, conversations, gone, json, ok, page, text},
    object::Object,
    problem::Problem,
    words::{ConversationName, WRITTEN, WRITTEN_OR_EMPTY},
};
use axum::{
    extract::{Path, State},
    http::StatusCode,
};
use famulus_channels::http::address;
use famulus_core::{
    clock::Rfc3339,
    event::{List, Viewers as _},
    ids::{ScheduleId, TurnId},
    schedule::{MissedPolicy, Rule, Schedule},
};
use famulus_store::{MAIN_AGENT, SlotInfo};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

const LIST: &str = "GET /v1/schedules";
/// Characters of a name.
const NAME: usize = 200;
/// Slots that one request lists.
const LISTED: i64 = 500;
/// Characters of a note.
const NOTE: usize = 10_000;

#[derive(Serialize, JsonSchema)]
pub(crate) struct Schedules {
    schedules: Vec<Schedule>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NewSchedule {
    /// What people call it.
    #[schemars(length(max = NAME), regex(pattern = WRITTEN_OR_EMPTY))]
    name: Option<String>,
    /// What the assistant is to do when it is due.
    #[schemars(length(max = NOTE), regex(pattern = WRITTEN))]
    note: String,
    rule: Object<Rule>,
    /// IANA name; the person's zone unless told.
    #[schemars(extend("format" = "time-zone"))]
    time_zone: Option<String>,
    /// Whether the reply is delivered; it is unless told.
    announce: Option<bool>,
    #[serde(default)]
    missed: MissedPolicy,
    /// The conversation that its turns run in; the main one unless told.
    #[schemars(with = "Option<ConversationName>")]
    conversation_id: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleChange {
    /// An empty one takes the name away.
    #[schemars(length(max = NAME), regex(pattern = WRITTEN_OR_EMPTY))]
    name: Option<String>,
    #[schemars(length(max = NOTE), regex(pattern = WRITTEN))]
    note: Option<String>,
    rule: Option<Object<Rule>>,
    #[schemars(extend("format" = "time-zone"))]
    time_zone: Option<String>,
    announce: Option<bool>,
    missed: Option<MissedPolicy>,
    enabled: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct SlotsQuery {
    /// At most this many, 50 unless told.
    #[schemars(range(min = 1, max = LISTED))]
    limit: Option<i64>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Slots {
    /// Latest first.
    slots: Vec<Slot>,
}

#[derive(Serialize, JsonSchema)]
struct Slot {
    #[schemars(with = "Rfc3339")]
    due_at: Timestamp,
    /// `fired` or `missed`.
    outcome: &'static str,
    turn_id: Option<TurnId>,
    #[schemars(with = "Rfc3339")]
    decided_at: Timestamp,
    /// How many slots this stands for: more than one only where so many were missed that they are
    /// not listed one by one. `due_at` is then the last of them.
    slots: i64,
    /// The first of them.
    #[schemars(with = "Option<Rfc3339>")]
    first_due_at: Option<Timestamp>,
}

impl From<SlotInfo> for Slot {
    fn from(slot: SlotInfo) -> Self {
        Self {
            due_at: slot.due_at,
            outcome: slot.outcome.as_str(),
            turn_id: slot.turn,
            decided_at: slot.decided_at,
            slots: slot.slots,
            first_due_at: slot.first_due_at,
        }
    }
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
) -> Answer {
    ok(&Schedules { schedules: app.api.store.schedules(caller.person.id).await? })
}

pub(crate) async fn create(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Json(new, _held): Json<NewSchedule>,
) -> Answer {
    let NewSchedule { name, note, rule, time_zone, announce, missed, conversation_id } = new;
    check_name(name.as_deref())?;
    text("note", &note, NOTE)?;
    let person = &caller.person;
    let named = conversation_id.as_deref().unwrap_or("main");
    let conversation = conversations::existing(&app, person, named).await?;
    let new = famulus_core::schedule::NewSchedule {
        agent: MAIN_AGENT,
        conversation,
        name,
        note,
        rule: rule.0,
        time_zone: time_zone.unwrap_or_else(|| person.time_zone.clone()),
        origin: Some(address(person)),
        announce: announce.unwrap_or(true),
        missed,
    };
    let made = app.api.store.create_schedule(person.id, new, app.api.clock.now()).await?;
    app.api.hub.list_changed(person.id, List::Schedules);
    json(StatusCode::CREATED, &made)
}

pub(crate) async fn change(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(schedule): Path<String>,
    Json(change, _held): Json<ScheduleChange>,
) -> Answer {
    let schedule = id::<ScheduleId>("schedule", &schedule, LIST)?;
    let ScheduleChange { name, note, rule, time_zone, announce, missed, enabled } = change;
    check_name(name.as_deref())?;
    if let Some(note) = &note {
        text("note", note, NOTE)?;
    }
    let change = famulus_core::schedule::ScheduleChange {
        name,
        note,
        rule: rule.map(|Object(rule)| rule),
        time_zone,
        announce,
        missed,
        enabled,
    };
    let person = caller.person.id;
    let now = app.api.clock.now();
    let changed = app.api.store.change_schedule(person, schedule, change, now).await?;
    let changed = changed.ok_or_else(missing)?;
    app.api.hub.list_changed(person, List::Schedules);
    ok(&changed)
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(schedule): Path<String>,
) -> Answer {
    let schedule = id::<ScheduleId>("schedule", &schedule, LIST)?;
    if !app.api.store.delete_schedule(caller.person.id, schedule).await? {
        return Err(missing());
    }
    app.api.hub.list_changed(caller.person.id, List::Schedules);
    gone()
}

pub(crate) async fn slots(
    State(app): State<Arc<App>>,
    Authenticated(caller): Authenticated,
    Path(schedule): Path<String>,
    QueryParams(asked): QueryParams<SlotsQuery>,
) -> Answer {
    let schedule = id::<ScheduleId>("schedule", &schedule, LIST)?;
    let person = caller.person.id;
    app.api.store.schedule(person, schedule).await?.ok_or_else(missing)?;
    let limit = page(asked.limit, LISTED)?;
    let slots = app.api.store.schedule_slots(person, schedule, limit).await?;
    ok(&Slots { slots: slots.into_iter().map(Into::into).collect() })
}

/// An empty name is none.
fn check_name(name: Option<&str>) -> Result<(), Problem> {
    match name {
        Some(name) if !name.is_empty() => text("name", name, NAME),
        Some(_) | None => Ok(()),
    }
}

fn missing() -> Problem {
    Problem::missing("this schedule", LIST)
}
