//! Every reply was delivered once by its id, in the order of the turns, as it stands in the
//! transcript; and whoever gets no reply is told why. What stands in a chat is read in `chats`.

use super::{
    chats::is_of_chat,
    tables::{Outbound, Tables},
};
use crate::support::world::World;
use std::collections::{BTreeMap, BTreeSet};
use uuid::Uuid;

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    let mut by_turn: BTreeMap<Uuid, Vec<&Outbound>> = BTreeMap::new();
    for outbound in &tables.outbox {
        if let Some(turn) = outbound.turn {
            by_turn.entry(turn).or_default().push(outbound);
        }
    }
    for turn in tables.turns.values() {
        let sent = by_turn.get(&turn.id).map_or(&[][..], Vec::as_slice);
        let wanted = turn.origin_channel.as_deref() == Some("http") || is_of_chat(turn);
        let tries = world.log.tries(turn.id);
        if sent.len() != if wanted { tries } else { 0 } {
            found.push(format!("turn {}: is {}, sent {} replies", turn.id, turn.state, sent.len()));
        }
        let text = tables.reply(turn.id);
        for (number, outbound) in sent.iter().enumerate() {
            let said = outbound.markdown.as_str();
            let fits = match turn.state.as_str() {
                // What came of the tries before.
                _ if number + 1 < tries => said.starts_with("Something went wrong: "),
                "complete" => said == text,
                "failed" => said.starts_with("Something went wrong: "),
                "cancelled" => said == "Stopped.",
                _ => false,
            };
            if !fits {
                found.push(format!("turn {}: is {}, sent {said:?}", turn.id, turn.state));
            }
        }
    }

    // The order in which each reply arrived first.
    let mut arrived: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    let mut ids: BTreeSet<String> = BTreeSet::new();
    let by_id: BTreeMap<String, &Outbound> =
        tables.outbox.iter().map(|outbound| (outbound.id.to_string(), outbound)).collect();
    for delivery in world.receiver.received() {
        let Some(outbound) = by_id.get(&delivery.id) else {
            found.push(format!("delivery {}: is not in the outbox", delivery.id));
            continue;
        };
        if outbound.markdown != delivery.markdown {
            found.push(format!("delivery {}: arrived as {:?}", delivery.id, delivery.markdown));
        }
        if ids.insert(delivery.id)
            && let Some(turn) = outbound.turn.and_then(|turn| tables.turns.get(&turn))
        {
            arrived.entry(delivery.conversation).or_default().push(turn.ord);
        }
    }
    for outbound in tables.outbox.iter().filter(|outbound| outbound.channel == "http") {
        let arrived = ids.contains(&outbound.id.to_string());
        if outbound.state != "delivered" || !arrived {
            found.push(format!(
                "outbound {}: is {}, arrived: {arrived}",
                outbound.id, outbound.state
            ));
        }
    }
    for (conversation, order) in arrived {
        if !order.is_sorted() {
            found.push(format!("conversation {conversation}: replies arrived in order {order:?}"));
        }
    }
}
