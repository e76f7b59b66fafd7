//! `manage_schedules`: what the assistant is to do later, once or again and again.
//!
//! Only a turn that the owner or a member began may create or change schedules. A turn that a
//! schedule began could otherwise multiply itself, and a stranger's message or a callback could
//! plant work that runs for ever. Such a turn may still list and delete: that is how a schedule
//! ends itself when its purpose is fulfilled.
//!
//! Deleting does not ask: the answer holds the whole schedule, from which it can be created again.

use crate::builtin::Ports;
use crate::schema::schema_of;
use crate::tool::{Policy, Tool, ToolError, filled, json, typed};
use crate::{moment, paging};
use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::ids::ScheduleId;
use famulus_core::message::Provenance;
use famulus_core::schedule::{
    MissedPolicy, NewSchedule, Rule, RuleError, Schedule, ScheduleChange, ScheduleStore,
    schedule_id_of,
};
use famulus_core::tool::{CallContext, ToolOutput};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// Characters of a name.
const LONGEST_NAME: usize = 200;
/// Characters of a note: it begins a turn, as a message would.
const LONGEST_NOTE: usize = 4_000;

pub(super) struct ManageSchedules {
    clock: Arc<dyn Clock>,
    store: Arc<dyn ScheduleStore>,
}

impl ManageSchedules {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { clock: Arc::clone(&ports.clock), store: Arc::clone(&ports.schedules) }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    Create,
    Update,
    Delete,
    List,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    action: Action,
    #[serde(default, deserialize_with = "filled")]
    id: Option<String>,
    /// A few words to know it by.
    #[serde(default, deserialize_with = "filled")]
    name: Option<String>,
    /// What you are to do then.
    #[serde(default, deserialize_with = "filled")]
    note: Option<String>,
    /// Five fields, in time_zone.
    #[serde(default, deserialize_with = "filled")]
    cron: Option<String>,
    /// At least 60.
    every_seconds: Option<i64>,
    /// Once, for example 2026-05-01T09:00 in time_zone.
    #[serde(default, deserialize_with = "filled")]
    at: Option<String>,
    /// IANA name; the person's zone if left out.
    #[serde(default, deserialize_with = "filled")]
    time_zone: Option<String>,
    /// Whether the person gets the reply (the default).
    announce: Option<bool>,
    /// When nothing ran at the time: run once afterwards (the default), or skip.
    missed: Option<MissedPolicy>,
    /// false pauses, true resumes.
    enabled: Option<bool>,
    /// Where to go on: the next_offset of the last answer.
    offset: Option<usize>,
}

const POLICY: [Policy; 4] = [
    Policy::keyed_write("create"),
    Policy::keyed_write("update"),
    Policy::keyed_write("delete"),
    Policy::read("list"),
];

#[async_trait]
impl Tool for ManageSchedules {
    fn name(&self) -> &'static str {
        "manage_schedules"
    }

    fn description(&self) -> &'static str {
        "Do something later, once or repeatedly. create takes note and exactly one of cron, \
         every_seconds and at; update takes id and what changes."
    }

    fn schema(&self) -> Value {
        schema_of::<Arguments>()
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = typed(arguments)?;
        match arguments.action {
            Action::Create => self.create(arguments, context).await,
            Action::Update => self.update(arguments, context).await,
            Action::Delete => self.delete(&arguments, context).await,
            Action::List => self.list(&arguments, context).await,
        }
    }
}

