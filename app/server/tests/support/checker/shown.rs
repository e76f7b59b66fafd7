//! The record of what viewers were shown: in order, without gaps, by one worker after another, and
//! in the end the same text as the transcript.

use super::{Faults, tables::Tables};
use crate::support::{
    viewer::{Shown, read_id},
    world::World,
};
use anyhow::Result;
use futures::TryStreamExt;
use serde_json::Value;
use sqlx::FromRow;
use std::collections::BTreeSet;
use uuid::Uuid;

#[derive(FromRow)]
struct Row {
    fence: i64,
    number: i64,
    turn_id: Uuid,
    data: Vec<u8>,
    created_at: i64,
}

/// The events of one turn, one after another.
struct Following {
    turn: Uuid,
    shown: Shown,
    fences: BTreeSet<i64>,
    last: (i64, i64),
    /// When the latest event of all earlier tokens was written, and of this one.
    earlier: i64,
    latest: i64,
    complete: Option<Value>,
    ends: usize,
}

pub(super) async fn check(
    world: &World,
    tables: &Tables,
    faults: Faults,
    found: &mut Vec<String>,
) -> Result<()> {
    let mut rows = sqlx::query_as::<_, Row>(
        "select fence, number, turn_id, data,
                (extract(epoch from created_at) * 1000000)::bigint as created_at
         from event order by turn_id, fence, number",
    )
    .fetch(&world.database.admin);
    let mut seen: BTreeSet<Uuid> = BTreeSet::new();
    let mut following: Option<Following> = None;
    while let Some(row) = rows.try_next().await? {
        if following.as_ref().is_none_or(|following| following.turn != row.turn_id) {
            seen.insert(row.turn_id);
            if let Some(done) = following.replace(Following::new(row.turn_id)) {
                done.check(world, tables, faults, found);
            }
        }
        if let Some(following) = &mut following {
            following.take(&row, found)?;
        }
    }
    if let Some(done) = following {
        done.check(world, tables, faults, found);
    }
    for turn in tables.turns.keys().filter(|turn| !seen.contains(turn)) {
        found.push(format!("turn {turn}: viewers were shown nothing of it"));
    }
    Ok(())
}

impl Following {
    fn new(turn: Uuid) -> Self {
        Self {
            turn,
            shown: Shown::default(),
            fences: BTreeSet::new(),
            last: (0, 0),
            earlier: 0,
            latest: 0,
            complete: None,
            ends: 0,
        }
    }

    fn take(&mut self, row: &Row, found: &mut Vec<String>) -> Result<()> {
        let turn = self.turn;
        let data: Value = serde_json::from_slice(&row.data)?;
        if read_id(&data["id"]) != Some((row.fence, row.number)) {
            found
                .push(format!("turn {turn}: event {}-{} is {}", row.fence, row.number, data["id"]));
        }
        let expected = if self.last.0 == row.fence { self.last.1 + 1 } else { 1 };
        if row.number != expected {
            found.push(format!(
                "turn {turn}: event {}-{expected} is missing before {}",
                row.fence, row.number
            ));
        }
        if self.last.0 != row.fence {
            self.earlier = self.latest;
        }
        if row.created_at < self.earlier {
            found.push(format!(
                "turn {turn}: event {}-{} was written {} us before one of an earlier worker",
                row.fence,
                row.number,
                self.earlier - row.created_at
            ));
        }
        // A turn that was given up and is tried again opens anew.
        if self.complete.take().is_some() && data["event"]["type"] != "resumed" {
            found.push(format!("turn {turn}: event {}-{} follows its end", row.fence, row.number));
        }
        self.fences.insert(row.fence);
        self.last = (row.fence, row.number);
        self.latest = self.latest.max(row.created_at);
        self.shown.apply((row.fence, row.number), &data["event"]);
        if data["event"]["type"] == "complete" {
            self.complete = Some(data["event"].clone());
            self.ends += 1;
        }
        Ok(())
    }

    fn check(self, world: &World, tables: &Tables, faults: Faults, found: &mut Vec<String>) {
        let Self { turn, shown, fences, complete, ends, .. } = self;
        let tries = world.log.tries(turn);
        if ends != tries {
            found.push(format!("turn {turn}: ended {ends} times in {tries} tries"));
        }
        let Some(row) = tables.turns.get(&turn) else {
            found.push(format!("turn {turn}: is shown but not there"));
            return;
        };
        let said = tables.said(turn);
        if shown.text(turn) != said {
            found.push(format!("turn {turn}: shown {:?}, said {said:?}", shown.text(turn)));
        }
        let reply = tables.reply(turn);
        let fits = complete.as_ref().is_some_and(|complete| {
            complete["state"] == row.state.as_str() && complete["text"] == reply.as_str()
        });
        if !fits {
            found.push(format!("turn {turn}: is {}, its end was shown as {complete:?}", row.state));
        }
        // The log is long, and mostly somebody died.
        let waited = || world.log.sent().iter().any(|s| s.ack.turn == turn && s.script.asks());
        if faults == Faults::None && fences.len() > 1 && !waited() {
            found.push(format!(
                "turn {turn}: was taken over {} times though nobody died",
                fences.len() - 1
            ));
        }
    }
}
