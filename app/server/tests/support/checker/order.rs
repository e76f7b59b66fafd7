//! The turns of a conversation run one after another, in the order in which their messages were
//! accepted.

use super::tables::{Tables, Turn};
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) fn check(tables: &Tables, found: &mut Vec<String>) {
    let mut by_conversation: BTreeMap<Uuid, Vec<&Turn>> = BTreeMap::new();
    for turn in tables.turns.values() {
        by_conversation.entry(turn.conversation_id).or_default().push(turn);
    }
    for turns in by_conversation.values_mut() {
        turns.sort_by_key(|turn| turn.ord);
        for pair in turns.windows(2) {
            let [before, after] = pair else { continue };
            if before.ended_at.is_none() || after.started_at < before.ended_at {
                found.push(format!(
                    "turn {} began at {:?}, before turn {} had ended at {:?}",
                    after.id, after.started_at, before.id, before.ended_at
                ));
            }
        }
    }
    let mut places: BTreeSet<(Uuid, i64)> = BTreeSet::new();
    for message in tables.all_messages() {
        if !places.insert((message.conversation, message.seq)) {
            found.push(format!("message {}: number {} is taken", message.id, message.seq));
        }
        if tables.turns.get(&message.turn).is_none_or(|turn| turn.ord != message.turn_ord) {
            found.push(format!("message {}: stands in another place than its turn", message.id));
        }
    }
    for conversation in &tables.conversations {
        let last = places.range((conversation.id, 0)..=(conversation.id, i64::MAX)).next_back();
        if last.is_some_and(|(_, seq)| *seq > conversation.last_seq) {
            found.push(format!("conversation {}: counts behind its messages", conversation.id));
        }
    }
}
