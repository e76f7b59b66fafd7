//! What stands in for the work of a turn: one row, in the transaction that settles the lease.

use anyhow::Result;
use famulus_core::turn::Fence;
use famulus_queue::{Class, Lease, lane};
use sqlx::PgPool;
use uuid::Uuid;

/// Commits the effects of all leases and settles them.
///
/// # Errors
/// Also when a lease was lost, or an effect was there already: in a run without crashes neither may
/// happen, and no figure is worth anything after it.
pub(crate) async fn settle(pool: &PgPool, leases: &[Lease]) -> Result<()> {
    let jobs: Vec<Uuid> = leases.iter().map(|lease| lease.job.id).collect();
    let finished: Vec<(Fence, Uuid)> =
        leases.iter().map(|lease| (lease.fence, lease.job.id)).collect();
    let mut tx = pool.begin().await?;
    sqlx::query("insert into bench_effect (job) select * from unnest($1::uuid[])")
        .bind(&jobs)
        .execute(&mut *tx)
        .await?;
    let settled = lane::complete_many(&mut tx, Class::Turn, &finished).await?;
    anyhow::ensure!(
        settled == leases.len() as u64,
        "{} of {} leases were lost",
        leases.len() as u64 - settled,
        leases.len()
    );
    Ok(tx.commit().await?)
}
