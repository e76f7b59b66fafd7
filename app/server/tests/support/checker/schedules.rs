//! A slot ends once: fired, with a turn of its own, or missed.

use super::tables::{Slot, Tables};
use crate::support::world::World;
use std::collections::BTreeSet;

pub(super) fn check(world: &World, tables: &Tables, found: &mut Vec<String>) {
    for scheduled in world.log.scheduled() {
        let note = &scheduled.note;
        let rows: Vec<_> = tables.schedules.iter().filter(|row| row.note == *note).collect();
        let [row] = rows.as_slice() else {
            found.push(format!("schedule {note:?}: is there {} times", rows.len()));
            continue;
        };
        let slots: Vec<&Slot> =
            tables.slots.iter().filter(|slot| slot.schedule_id == row.id).collect();
        match slots.as_slice() {
            [slot] if slot.outcome == "fired" => {
                let turn = slot.turn_id.and_then(|turn| tables.turns.get(&turn));
                if turn.is_none_or(|turn| turn.schedule_id != Some(row.id)) {
                    found.push(format!("schedule {note:?}: fired without a turn"));
                }
            }
            other => {
                let outcomes: Vec<&str> = other.iter().map(|slot| slot.outcome.as_str()).collect();
                found.push(format!("schedule {note:?}: its one slot ended as {outcomes:?}"));
            }
        }
        if row.enabled {
            found.push(format!("schedule {note:?}: is still in force"));
        }
    }
    let mut turns = BTreeSet::new();
    for turn in tables.slots.iter().filter_map(|slot| slot.turn_id) {
        if !turns.insert(turn) {
            found.push(format!("turn {turn}: was started by two slots"));
        }
    }
    for turn in tables.turns.values().filter(|turn| turn.schedule_id.is_some()) {
        if !turns.contains(&turn.id) {
            found.push(format!("turn {}: no slot of its schedule started it", turn.id));
        }
    }
}
