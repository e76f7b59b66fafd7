//! Every call that a message asked for happened as often as it may.
//!
//! A call is known by (message, position) whatever key the product gave it, so that a second key
//! for the same call is seen too.

use super::{
    chats::Stored,
    tables::{Call, Tables},
};
use crate::support::{
    counter::Counted,
    script::{Script, Word},
    world::World,
};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

type Place = (u64, usize);

/// What came of one call of one message.
struct AskedCall<'a> {
    name: String,
    /// Its rows in the record.
    calls: Vec<&'a Call>,
    requests: Vec<&'a Counted>,
    /// Its turn did everything that it was asked for.
    complete: bool,
}

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    let requests = world.counter.requests();
    let mut counted: BTreeMap<(&str, Place), Vec<&Counted>> = BTreeMap::new();
    for request in &requests {
        let place = (request.number, request.at);
        counted.entry((&request.tool, place)).or_default().push(request);
    }
    let mut calls: BTreeMap<(&str, Place), Vec<&Call>> = BTreeMap::new();
    for call in &tables.calls {
        match place_of(call) {
            Some(place) => calls.entry((&call.tool, place)).or_default().push(call),
            None => found.push(format!("call {}: nobody asked for {}", call.key, call.arguments)),
        }
    }
    let mut notes: BTreeMap<&str, usize> = BTreeMap::new();
    for body in &tables.knowledge {
        *notes.entry(body).or_default() += 1;
    }
    for (number, script, turn) in asked(world, tables) {
        let complete = tables.turns.get(&turn).is_some_and(super::tables::Turn::is_complete);
        for (at, word) in script.calls() {
            let place = (word.tool(), (number, at));
            let asked = AskedCall {
                name: format!("{} {number}.{at}", word.tool()),
                calls: calls.remove(&place).unwrap_or_default(),
                requests: counted.remove(&place).unwrap_or_default(),
                complete,
            };
            asked.check_record(found);
            match word {
                Word::A => asked.check_keyed(found),
                Word::B => asked.check_once(found),
                Word::C => {
                    asked.check_once(found);
                    asked.check_approved(tables, script.denied, found);
                }
                Word::P => asked.check_asked(found),
                Word::Note => {
                    let stored = notes.remove(format!("note {number}.{at}").as_str()).unwrap_or(0);
                    asked.check_stored(stored, found);
                }
            }
        }
    }
    for ((tool, place), requests) in counted {
        found.push(format!("{tool} {place:?}: counted {} times unasked", requests.len()));
    }
    for ((tool, place), calls) in calls {
        found.push(format!("{tool} {place:?}: recorded {} times unasked", calls.len()));
    }
    for (body, count) in notes {
        found.push(format!("memory {body:?}: stored {count} times unasked"));
    }
    for approval in &tables.approvals {
        if matches!(approval.state.as_str(), "pending" | "approved") {
            found.push(format!(
                "turn {}: an approval is still {}",
                approval.turn_id, approval.state
            ));
        }
    }
}

/// Every script that was to run, with its turn. A schedule's runs in the turn that its slot names.
fn asked(world: &World, tables: &Tables) -> Vec<(u64, Script, Uuid)> {
    let mut asked: Vec<(u64, Script, Uuid)> = world
        .log
        .sent()
        .into_iter()
        .map(|sent| {
            let turn = tables.turn_for(sent.ack.message, sent.ack.turn);
            (sent.number, sent.script, turn.map_or(sent.ack.turn, |turn| turn.id))
        })
        .collect();
    let stored = Stored::of(tables);
    for written in world.log.written() {
        if let Some(turn) = stored.turn_of(&written) {
            asked.push((written.number, written.script, turn));
        }
    }
    for scheduled in world.log.scheduled() {
        let schedules = tables.schedules.iter().filter(|row| row.note == scheduled.note);
        let turn = schedules
            .filter_map(|row| tables.slots.iter().find(|slot| slot.schedule_id == row.id))
            .find_map(|slot| slot.turn_id);
        if let Some(turn) = turn {
            asked.push((scheduled.number, scheduled.script, turn));
        }
    }
    asked
}

