//! F2: memory after much work, and many streams, once it is quiet again.

use crate::{
    crowd::{self, Buffer, Watching},
    memory::{Memory, by_mapping},
    model::{Manner, Model},
    pulse::Pulse,
    request::Request,
    seed,
    server::{self, Server},
};
use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

const CONVERSATIONS: usize = 10_000;
const STREAMS: usize = 1_000;
/// Conversations that the streams are of.
const WATCHED: usize = 10;
const WORDS: usize = 100;
const PACE: Duration = Duration::from_millis(50);
/// Messages between two looks at how much is open.
const BATCH: usize = 250;
const AT_ONCE: usize = 16;
/// Turns that may be open when more are sent.
const OPEN: i64 = 250;
/// How long it is quiet before it counts.
const QUIET: Duration = Duration::from_secs(30);

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let turns = request.extent as usize;
    server::allow_descriptors(STREAMS as u64 + 500)?;
    let model = Model::start(Manner::Brief).await?;
    let server = Server::start(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    let fresh = server.memory()?;
    let conversations = seed::conversations(&tables, CONVERSATIONS).await?;
    let begun = Instant::now();
    let mut peak = fresh;
    for batch in (0..turns).collect::<Vec<_>>().chunks(BATCH) {
        stream::iter(batch)
            .map(|number| server.owner.say(conversations[number % CONVERSATIONS], "Good morning."))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<_>>()
            .await?;
        peak = larger(peak, server.memory()?);
        while seed::open_turns(&tables).await? > OPEN {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    seed::all_ended(&tables).await?;
    let took = begun.elapsed();
    let worked = server.memory()?;
    watch(&server, &model, &conversations[..WATCHED]).await?;
    seed::all_ended(&tables).await?;
    let streamed = server.memory()?;
    tokio::time::sleep(QUIET).await;
    let complete = seed::turns_in(&tables, "complete").await?;
    ensure!(complete as usize == turns + WATCHED, "only {complete} turns came to a good end");
    let result = json!({
        "turns": turns,
        "streams": STREAMS,
        "turns_per_second": turns as f64 / took.as_secs_f64(),
        "fresh": fresh.report(),
        "peak": peak.report(),
        "after_turns": worked.report(),
        "after_streams": streamed.report(),
        "quiet": server.memory()?.report(),
        "by_mapping_kib": by_mapping(server.raw_pid())?,
    });
    server.end().await?;
    model.end();
    Ok(result)
}

/// Many streams at once, each seen to its end.
async fn watch(server: &Server, model: &Model, watched: &[Uuid]) -> Result<()> {
    let pulse = Arc::new(Pulse::new(WORDS, PACE, 20));
    model.behave(Manner::Steady(Arc::clone(&pulse)));
    let places: Vec<Uuid> = watched.iter().copied().cycle().take(STREAMS).collect();
    let viewers = crowd::open(&server.owner, &places, Buffer::Usual).await?;
    let patience = pulse.length() + Duration::from_mins(1);
    let watching = Watching::begin(viewers, WORDS, patience)?;
    for place in watched {
        server.owner.say(*place, "Count, please.").await?;
    }
    watching.end().await?;
    Ok(())
}

fn larger(one: Memory, other: Memory) -> Memory {
    if other.all > one.all { other } else { one }
}
