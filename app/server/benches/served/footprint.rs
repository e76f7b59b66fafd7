//! F1 and F5: memory and processor time of a server that was talked to and has nothing to do.

use crate::{
    memory::{by_mapping, processor_time},
    model::{Manner, Model},
    request::Request,
    seed,
    server::Server,
};
use anyhow::Result;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const CONVERSATIONS: usize = 10_000;
/// Enough at once to open every session of the pool.
const MESSAGES: usize = 200;
const AT_ONCE: usize = 40;
/// What a burst leaves to be done is done by then.
const SETTLED: Duration = Duration::from_secs(15);

pub(crate) async fn measure(request: &Request) -> Result<Value> {
    let model = Model::start(Manner::Brief).await?;
    let server = Server::start(request, &model.url).await?;
    let tables = seed::tables(&request.url)?;
    let fresh = server.memory()?;
    let conversations = seed::conversations(&tables, CONVERSATIONS).await?;
    stream::iter(conversations.iter().take(MESSAGES))
        .map(|place| server.owner.say(*place, "Good morning."))
        .buffer_unordered(AT_ONCE)
        .try_collect::<Vec<_>>()
        .await?;
    seed::all_ended(&tables).await?;
    tokio::time::sleep(SETTLED).await;

    let sessions: i64 = sqlx::query_scalar(
        "select count(*) from pg_stat_activity
         where datname = current_database() and application_name = 'famulus'",
    )
    .fetch_one(&tables)
    .await?;
    let pid = server.raw_pid();
    let (begun, used) = (Instant::now(), processor_time(pid)?);
    tokio::time::sleep(Duration::from_secs(request.extent)).await;
    let used = processor_time(pid)?.saturating_sub(used);
    let share = used.as_secs_f64() / begun.elapsed().as_secs_f64();
    let result = json!({
        "conversations": CONVERSATIONS,
        "sessions": sessions,
        "fresh": fresh.report(),
        "idle": server.memory()?.report(),
        "by_mapping_kib": by_mapping(pid)?,
        "cpu_percent": share * 100.0,
        "seconds": request.extent,
    });
    server.end().await?;
    model.end();
    Ok(result)
}
