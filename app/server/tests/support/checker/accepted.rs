//! Every acknowledged message is there once, and has exactly one turn, which has ended and answers
//! it, failed over what it was asked, or was stopped after the message. What was written on a platform,
//! and what the owner was told, is read in `chats`.

use super::{
    chats,
    tables::{Tables, Turn},
};
use crate::support::{workload::Sent, world::World};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    let mut by_key: BTreeMap<&str, Vec<Uuid>> = BTreeMap::new();
    let of_chats = |turn: &Uuid| tables.turns.get(turn).is_some_and(chats::is_of_chat);
    let mut notices: BTreeSet<Uuid> = BTreeSet::new();
    for message in tables.all_messages().filter(|message| !of_chats(&message.turn)) {
        if chats::is_notice(message.external_id.as_deref()) {
            notices.insert(message.turn);
        } else if let Some(key) = &message.external_id {
            by_key.entry(key).or_default().push(message.id);
        }
    }
    let sent = world.log.sent();
    // Also of a turn that a message made fail which then moved on.
    let failing: BTreeSet<Uuid> = sent
        .iter()
        .filter(|sent| sent.script.fails)
        .flat_map(|sent| {
            let now = tables.turn_for(sent.ack.message, sent.ack.turn).map(|turn| turn.id);
            [Some(sent.ack.turn), now]
        })
        .flatten()
        .collect();
    let mut turns: BTreeSet<Uuid> = BTreeSet::new();
    for sent in &sent {
        let key = &sent.key;
        let there = by_key.remove(key.as_str()).unwrap_or_default();
        if there != [sent.ack.message] {
            found.push(format!("{key}: acknowledged as {}, stored as {there:?}", sent.ack.message));
        }
        if tables.inbox.get(key) != Some(&sent.ack.message) {
            found.push(format!("{key}: its key stands for {:?}", tables.inbox.get(key)));
        }
        let Some(turn) = tables.turn_for(sent.ack.message, sent.ack.turn) else {
            found.push(format!("{key}: is not in the turn {} that was named", sent.ack.turn));
            continue;
        };
        turns.insert(turn.id);
        let stored = tables.of_turn(turn.id).iter().find(|there| there.id == sent.ack.message);
        if let Some(stored) = stored
            && (stored.conversation != sent.conversation || !stored.is("user"))
        {
            found.push(format!("{key}: is in conversation {}", stored.conversation));
        }
        check_answered(tables, sent, turn, &failing, found);
        check_stopped(world, sent, turn, found);
    }
    for (key, there) in by_key {
        found.push(format!("{key}: stored as {there:?}, but never acknowledged"));
    }
    for turn in tables.turns.values() {
        let elsewhere = chats::is_of_chat(turn) || notices.contains(&turn.id);
        if !turns.contains(&turn.id) && turn.schedule_id.is_none() && !elsewhere {
            found.push(format!("turn {}: nobody asked for it", turn.id));
        }
        let users = tables.of_turn(turn.id).iter().filter(|message| message.is("user"));
        if users.map(|message| message.seq).min() != Some(turn.ord) {
            found.push(format!("turn {}: does not begin with its message", turn.id));
        }
    }
}

fn check_answered(
    tables: &Tables,
    sent: &Sent,
    turn: &Turn,
    failing: &BTreeSet<Uuid>,
    found: &mut Vec<String>,
) {
    let (key, number) = (&sent.key, format!("[{}]", sent.number));
    let messages = tables.of_turn(turn.id);
    match turn.state.as_str() {
        "complete" => {
            let text = tables.reply(turn.id);
            if !text.contains(&number) {
                found.push(format!("{key}: the reply of its turn does not answer it: {text}"));
            }
        }
        // The harness breaks no turn by itself.
        "failed" if failing.contains(&turn.id) => {
            // It moves once, whichever of its turns its sender was told.
            let moved = messages
                .iter()
                .filter(|message| message.id == sent.ack.message)
                .filter_map(|message| tables.turns.get(&message.moved_from?))
                .any(|from| from.successor_id == Some(turn.id));
            let began = messages.first().is_some_and(|first| first.id == sent.ack.message);
            let read = messages.iter().any(|m| m.model.is_some() && m.text().contains(&number));
            if !(moved || began || read) {
                found.push(format!(
                    "{key}: was swallowed by the failed turn {}: {:?}, {messages:?}",
                    turn.id, sent.ack
                ));
            }
        }
        // When that is right stands below.
        "cancelled" => {}
        other => found.push(format!("{key}: its turn is {other}: {:?}", turn.error)),
    }
}

/// A stop ends what was accepted before it and had not ended, and nothing that came after it.
fn check_stopped(world: &World, sent: &Sent, turn: &Turn, found: &mut Vec<String>) {
    let (key, stops) = (&sent.key, world.log.stops(sent.conversation));
    let cancelled = turn.state == "cancelled";
    if cancelled && !stops.iter().any(|stop| stop.ended > sent.during.begun) {
        found.push(format!("{key}: was stopped by nobody who came after it"));
    }
    // A turn that began behind a stop that came behind its message.
    let over = stops.iter().any(|stop| {
        sent.during.ended < stop.begun && turn.started_at.is_some_and(|at| at > stop.ended)
    });
    if over && !cancelled && turn.id == sent.ack.turn {
        found.push(format!("{key}: its turn is {} although it was stopped before", turn.state));
    }
}
