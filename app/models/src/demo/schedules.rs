//! Making, listing and cancelling schedules.

use super::act::{Entry, outcomes, pages, text_in};
use super::ask::Ask;
use super::memo::{Halt, Memo, Wanted};
use super::when::When;
use super::words;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde_json::{Map, Value, json};

const SCHEDULES: &str = "manage_schedules";

pub(crate) fn create(note: &str, when: &When, memo: &Memo<'_>, ask: &Ask) -> Result<String, Halt> {
    if note.is_empty() {
        return Ok("Of what? Say for example `remind me in 10 minutes to drink tea`.".to_owned());
    }
    let (key, value) = match when {
        When::Cron(cron) => ("cron", Value::from(cron.as_str())),
        When::Every(seconds) => ("every_seconds", Value::from(*seconds)),
        When::In(_) | When::Once { .. } => {
            let now = now(memo, ask)?;
            let Some(at) = when.at(&now) else {
                return Ok("That time lies beyond every calendar.".to_owned());
            };
            ("at", Value::from(at))
        }
    };
    let mut arguments = Map::new();
    arguments.insert("action".into(), "create".into());
    arguments.insert("note".into(), note.into());
    arguments.insert(key.into(), value.clone());
    let made = memo.call(Wanted::write(SCHEDULES, Value::Object(arguments)))?;
    let made = made.get("schedule").unwrap_or(&made);
    let due = due(made, ask).or_else(|| shown(value.as_str()?, ask));
    Ok(match due {
        Some(due) if when.repeats() => {
            format!("I will do it again and again: {note} (next: {due})")
        }
        Some(due) => format!("I will remind you: {note} ({due})"),
        None => format!("I will do it again and again: {note}"),
    })
}

/// When it was said; without a header the tool tells.
fn now(memo: &Memo<'_>, ask: &Ask) -> Result<Zoned, Halt> {
    if let Some(at) = &ask.at {
        return Ok(at.clone());
    }
    let told = memo.call(Wanted::read("get_time", json!({})))?;
    let text = text_in(&told, &["time", "now"]).or_else(|| told.as_str()).unwrap_or_default();
    read_instant(text)
        .ok_or_else(|| Halt::Say(format!("The clock told me `{text}`, which I cannot read.")))
}

fn read_instant(text: &str) -> Option<Zoned> {
    let offset = Zoned::strptime("%Y-%m-%dT%H:%M:%S%.f%:z", text).ok();
    let zoned = offset.or_else(|| text.parse().ok());
    zoned.or_else(|| Some(text.parse::<Timestamp>().ok()?.to_zoned(TimeZone::UTC)))
}

pub(crate) fn list(memo: &Memo<'_>, ask: &Ask) -> Result<String, Halt> {
    let schedules = listed(memo)?;
    if schedules.is_empty() {
        return Ok("There are no schedules. Make one with `remind me in 10 minutes to drink tea`."
            .to_owned());
    }
    let lines = schedules.iter().enumerate().map(|(at, schedule)| {
        let rule = rule(&schedule.whole).map(|rule| format!(", {rule}")).unwrap_or_default();
        let due = due(&schedule.whole, ask).map(|due| format!(", next: {due}")).unwrap_or_default();
        format!("{}. {}{rule}{due}", at + 1, schedule.body)
    });
    Ok(format!("Your schedules:\n{}", lines.collect::<Vec<_>>().join("\n")))
}

pub(crate) fn cancel(which: &str, memo: &Memo<'_>) -> Result<String, Halt> {
    let schedules = listed(memo)?;
    if schedules.is_empty() {
        return Ok("There are no schedules, so there is nothing to cancel.".to_owned());
    }
    let chosen = chosen(which, &schedules);
    if chosen.is_empty() {
        let names = schedules.iter().enumerate().map(|(at, s)| format!("{}. {}", at + 1, s.body));
        return Ok(format!(
            "Which one? Say for example `cancel schedule 1`.\n{}",
            names.collect::<Vec<_>>().join("\n")
        ));
    }
    let calls = chosen
        .iter()
        .map(|schedule| Wanted::write(SCHEDULES, json!({"action": "delete", "id": schedule.id})))
        .collect();
    let outputs = memo.all(calls)?;
    Ok(outcomes("Cancelled", &chosen, &outputs))
}

fn listed(memo: &Memo<'_>) -> Result<Vec<Entry>, Halt> {
    pages(SCHEDULES, json!({"action": "list"}), memo)
}

/// By `all`, by number in the list, by id, or by the words of the note if only one has them.
fn chosen<'s>(which: &str, schedules: &'s [Entry]) -> Vec<&'s Entry> {
    if which.eq_ignore_ascii_case("all") {
        return schedules.iter().collect();
    }
    if let Some(at) = which.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
        return schedules.get(at).into_iter().collect();
    }
    if let Some(schedule) = schedules.iter().find(|schedule| schedule.id == which) {
        return vec![schedule];
    }
    let notes: Vec<String> = schedules.iter().map(|schedule| schedule.body.clone()).collect();
    match *words::best_matches(which, &notes) {
        [at] => schedules.get(at).into_iter().collect(),
        _ if which.is_empty() && schedules.len() == 1 => schedules.iter().collect(),
        _ => Vec::new(),
    }
}

/// The rule in the words of the tool, wherever it keeps it.
fn rule(schedule: &Value) -> Option<String> {
    let inner = ["rule", "timing", "when", "spec"].iter().find_map(|name| schedule.get(name));
    if let Some(text) = inner.and_then(Value::as_str) {
        return Some(text.to_owned());
    }
    let inner = inner.unwrap_or(schedule);
    if let Some(cron) = text_in(inner, &["cron", "expression"]) {
        return Some(format!("cron `{cron}`"));
    }
    let seconds = ["every_seconds", "seconds"].iter().find_map(|name| inner.get(name)?.as_u64());
    seconds.map(|seconds| format!("every {seconds} s"))
}

/// When it comes next, in the zone of the person who asks.
fn due(schedule: &Value, ask: &Ask) -> Option<String> {
    const NAMES: &[&str] = &["next", "next_at", "next_due", "next_run", "due", "due_at", "at"];
    let text = text_in(schedule, NAMES)?;
    shown(text, ask).or_else(|| Some(text.to_owned()))
}

fn shown(text: &str, ask: &Ask) -> Option<String> {
    let at: Timestamp = text.parse().ok()?;
    let zone = ask.at.as_ref().map_or(TimeZone::UTC, |at| at.time_zone().clone());
    Some(at.to_zoned(zone).strftime("%a %-d %b %Y, %H:%M").to_string())
}
