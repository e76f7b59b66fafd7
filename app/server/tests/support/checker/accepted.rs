//! Every acknowledged message is there once, and has exactly one turn, which has ended and answers
//! it.

use super::tables::Tables;
use crate::support::world::World;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    let stopped = world.log.stopped();
    let mut by_key: BTreeMap<&str, Vec<Uuid>> = BTreeMap::new();
    for message in tables.all_messages() {
        if let Some(key) = &message.external_id {
            by_key.entry(key).or_default().push(message.id);
        }
    }
    let mut turns: BTreeSet<Uuid> = BTreeSet::new();
    for sent in world.log.sent() {
        let key = &sent.key;
        let there = by_key.remove(key.as_str()).unwrap_or_default();
        if there != [sent.ack.message] {
            found.push(format!("{key}: acknowledged as {}, stored as {there:?}", sent.ack.message));
        }
        if tables.inbox.get(key) != Some(&sent.ack.message) {
            found.push(format!("{key}: its key stands for {:?}", tables.inbox.get(key)));
        }
        let of_turn = tables.of_turn(sent.ack.turn);
        let Some(stored) = of_turn.iter().find(|message| message.id == sent.ack.message) else {
            found.push(format!("{key}: is not in the turn {} that was named", sent.ack.turn));
            continue;
        };
        if stored.conversation != sent.conversation || !stored.is("user") {
            found.push(format!("{key}: is in conversation {}", stored.conversation));
        }
        turns.insert(sent.ack.turn);
        let Some(turn) = tables.turns.get(&sent.ack.turn) else {
            found.push(format!("{key}: its turn {} is gone", sent.ack.turn));
            continue;
        };
        match turn.state.as_str() {
            "complete" => {
                let text = tables.reply(turn.id);
                if !text.contains(&format!("[{}]", sent.number)) {
                    found.push(format!("{key}: the reply of its turn does not answer it: {text}"));
                }
                if !stored.seen {
                    found.push(format!("{key}: its turn ended without having read it"));
                }
            }
            "cancelled" if stopped.contains(&sent.conversation) => {}
            other => found.push(format!("{key}: its turn is {other}: {:?}", turn.error)),
        }
    }
    for (key, there) in by_key {
        found.push(format!("{key}: stored as {there:?}, but never acknowledged"));
    }
    for turn in tables.turns.values() {
        if !turns.contains(&turn.id) && turn.schedule_id.is_none() {
            found.push(format!("turn {}: nobody asked for it", turn.id));
        }
        let users = tables.of_turn(turn.id).iter().filter(|message| message.is("user"));
        if users.map(|message| message.seq).min() != Some(turn.ord) {
            found.push(format!("turn {}: does not begin with its message", turn.id));
        }
    }
}