impl ManageSchedules {
    async fn create(
        &self,
        arguments: Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        may_plan(context.began_by)?;
        if arguments.id.is_some() {
            return Err(ToolError::call(
                "`id` does not belong to create; use update to change one",
            ));
        }
        if arguments.enabled == Some(false) {
            return Err(ToolError::call("a new schedule is enabled; create it when it is wanted"));
        }
        let (tz, time_zone) = moment::zone(arguments.zone(&context.person.time_zone))?;
        let note = checked_note(arguments.note.as_deref())?
            .ok_or_else(|| ToolError::call("`note` is missing or blank"))?;
        let rule = arguments.rule(&tz)?.ok_or_else(|| {
            ToolError::call("give exactly one of `cron`, `every_seconds` and `at`")
        })?;
        if let Err(error) = rule.validate(&time_zone, self.clock.now()) {
            // A repeat of a call that did its work before its time came is no mistake.
            let made = schedule_id_of(context.key);
            return match (error, self.find(made, context).await?) {
                (RuleError::Past { .. }, Some(schedule)) => json(&shown(&schedule)),
                (error, _) => Err(error.into()),
            };
        }
        let new = NewSchedule {
            agent: context.agent,
            conversation: context.conversation,
            name: checked_name(arguments.name)?,
            note,
            rule,
            time_zone,
            origin: context.origin.clone(),
            announce: arguments.announce.unwrap_or(true),
            missed: arguments.missed.unwrap_or_default(),
        };
        json(&shown(&self.store.create(context.person.id, context.key, new).await?))
    }

    async fn update(
        &self,
        arguments: Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        may_plan(context.began_by)?;
        let id = arguments.id()?;
        let old = self.find(id, context).await?.ok_or_else(|| unknown(id))?;
        let (tz, time_zone) = moment::zone(arguments.zone(&old.time_zone))?;
        let change = ScheduleChange {
            name: checked_name(arguments.name.clone())?,
            note: checked_note(arguments.note.as_deref())?,
            rule: arguments.rule(&tz)?,
            time_zone: (time_zone != old.time_zone).then_some(time_zone.clone()),
            announce: arguments.announce,
            missed: arguments.missed,
            enabled: arguments.enabled,
        };
        if change == ScheduleChange::default() && arguments.time_zone.is_none() {
            return Err(ToolError::call(
                "nothing to change; give at least one of name, note, cron, every_seconds, at, time_zone, announce, missed, enabled",
            ));
        }
        let rule = change.rule.as_ref().unwrap_or(&old.rule);
        // A repeat of this very change is no mistake, though its time may have passed by now.
        let is_new = change.rule.as_ref().is_some_and(|rule| *rule != old.rule);
        let is_resumed = change.enabled == Some(true) && !old.enabled;
        if is_new || change.time_zone.is_some() || is_resumed {
            match rule.validate(&time_zone, self.clock.now()) {
                Err(RuleError::Past { .. }) if !is_new && !is_resumed => {}
                checked => checked?,
            }
        }
        let changed = self.store.change(context.person.id, context.key, id, change).await?;
        json(&shown(&changed.ok_or_else(|| unknown(id))?))
    }

    async fn delete(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let id = arguments.id()?;
        let old = self.find(id, context).await?;
        if !self.store.delete(context.person.id, context.key, id).await? {
            return Err(unknown(id));
        }
        // A repeat finds the row gone, and says so of the id alone.
        json(&json!({"deleted": old.map_or_else(|| json!({"id": id}), |old| shown(&old))}))
    }

    async fn list(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<ToolOutput, ToolError> {
        let wanted = arguments.id.is_some().then(|| arguments.id()).transpose()?;
        let all = self.store.list(context.person.id).await?;
        let shown: Vec<Value> = all
            .iter()
            .filter(|schedule| wanted.is_none_or(|id| schedule.id == id))
            .map(shown)
            .collect();
        if let (Some(id), true) = (wanted, shown.is_empty()) {
            return Err(unknown(id));
        }
        let (entries, next) = paging::entries(shown, arguments.offset.unwrap_or(0));
        let mut answer = json!({ "entries": entries });
        if let Some(next) = next {
            answer["next_offset"] = next.into();
        }
        json(&answer)
    }

    async fn find(
        &self,
        id: ScheduleId,
        context: &CallContext,
    ) -> Result<Option<Schedule>, ToolError> {
        let all = self.store.list(context.person.id).await?;
        Ok(all.into_iter().find(|schedule| schedule.id == id))
    }
}

/// Whether a turn may leave work for later, by who began it.
fn may_plan(began_by: Provenance) -> Result<(), ToolError> {
    match began_by {
        Provenance::Owner | Provenance::Member => Ok(()),
        Provenance::Contact | Provenance::Assistant | Provenance::Tool | Provenance::System => {
            Err(ToolError::call(
                "only a turn that the person began with a message of their own may create or change schedules; tell them what you would plan, and let them ask for it",
            ))
        }
    }
}

impl Arguments {
    fn id(&self) -> Result<ScheduleId, ToolError> {
        let text = self.id.as_deref().map(str::trim);
        let text = text.ok_or_else(|| ToolError::call("`id` is missing; `list` shows the ids"))?;
        text.parse()
            .map_err(|_| ToolError::call(format!("`{text}` is not an id; `list` shows the ids")))
    }

