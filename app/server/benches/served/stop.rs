//! From the sending of a stop to the last effect of the turn that it ends.
//!
//! The turn streams and calls tools without rest. What counts as an effect: an event stored, a
//! message, a call planned, sent or done, a memory written, and the model being read. The end of
//! the turn with all that it stores is the last of them.

use crate::{
    latency,
    model::{Manner, Model},
    request::Request,
    seed,
    server::Server,
};
use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use sqlx::PgPool;
use std::time::{Duration, Instant};
use tokio::time::sleep;
use uuid::Uuid;

/// Turns that run and are stopped at the same time.
const AT_ONCE: usize = 3;
/// Between two looks at the tables.
const LOOK: Duration = Duration::from_millis(5);
/// A turn that has ended is looked at for so long. What would come later is found at the end.
const QUIET: Duration = Duration::from_millis(300);
/// Stops come this long after the turn's first word, in every part of what it does.
const SPAN: Duration = Duration::from_millis(1_200);
/// What does not happen within this does not happen.
const PATIENCE: Duration = Duration::from_secs(30);

/// To which process the stop is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    /// The one that runs the turn.
    Same,
    /// Another one on the same database.
    Other,
}

/// What is stored of a turn: everything that it can do changes this.
type Trace = (String, i64, i64, String, i64);

/// A turn that was stopped.
struct Stopped {
    to: To,
    mark: u64,
    turn: Uuid,
    trace: Trace,
    requests: usize,
    took: Duration,
}

struct Stage<'a> {
    tables: &'a PgPool,
    model: &'a Model,
    first: &'a Server,
    second: &'a Server,
}

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let model = Model::start(Manner::Restless).await?;
    let first = Server::start(request, &model.url).await?;
    let second = first.another(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    let count = request.extent * 2;
    let conversations = seed::conversations(&tables, count as usize).await?;
    let stage = Stage { tables: &tables, model: &model, first: &first, second: &second };
    let stops: Vec<Stopped> = stream::iter((0..count).zip(conversations))
        .map(|(number, conversation)| stage.stop(number, conversation))
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await?;
    for stop in &stops {
        ensure!(
            stop.trace == trace(&tables, stop.turn, stop.mark).await?
                && stop.requests == model.asked(stop.mark).requests,
            "a turn had an effect after it was taken for ended"
        );
    }
    first.end().await?;
    second.end().await?;
    model.end();
    let took = |to: To| {
        let those = stops.iter().filter(|stop| stop.to == to);
        latency::report(those.map(|stop| stop.took).collect())
    };
    Ok(json!({ "same": took(To::Same), "other": took(To::Other) }))
}

impl Stage<'_> {
    async fn stop(&self, number: u64, conversation: Uuid) -> Result<Stopped> {
        let mark = number + 1;
        let text = format!("Go on and on. [[{mark}]]");
        let turn = self.first.owner.say(conversation, &text).await?;
        let begun = Instant::now();
        while self.model.asked(mark).requests == 0 {
            ensure!(begun.elapsed() < PATIENCE, "turn {turn} did not begin");
            sleep(LOOK).await;
        }
        // Spread evenly by the golden ratio, and the same in every run.
        sleep(SPAN.mul_f64((mark as f64 * 0.618_034).fract())).await;

        let to = if number.is_multiple_of(2) { To::Same } else { To::Other };
        let is_first = self.model.asked(mark).by == "first";
        let server = if is_first == (to == To::Same) { self.first } else { self.second };
        let sent = Instant::now();
        let watching = self.until_quiet(turn, mark, sent);
        let (stopped, quiet) = tokio::join!(server.owner.stop(conversation), watching);
        ensure!(stopped? == 1, "turn {turn} was over before it was stopped");
        let (trace, last) = quiet?;
        let requests = self.model.asked(mark).requests;
        Ok(Stopped { to, mark, turn, trace, requests, took: last.duration_since(sent) })
    }

    /// Looks until the turn has ended and nothing changes; returns what is stored, and when the
    /// last change was seen.
    async fn until_quiet(&self, turn: Uuid, mark: u64, sent: Instant) -> Result<(Trace, Instant)> {
        let mut before = trace(self.tables, turn, mark).await?;
        let mut last = sent;
        loop {
            sleep(LOOK).await;
            let now = trace(self.tables, turn, mark).await?;
            let seen = Instant::now();
            if now != before {
                before = now;
                last = seen;
            }
            let asked = self.model.asked(mark);
            if asked.open > 0 {
                last = seen;
            }
            let ended = before.0 == "cancelled" && asked.open == 0;
            if ended && last.elapsed() > QUIET {
                let read = asked.closed.context("the model was read")?;
                return Ok((before, last.max(read)));
            }
            ensure!(sent.elapsed() < PATIENCE, "turn {turn} was not stopped: {before:?}");
        }
    }
}

async fn trace(tables: &PgPool, turn: Uuid, mark: u64) -> Result<Trace> {
    let trace = sqlx::query_as(
        "select state,
            (select count(*) from event where turn_id = turn.id
                and conversation_id = turn.conversation_id),
            (select count(*) from message where turn_id = turn.id
                and conversation_id = turn.conversation_id),
            (select coalesce(string_agg(state, ' ' order by step, call, item), '')
                from tool_call where turn_id = turn.id),
            (select count(*) from knowledge where body like $2)
         from turn where id = $1",
    )
    .bind(turn)
    .bind(format!("mark {mark},%"))
    .fetch_one(tables)
    .await?;
    Ok(trace)
}
