//! The transcript of a turn is one story: every call has one result, nothing is told twice, and
//! nothing follows the end.

use super::tables::{Call, Message, Tables, Turn};
use serde_json::Value;
use std::collections::BTreeMap;
use uuid::Uuid;

pub(super) fn check(tables: &Tables, found: &mut Vec<String>) {
    let mut calls: BTreeMap<Uuid, Vec<&Call>> = BTreeMap::new();
    for call in &tables.calls {
        calls.entry(call.turn).or_default().push(call);
    }
    for turn in tables.turns.values() {
        let messages = tables.of_turn(turn.id);
        let of_turn = calls.remove(&turn.id).unwrap_or_default();
        check_calls(&of_turn, turn, messages, found);
        check_replies(turn, messages, found);
        check_interrupted(turn, messages, found);
    }
}

fn check_calls(calls: &[&Call], turn: &Turn, messages: &[Message], found: &mut Vec<String>) {
    let mut results: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for result in messages.iter().filter(|m| m.is("tool")).flat_map(|m| m.of_type("tool_result")) {
        let id = result["call_id"].as_str().unwrap_or_default();
        results.entry(id).or_default().push(&result["output"]);
    }
    for call in calls {
        let told = messages
            .iter()
            .flat_map(|message| message.of_type("tool_call"))
            .filter(|part| part["id"] == call.provider_id.as_str())
            .count();
        if told != 1 {
            found.push(format!("call {}: stands {told} times in the transcript", call.key));
        }
        let told = results.remove(call.provider_id.as_str()).unwrap_or_default();
        // A turn that was stopped may have been in the middle of its calls.
        let missing = told.is_empty() && !turn.is_complete();
        if !missing && (told.len() != 1 || call.output.as_ref() != told.first().copied()) {
            found.push(format!(
                "call {}: its result {:?} is told as {told:?}",
                call.key, call.output
            ));
        }
    }
    for id in results.keys() {
        found.push(format!("turn {}: there is a result of {id}, which is no call", turn.id));
    }
}

fn check_replies(turn: &Turn, messages: &[Message], found: &mut Vec<String>) {
    let replies: Vec<&Message> = messages.iter().filter(|m| m.model.is_some()).collect();
    if replies.len() != turn.steps as usize {
        found.push(format!("turn {}: {} steps, {} replies", turn.id, turn.steps, replies.len()));
    }
    if !turn.is_complete() {
        return;
    }
    let last = messages.iter().rfind(|message| !message.is("user"));
    let ends = last.is_some_and(|message| {
        message.is("assistant")
            && message.model.is_some()
            && message.of_type("tool_call").next().is_none()
    });
    if !ends {
        found.push(format!("turn {}: is complete but does not end with a reply", turn.id));
    }
    let mut texts: Vec<String> = replies.iter().map(|reply| reply.text()).collect();
    texts.sort();
    for pair in texts.windows(2) {
        if pair[0] == pair[1] {
            found.push(format!("turn {}: says twice: {}", turn.id, pair[0]));
        }
    }
}

/// The scripted model says the same again, so that what was cut off is a beginning of what follows,
/// unless somebody wrote something meanwhile.
fn check_interrupted(turn: &Turn, messages: &[Message], found: &mut Vec<String>) {
    if messages.iter().filter(|message| message.is("user")).count() > 1 {
        return;
    }
    for (place, message) in messages.iter().enumerate() {
        if !message.is("assistant") || !message.is_interrupted() {
            continue;
        }
        let next = messages[place + 1..].iter().find(|m| m.is("assistant") && m.model.is_some());
        if next.is_some_and(|next| !next.text().starts_with(&message.text())) {
            found.push(format!(
                "turn {}: an interrupted part is no beginning: {}",
                turn.id,
                message.text()
            ));
        }
    }
}