    fn zone<'a>(&'a self, otherwise: &'a str) -> &'a str {
        self.time_zone.as_deref().map_or(otherwise, str::trim)
    }

    /// The rule that the arguments name, if any.
    fn rule(&self, tz: &jiff::tz::TimeZone) -> Result<Option<Rule>, ToolError> {
        match (self.cron.as_deref(), self.every_seconds, self.at.as_deref()) {
            (None, None, None) => Ok(None),
            (Some(cron), None, None) => Ok(Some(Rule::Cron { expression: cron.trim().to_owned() })),
            (None, Some(seconds), None) => Ok(Some(Rule::Every { seconds })),
            (None, None, Some(at)) => Ok(Some(Rule::At { at: moment::read(at, tz)? })),
            (_, _, _) => Err(ToolError::call(
                "give exactly one of `cron`, `every_seconds` and `at`, not several",
            )),
        }
    }
}

/// A note that may be stored; `None` when there is none.
fn checked_note(note: Option<&str>) -> Result<Option<String>, ToolError> {
    let Some(note) = note else { return Ok(None) };
    let length = note.chars().count();
    if length > LONGEST_NOTE {
        return Err(ToolError::Call(format!(
            "`note` has {length} characters, at most {LONGEST_NOTE} are kept; shorten it, or keep the details in a scratchpad page"
        )));
    }
    if note.contains('\0') {
        return Err(ToolError::call("`note` contains the character U+0000; leave it out"));
    }
    Ok(Some(note.to_owned()))
}

fn checked_name(name: Option<String>) -> Result<Option<String>, ToolError> {
    let Some(name) = name else { return Ok(None) };
    let length = name.chars().count();
    if length > LONGEST_NAME || name.chars().any(char::is_control) {
        return Err(ToolError::Call(format!(
            "`name` is one line of at most {LONGEST_NAME} characters; this one has {length}; put what is to be done into `note`"
        )));
    }
    Ok(Some(name))
}

fn unknown(id: ScheduleId) -> ToolError {
    ToolError::Call(format!("there is no schedule with id {id}; `list` shows the ids"))
}

/// A schedule as the model reads it, times in the schedule's zone.
fn shown(schedule: &Schedule) -> Value {
    let zone = schedule.time_zone.as_str();
    let mut shown = json!({"id": schedule.id, "note": schedule.note});
    if let Some(name) = &schedule.name {
        shown["name"] = name.as_str().into();
    }
    match &schedule.rule {
        Rule::Cron { expression } => shown["cron"] = expression.as_str().into(),
        Rule::Every { seconds } => shown["every_seconds"] = (*seconds).into(),
        Rule::At { at } => shown["at"] = moment::written(*at, zone).into(),
    }
    shown["time_zone"] = zone.into();
    shown["next"] = schedule.next_due.map(|at| moment::written(at, zone)).into();
    shown["announce"] = schedule.announce.into();
    shown["missed"] = schedule.missed.as_str().into();
    shown["enabled"] = schedule.enabled.into();
    if schedule.failures > 0 {
        shown["failures"] = schedule.failures.into();
        shown["last_error"] = schedule.last_error.as_deref().into();
    }
    shown
}

#[cfg(test)]
mod tests;
