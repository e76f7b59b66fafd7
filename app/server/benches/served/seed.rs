//! Stored conversations, and what is asked of the tables.

use anyhow::{Context, Result};
use famulus_core::ids::ConversationId;
use famulus_store::MAIN_AGENT;
use sqlx::{PgPool, postgres::PgPoolOptions};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// Long enough for whatever was begun to end.
const DRAIN: Duration = Duration::from_mins(2);

/// Sessions of the superuser.
pub(crate) fn tables(url: &str) -> Result<PgPool> {
    Ok(PgPoolOptions::new().max_connections(4).connect_lazy(url)?)
}

/// Stores titled conversations of the owner that nothing was said in.
pub(crate) async fn conversations(tables: &PgPool, count: usize) -> Result<Vec<Uuid>> {
    let ids: Vec<Uuid> = (0..count).map(|_| ConversationId::new().0).collect();
    let keys: Vec<String> = ids.iter().map(|id| format!("agent={MAIN_AGENT}/chat={id}")).collect();
    let stored = sqlx::query(
        "insert into conversation (id, person_id, agent_id, key, title)
         select c.id, person.id, $1, c.key, 'Counting sheep at night'
         from unnest($2::uuid[], $3::text[]) as c (id, key), person where person.role = 'owner'",
    )
    .bind(MAIN_AGENT.0)
    .bind(&ids)
    .bind(&keys)
    .execute(tables)
    .await?;
    (stored.rows_affected() == count as u64).then_some(ids).context("there is no one owner")
}

/// Waits until no turn is open.
pub(crate) async fn all_ended(tables: &PgPool) -> Result<()> {
    let begun = Instant::now();
    while open_turns(tables).await? > 0 {
        anyhow::ensure!(begun.elapsed() < DRAIN, "turns did not end within {DRAIN:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

pub(crate) async fn open_turns(tables: &PgPool) -> Result<i64> {
    let open = "select count(*) from turn where state in ('queued', 'running', 'waiting')";
    Ok(sqlx::query_scalar(open).fetch_one(tables).await?)
}

/// Turns by state, as the checks at the end of a run want them.
pub(crate) async fn turns_in(tables: &PgPool, state: &str) -> Result<i64> {
    let count = sqlx::query_scalar("select count(*) from turn where state = $1");
    Ok(count.bind(state).fetch_one(tables).await?)
}
