//! That nothing was lost and nothing happened twice.

use anyhow::{Result, ensure};
use famulus_core::ids::TurnId;
use sqlx::PgPool;
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};
use uuid::Uuid;

/// How long the last effects may take after the last message.
const DRAIN: Duration = Duration::from_mins(1);

/// Waits until the queue is empty, then compares the client's log of acknowledgements with the
/// turns and the effects in the database.
pub(crate) async fn nothing_lost_or_doubled(bench: &PgPool, acknowledged: &[TurnId]) -> Result<()> {
    let begun = Instant::now();
    while waiting(bench).await? > 0 {
        ensure!(begun.elapsed() < DRAIN, "{} jobs were not worked", waiting(bench).await?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    compare(bench, acknowledged, "select job from bench_effect").await
}

/// The same for turns that the turn loop has driven.
pub(crate) async fn every_turn_complete(bench: &PgPool, acknowledged: &[TurnId]) -> Result<()> {
    let begun = Instant::now();
    while waiting(bench).await? > 0 {
        ensure!(begun.elapsed() < DRAIN, "{} turns were not worked", waiting(bench).await?);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let replies = "select turn_id from message where role = 'assistant'";
    compare(bench, acknowledged, replies).await
}

pub(crate) async fn waiting(bench: &PgPool) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from queue_job where not dead").fetch_one(bench).await?)
}

async fn compare(bench: &PgPool, acknowledged: &[TurnId], effects: &'static str) -> Result<()> {
    let distinct: HashSet<Uuid> = acknowledged.iter().map(|turn| turn.0).collect();
    ensure!(
        distinct.len() == acknowledged.len(),
        "{} messages were given a turn that another one had",
        acknowledged.len() - distinct.len()
    );
    let effects: Vec<Uuid> = sqlx::query_scalar(effects).fetch_all(bench).await?;
    let happened: HashSet<Uuid> = effects.iter().copied().collect();
    let lost = distinct.difference(&happened).count();
    let doubled = effects.len() - happened.len();
    let unasked = happened.difference(&distinct).count();
    ensure!(
        lost == 0 && doubled == 0 && unasked == 0,
        "{lost} effects were lost, {doubled} happened twice, {unasked} were never asked for"
    );
    Ok(())
}
