//! S4: viewers that never read, beside others who watch a fast stream.

use crate::{
    crowd::{self, Buffer, Watching},
    latency,
    memory::Memory,
    model::{Manner, Model},
    pulse::Pulse,
    request::Request,
    seed,
    server::Server,
};
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use uuid::Uuid;

const OTHERS: usize = 100;
const PACE: Duration = Duration::from_millis(10);
/// With their frames these fill a socket's buffers within two seconds.
const PADDING: usize = 200;
/// The memory of one would drown in the noise of measuring it.
const STUCK: usize = 200;

/// One stream in front of the same readers.
struct Scene {
    latencies: Vec<Duration>,
    /// The most that was seen while it ran.
    peak: Memory,
}

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let words = request.extent as usize * 1_000 / PACE.as_millis() as usize;
    let model = Model::start(Manner::Brief).await?;
    let server = Server::start(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    let conversations = seed::conversations(&tables, 4).await?;
    let [warm_up, alone, beside_one, beside_many] = conversations[..] else {
        anyhow::bail!("there are four conversations");
    };
    let scene = async |place: Uuid, stuck: usize, words: usize| {
        let pulse = Arc::new(Pulse::new(words, PACE, PADDING));
        model.behave(Manner::Steady(Arc::clone(&pulse)));
        let scene = play(&server, place, stuck, &pulse).await?;
        seed::all_ended(&tables).await?;
        anyhow::Ok(scene)
    };
    scene(warm_up, 0, words.min(300)).await?;
    let alone = scene(alone, 0, words).await?;
    let one = scene(beside_one, 1, words).await?;
    let many = scene(beside_many, STUCK, words).await?;
    server.end().await?;
    model.end();

    let more = many.peak.all.saturating_sub(alone.peak.all);
    Ok(json!({
        "stuck": STUCK,
        "kib_each": more as f64 / STUCK as f64,
        "alone": latency::report(alone.latencies),
        "beside_one": latency::report(one.latencies),
        "beside_many": latency::report(many.latencies),
        "peak_alone": alone.peak.report(),
        "peak_beside_one": one.peak.report(),
        "peak_beside_many": many.peak.report(),
    }))
}

async fn play(server: &Server, place: Uuid, stuck: usize, pulse: &Pulse) -> Result<Scene> {
    let readers = crowd::open(&server.owner, &vec![place; OTHERS], Buffer::Usual).await?;
    let stuck = crowd::open(&server.owner, &vec![place; stuck], Buffer::Least).await?;
    let patience = pulse.length() + Duration::from_secs(30);
    let watching = Watching::begin(readers, pulse.count, patience)?;
    server.owner.say(place, "Count, please. [[1]]").await?;
    let mut peak = server.memory()?;
    let end = Instant::now() + pulse.length();
    while Instant::now() < end {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let now = server.memory()?;
        if now.all > peak.all {
            peak = now;
        }
    }
    let seen = watching.end().await?;
    drop(stuck);
    let written = pulse.written();
    let mut latencies = Vec::with_capacity(OTHERS * pulse.count);
    for viewer in seen {
        for (seen, written) in viewer.into_iter().zip(&written) {
            let seen = seen.context("a word was not seen")?;
            latencies.push(seen.duration_since(written.context("a word was not written")?));
        }
    }
    Ok(Scene { latencies, peak })
}
