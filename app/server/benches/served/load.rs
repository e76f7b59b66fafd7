//! Messages at a steady rate, and how soon their turns begin.

use crate::caller::Caller;
use anyhow::{Context, Result, ensure};
use famulus_core::{Clock as _, clock::SystemClock};
use jiff::Timestamp;
use sqlx::PgPool;
use std::{future::Future, pin::pin, time::Duration};
use tokio::{
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};
use uuid::Uuid;

/// Twenty messages a second.
const PACE: Duration = Duration::from_millis(50);

/// A turn, and when its message was due to leave.
pub(crate) type Due = (Uuid, Timestamp);

/// Sends messages for as long as something lasts. One that is answered slowly holds up none.
pub(crate) async fn during<T>(
    owner: &Caller,
    conversations: &[Uuid],
    lasts: impl Future<Output = T>,
) -> Result<(T, Vec<Due>)> {
    let mut lasts = pin!(lasts);
    let mut pace = interval(PACE);
    pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut turns = conversations.iter().cycle();
    let mut sent = Vec::new();
    let mut under_way = JoinSet::<Result<Due>>::new();
    let value = loop {
        tokio::select! {
            value = &mut lasts => break value,
            _tick = pace.tick() => {
                let conversation = *turns.next().context("there are conversations")?;
                let (owner, due) = (owner.clone(), SystemClock.now());
                under_way.spawn(async move { Ok((owner.say(conversation, "Hello!").await?, due)) });
            }
            Some(done) = under_way.join_next() => sent.push(done??),
        }
    };
    while let Some(done) = under_way.join_next().await {
        sent.push(done.context("a message was not sent")??);
    }
    Ok((value, sent))
}

/// From when a message was due until its turn had begun. Server and sender share a clock.
pub(crate) async fn begun(tables: &PgPool, sent: &[Due]) -> Result<Vec<Duration>> {
    let turns: Vec<Uuid> = sent.iter().map(|(turn, _)| *turn).collect();
    let found: Vec<(Uuid, f64)> = sqlx::query_as(
        "select id, extract(epoch from started_at)::float8 from turn
         where id = any($1) and state = 'complete'",
    )
    .bind(&turns)
    .fetch_all(tables)
    .await?;
    ensure!(found.len() == sent.len(), "{} of {} turns ended well", found.len(), sent.len());
    let began: std::collections::HashMap<Uuid, f64> = found.into_iter().collect();
    let waited = |(turn, due): &Due| {
        let due = due.as_duration().as_secs_f64();
        Ok(Duration::from_secs_f64((began[turn] - due).max(0.0)))
    };
    sent.iter().map(waited).collect()
}
