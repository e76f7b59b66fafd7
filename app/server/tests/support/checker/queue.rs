//! When everything has settled, nothing is left in the queue and nobody holds anything.

use super::tables::Tables;

pub(super) fn check(tables: &Tables, found: &mut Vec<String>) {
    for lane in &tables.lanes {
        if lane.state != "idle" || lane.pending != 0 || lane.worker.is_some() {
            found.push(format!(
                "lane {} {}: is {} with {} jobs, held by {:?}",
                lane.class, lane.id, lane.state, lane.pending, lane.worker
            ));
        }
    }
    for job in &tables.jobs {
        let is = if job.dead { "dead" } else { "left" };
        found.push(format!("job {} {}: is {is}: {:?}", job.class, job.id, job.reason));
    }
    for conversation in &tables.conversations {
        if let Some(turn) = conversation.live_turn {
            found.push(format!("conversation {}: turn {turn} still lives in it", conversation.id));
        }
    }
    for turn in tables.turns.values() {
        let is_final = matches!(turn.state.as_str(), "complete" | "failed" | "cancelled");
        if !is_final || turn.ended_at.is_none() {
            found.push(format!(
                "turn {}: is {} and ended at {:?}",
                turn.id, turn.state, turn.ended_at
            ));
        }
    }
}
