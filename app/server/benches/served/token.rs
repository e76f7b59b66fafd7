//! S2: one word of the model until the last of many viewers has it.

use crate::{
    crowd::{self, Buffer, Seen, Watching},
    latency,
    model::{Manner, Model},
    pulse::Pulse,
    request::Request,
    seed,
    server::{self, Server},
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

const VIEWERS: usize = 1_000;
/// As fast as a person reads along.
const PACE: Duration = Duration::from_millis(50);
/// The first words open connections and sessions.
const WARM_UP: usize = 10;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    server::allow_descriptors(VIEWERS as u64 + 500)?;
    let pulse = Arc::new(Pulse::new(request.extent as usize + WARM_UP, PACE, 0));
    let model = Model::start(Manner::Steady(Arc::clone(&pulse))).await?;
    let server = Server::start(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    let conversation = *seed::conversations(&tables, 1).await?.first().context("there is one")?;
    let viewers = crowd::open(&server.owner, &vec![conversation; VIEWERS], Buffer::Usual).await?;
    let patience = pulse.length() + Duration::from_secs(30);
    let watching = Watching::begin(viewers, pulse.count, patience)?;
    server.owner.say(conversation, "Count, please. [[1]]").await?;
    let seen = watching.end().await?;
    seed::all_ended(&tables).await?;
    server.end().await?;
    model.end();

    let written = pulse.written();
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for number in WARM_UP..pulse.count {
        let at = written.get(number).copied().flatten().context("a word was not written")?;
        let arrivals = arrivals(&seen, number);
        let of = |arrival: Option<Instant>| arrival.map(|arrival| arrival.duration_since(at));
        first.push(of(arrivals.iter().min().copied()).context("a word was seen by nobody")?);
        last.push(of(arrivals.iter().max().copied()).context("a word was seen by nobody")?);
    }
    Ok(json!({
        "viewers": VIEWERS,
        "first_viewer": latency::report(first),
        "last_viewer": latency::report(last),
    }))
}

fn arrivals(seen: &Seen, number: usize) -> Vec<Instant> {
    seen.iter().filter_map(|viewer| viewer.get(number).copied().flatten()).collect()
}
