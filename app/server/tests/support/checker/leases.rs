//! A lease is nobody else's before it ends, and nobody cuts it short.
//!
//! Afterwards nothing tells when a lease would have ended, so the database writes it down at each
//! change of a leased lane, whoever makes it.

use anyhow::{Context, Result};
use sqlx::{Executor, PgPool};

/// As the superuser, in a schema of its own: the product neither sees it nor may write there.
const WATCH: &str = "
    create schema if not exists lease_watch;
    create table if not exists lease_watch.broken (said text not null);
    create or replace function lease_watch.look() returns trigger
    language plpgsql security definer set search_path = pg_catalog as $$
    begin
        if new.fence <> old.fence and old.due_at > clock_timestamp() then
            insert into lease_watch.broken values (format(
                'lane %s %s: was claimed by %s, %s before the lease of %s ends',
                old.class, old.id, new.worker, old.due_at - clock_timestamp(), old.worker));
        elsif new.fence = old.fence and new.state = 'leased' and new.due_at < old.due_at then
            insert into lease_watch.broken values (format(
                'lane %s %s: the lease of %s was cut short by %s',
                old.class, old.id, old.worker, old.due_at - new.due_at));
        end if;
        return null;
    end $$;
    create or replace trigger lease_watch after update on queue_lane
        for each row when (old.state = 'leased') execute function lease_watch.look()";

/// Begins to write down; may be called again.
pub(crate) async fn watch(admin: &PgPool) -> Result<()> {
    admin.execute(WATCH).await.map(|_| ()).context("leases cannot be watched")
}

pub(super) async fn check(admin: &PgPool, found: &mut Vec<String>) -> Result<()> {
    let broken: Vec<String> = sqlx::query_scalar("select said from lease_watch.broken")
        .fetch_all(admin)
        .await
        .context("nobody has watched the leases")?;
    found.extend(broken);
    Ok(())
}
