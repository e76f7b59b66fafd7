//! Which of all processes starts a runner, and which lets it end: compare-and-set on one row a
//! plugin. Time is that of the database, the same for all of them.

use crate::{
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use famulus_core::runner::{DemandError, RunnerDemand};
use std::time::Duration;

#[async_trait]
impl RunnerDemand for Store {
    async fn used(&self, plugins: &[String]) -> Result<(), DemandError> {
        self.note_use(plugins).await.map_err(unsettled)
    }

    async fn may_start(&self, plugin: &str, again: Duration) -> Result<bool, DemandError> {
        self.start_runner(plugin, again).await.map_err(unsettled)
    }

    async fn may_stop(
        &self,
        plugin: &str,
        idle: Duration,
        again: Duration,
    ) -> Result<bool, DemandError> {
        self.stop_runner(plugin, idle, again).await.map_err(unsettled)
    }
}

fn unsettled(error: Error) -> DemandError {
    DemandError(Box::new(error))
}

impl Store {
    /// Losing this to a crash of Postgres ends a runner that much earlier.
    async fn note_use(&self, plugins: &[String]) -> Result<(), Error> {
        // In one order everywhere, so that two processes do not wait for each other.
        let mut plugins = plugins.to_vec();
        plugins.sort();
        plugins.dedup();
        let mut tx = self.begin_relaxed(Scope::System).await?;
        sqlx::query!(
            "insert into runner_demand (plugin, used_at, turn, turned_at)
             select p.name, now(), 'none', now()
             from unnest($1::text[]) with ordinality as p (name, place) order by p.place
             on conflict (plugin) do update set used_at = excluded.used_at",
            &plugins,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("note the use of plugins"))?;
        tx.commit().await.map_err(Error::on("note the use of plugins"))
    }

    async fn start_runner(&self, plugin: &str, again: Duration) -> Result<bool, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        // Whoever comes second waits here for the first, and then sees what it did.
        sqlx::query!(
            "insert into runner_demand (plugin, used_at, turn, turned_at)
             values ($1, now(), 'none', now())
             on conflict (plugin) do update set used_at = excluded.used_at",
            plugin,
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("settle who starts a runner"))?;
        let won = sqlx::query!(
            "update runner_demand set turn = 'start', turned_at = now()
             where plugin = $1
               and (turn <> 'start' or turned_at <= now() - make_interval(secs => $2))",
            plugin,
            again.as_secs_f64(),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("settle who starts a runner"))?
        .rows_affected()
            == 1;
        tx.commit().await.map_err(Error::on("settle who starts a runner"))?;
        Ok(won)
    }

    async fn stop_runner(
        &self,
        plugin: &str,
        idle: Duration,
        again: Duration,
    ) -> Result<bool, Error> {
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let won = sqlx::query!(
            "update runner_demand set turn = 'stop', turned_at = now()
             where plugin = $1 and used_at <= now() - make_interval(secs => $2)
               and (turn <> 'stop' or turned_at <= now() - make_interval(secs => $3))",
            plugin,
            idle.as_secs_f64(),
            again.as_secs_f64(),
        )
        .execute(&mut *tx)
        .await
        .map_err(Error::on("settle who ends a runner"))?
        .rows_affected()
            == 1;
        if !won {
            sqlx::query!(
                "insert into runner_demand (plugin, used_at, turn, turned_at)
                 values ($1, now(), 'none', now()) on conflict (plugin) do nothing",
                plugin,
            )
            .execute(&mut *tx)
            .await
            .map_err(Error::on("settle who ends a runner"))?;
        }
        tx.commit().await.map_err(Error::on("settle who ends a runner"))?;
        Ok(won)
    }
}