/// Which of the calls that were asked for a recorded one is.
fn place_of(call: &Call) -> Option<Place> {
    if let Some(note) = call.arguments["content"].as_str() {
        let (number, at) = note.strip_prefix("note ")?.split_once('.')?;
        return Some((number.parse().ok()?, at.parse().ok()?));
    }
    // Of a plugin's tool they lie within.
    let counted = call.arguments.get("parameters").unwrap_or(&call.arguments);
    let at = usize::try_from(counted["at"].as_u64()?).ok()?;
    Some((counted["n"].as_u64()?, at))
}

impl AskedCall<'_> {
    fn bad(&self, what: &str, found: &mut Vec<String>) {
        found.push(format!(
            "{}: {what} ({} calls: {:?}; {} requests; its turn is {})",
            self.name,
            self.calls.len(),
            self.calls.iter().map(|call| (&call.state, &call.output)).collect::<Vec<_>>(),
            self.requests.len(),
            if self.complete { "complete" } else { "not complete" },
        ));
    }

    fn outcome(&self) -> &str {
        self.calls.first().map_or("", |call| call.outcome())
    }

    /// It is recorded once, under the one key that ever left; and it came to an end.
    fn check_record(&self, found: &mut Vec<String>) {
        if self.calls.len() > 1 || (self.complete && self.calls.len() != 1) {
            self.bad("is not recorded once", found);
        }
        let keys: BTreeSet<&str> = self.requests.iter().map(|r| r.key.as_str()).collect();
        if keys.iter().any(|key| self.calls.iter().all(|call| call.key != *key)) {
            self.bad("left without being recorded", found);
        }
        if keys.len() > 1 {
            self.bad("left under several keys", found);
        }
        if self.complete && self.calls.iter().any(|call| call.state != "done") {
            self.bad("has no outcome", found);
        }
    }

    /// May be repeated, because the counter tells repeats by their key.
    fn check_keyed(&self, found: &mut Vec<String>) {
        if self.complete && (self.requests.is_empty() || self.outcome() != "text") {
            self.bad("did not happen", found);
        }
    }

    /// Happens at most once; if nobody knows, that is said.
    fn check_once(&self, found: &mut Vec<String>) {
        let fits = match (self.outcome(), self.requests.len()) {
            ("text", 1) | ("unknown", 0 | 1) | ("denied", 0) => true,
            ("", 0 | 1) => !self.complete,
            _ => false,
        };
        if !fits {
            self.bad("did not happen as often as is said of it", found);
        }
    }

    /// Happens once, and somebody always knows: whoever takes over asks.
    fn check_asked(&self, found: &mut Vec<String>) {
        let fits = match (self.outcome(), self.requests.len()) {
            ("text", 1) => true,
            ("" | "unknown" | "error", 0 | 1) => !self.complete,
            _ => false,
        };
        if !fits {
            self.bad("did not happen once, or nobody asked", found);
        }
    }

    /// Happens only after a yes, which is then used up.
    fn check_approved(&self, tables: &Tables, denied: bool, found: &mut Vec<String>) {
        let Some(call) = self.calls.first() else { return };
        let Some(approval) = tables.approval_of(call) else {
            self.bad("the owner was not asked", found);
            return;
        };
        let used = approval.state == "consumed" && approval.decided_via.is_some();
        let sent = !self.requests.is_empty() || matches!(self.outcome(), "text" | "unknown");
        if sent && (!used || denied) {
            self.bad(&format!("ran although its approval is {}", approval.state), found);
        }
        let closed = matches!(approval.state.as_str(), "denied" | "superseded" | "expired");
        if self.outcome() == "denied" && !closed {
            self.bad(&format!("did not run although its approval is {}", approval.state), found);
        }
    }

    fn check_stored(&self, stored: usize, found: &mut Vec<String>) {
        if stored > 1 || (self.complete && (stored != 1 || self.outcome() != "json")) {
            self.bad(&format!("is stored {stored} times"), found);
        }
    }
}
