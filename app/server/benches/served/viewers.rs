//! S1: what an idle viewer costs in the server's memory.

use crate::{
    crowd::{self, Buffer},
    latency,
    model::{Manner, Model},
    request::Request,
    seed,
    server::{self, Server},
};
use anyhow::{Result, ensure};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Long enough for every viewer to have had its sign of life, which comes every 15 seconds.
const SETTLED: Duration = Duration::from_secs(20);
/// Descriptors of the server beside those of viewers.
const BESIDE: u64 = 500;

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let count = request.extent as usize;
    server::allow_descriptors(request.extent + BESIDE)?;
    let model = Model::start(Manner::Brief).await?;
    let server = Server::start(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    // A conversation for each, which is the dearest: nothing is shared.
    let conversations = seed::conversations(&tables, count).await?;
    drop(crowd::open(&server.owner, &conversations[..1], Buffer::Usual).await?);
    tokio::time::sleep(Duration::from_secs(2)).await;

    let before = server.memory()?;
    let begun = Instant::now();
    let viewers = crowd::open(&server.owner, &conversations, Buffer::Usual).await?;
    let connecting = begun.elapsed();
    tokio::time::sleep(SETTLED).await;
    let with = server.memory()?;
    for viewer in &viewers {
        let mut byte = [0];
        let peeked = tokio::time::timeout(Duration::from_secs(1), viewer.peek(&mut byte)).await;
        ensure!(peeked.is_ok_and(|read| read.is_ok_and(|read| read > 0)), "a viewer was cut off");
    }
    let mappings = crate::memory::by_mapping(server.raw_pid())?;
    drop(viewers);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let after = server.memory()?;

    let each = |now: u64| now.saturating_sub(before.all) as f64 / count as f64;
    let result = json!({
        "viewers": count,
        "kib_each": each(with.all),
        "kib_each_left_behind": each(after.all),
        "connected": latency::report(vec![connecting]),
        "before": before.report(),
        "with": with.report(),
        "after": after.report(),
        "by_mapping_kib": mappings,
    });
    server.end().await?;
    model.end();
    Ok(result)
}
