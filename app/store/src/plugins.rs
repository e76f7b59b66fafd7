//! What the owner wants of the plugins of one machine, and what became of each.

use crate::{
    codec::{decode, encode, read_enum},
    db::{Scope, Store},
    error::Error,
};
use async_trait::async_trait;
use famulus_core::visible::shortened;
use famulus_core::{
    StoreError, crash,
    plugin::{Granted, PluginEvent, PluginRow, PluginRows, PluginSource, Trouble},
};
use famulus_queue::Instant;
use sqlx::{PgConnection, Postgres, Transaction, postgres::PgQueryResult};
use uuid::Uuid;

/// Events that are kept of one plugin.
const EVENTS: i64 = 200;

/// Characters of why something failed, in an event.
const SAID: usize = 1_000;

#[async_trait]
impl PluginRows for Store {
    async fn plugin_rows(&self) -> Result<Vec<PluginRow>, StoreError> {
        Ok(self.plugins_like(None).await?)
    }

    async fn plugin_row(&self, name: &str) -> Result<Option<PluginRow>, StoreError> {
        Ok(self.plugins_like(Some(name)).await?.pop())
    }

    async fn begin_plugin(&self, row: &PluginRow) -> Result<bool, StoreError> {
        let failed = || Error::on("begin a plugin");
        let mut tx = self.begin(Scope::System).await?;
        let made = sqlx::query!(
            "insert into plugin (uid, name, source, rendered) values ($1, $2, $3, $4)
             on conflict (name) do nothing",
            uid(&row.uid)?,
            row.name,
            encode("the source of a plugin", &row.source)?,
            row.rendered,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        crash::before("plugin.begin");
        tx.commit().await.map_err(failed())?;
        crash::after("plugin.begin");
        Ok(made.rows_affected() == 1)
    }

    async fn offer(
        &self,
        plugin: &str,
        source: &PluginSource,
        revision: &str,
        who: &str,
    ) -> Result<(), StoreError> {
        let failed = Error::on("offer a revision");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin set source = $2, offered = $3 where uid = $1",
            plugin,
            encode("the source of a plugin", source)?,
            revision,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        crash::before("plugin.offer");
        noted(tx, plugin, &done, "fetched", Some(who), Some(revision)).await?;
        crash::after("plugin.offer");
        Ok(())
    }

    async fn permit(&self, plugin: &str, granted: &Granted, who: &str) -> Result<bool, StoreError> {
        let failed = Error::on("permit a revision");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin
             set wanted = $2, wanted_tools = $3, wanted_egress = $4,
                 tools = case when revision = $2 then $3 else tools end,
                 egress = case when revision = $2 then $4 else egress end,
                 rendered = rendered + 1, offered = nullif(offered, $2), reason = null, message = null
             where uid = $1 and ($2 = offered or $2 = wanted or $2 = revision)",
            plugin,
            granted.revision,
            &granted.tools,
            granted.egress.name(),
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        let revision = Some(granted.revision.as_str());
        crash::before("plugin.permit");
        let is_permitted = noted(tx, plugin, &done, "permitted", Some(who), revision).await?;
        crash::after("plugin.permit");
        Ok(is_permitted)
    }

    async fn want_again(&self, plugin: &str, again: &Granted, who: &str) -> Result<(), StoreError> {
        let failed = Error::on("want an earlier revision");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin
             set wanted = $2, wanted_tools = $3, wanted_egress = $4, reason = null, message = null
             where uid = $1",
            plugin,
            again.revision,
            &again.tools,
            again.egress.name(),
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        crash::before("plugin.roll_back");
        noted(tx, plugin, &done, "rolled back", Some(who), Some(&again.revision)).await?;
        crash::after("plugin.roll_back");
        Ok(())
    }

    async fn serves(&self, plugin: &str, revision: &str) -> Result<(), StoreError> {
        let failed = Error::on("have a revision serve");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin
             set revision = wanted, tools = wanted_tools, egress = wanted_egress,
                 rendered = rendered + 1, reason = null, message = null
             where uid = $1 and wanted = $2",
            plugin,
            revision,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        crash::before("plugin.serves");
        noted(tx, plugin, &done, "serves", None, Some(revision)).await?;
        crash::after("plugin.serves");
        Ok(())
    }

    async fn failed(&self, plugin: &str, revision: &str, why: &Trouble) -> Result<(), StoreError> {
        let failed = Error::on("note why a revision does not serve");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin
             set reason = $3, message = $4, offered = coalesce(offered, wanted)
             where uid = $1 and wanted = $2",
            plugin,
            revision,
            why.reason,
            why.message,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        let what = format!("failed: {}: {}", why.reason, shortened(&why.message, SAID));
        crash::before("plugin.failed");
        noted(tx, plugin, &done, &what, None, Some(revision)).await?;
        crash::after("plugin.failed");
        Ok(())
    }

    async fn configured(&self, plugin: &str, who: &str) -> Result<(), StoreError> {
        let failed = Error::on("note that a value changed");
        let (plugin, mut tx) = (uid(plugin)?, self.begin(Scope::System).await?);
        let done = sqlx::query!(
            "update plugin set rendered = rendered + 1, reason = null, message = null
             where uid = $1",
            plugin,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed)?;
        crash::before("plugin.configured");
        noted(tx, plugin, &done, "configured", Some(who), None).await?;
        crash::after("plugin.configured");
        Ok(())
    }

    async fn remove_plugin(&self, plugin: &str) -> Result<(), StoreError> {
        let failed = || Error::on("remove a plugin");
        let mut tx = self.begin(Scope::System).await?;
        sqlx::query!("delete from plugin where uid = $1", uid(plugin)?)
            .execute(&mut *tx)
            .await
            .map_err(failed())?;
        crash::before("plugin.remove");
        tx.commit().await.map_err(failed())?;
        crash::after("plugin.remove");
        Ok(())
    }

    async fn plugin_history(&self, plugin: &str) -> Result<Vec<PluginEvent>, StoreError> {
        let failed = || Error::on("read what became of a plugin");
        let mut tx = self.begin_relaxed(Scope::System).await?;
        let rows = sqlx::query!(
            r#"select at as "at: Instant", what, who, revision from plugin_event
               where plugin = $1 order by id"#,
            uid(plugin)?,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        let event = |(at, what, who, revision): (Instant, _, _, _)| PluginEvent {
            at: at.0,
            what,
            who,
            revision,
        };
        Ok(rows.into_iter().map(|row| event((row.at, row.what, row.who, row.revision))).collect())
    }
}

impl Store {
    /// All of them, or the one of this name; by name.
    async fn plugins_like(&self, name: Option<&str>) -> Result<Vec<PluginRow>, Error> {
        let failed = || Error::on("read what plugins are wanted");
        let mut tx = self.begin(Scope::System).await?;
        let rows = sqlx::query!(
            "select uid, name, source, offered, wanted, wanted_tools, wanted_egress, revision, tools,
                    egress, rendered, reason, message
             from plugin where $1::text is null or name = $1 order by name",
            name,
        )
        .fetch_all(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        let row = rows.into_iter().map(|row| {
            let trouble = row.reason.zip(row.message);
            let granted = |revision: Option<String>, tools, egress: &str| {
                let egress = read_enum("what a plugin reaches", egress)?;
                Ok::<_, Error>(revision.map(|revision| Granted { revision, tools, egress }))
            };
            Ok(PluginRow {
                uid: row.uid.to_string(),
                name: row.name,
                source: decode("the source of a plugin", &row.source)?,
                offered: row.offered,
                wanted: granted(row.wanted, row.wanted_tools, &row.wanted_egress)?,
                serving: granted(row.revision, row.tools, &row.egress)?,
                rendered: row.rendered,
                trouble: trouble.map(|(reason, message)| Trouble { reason, message }),
            })
        });
        row.collect()
    }
}

/// Ends a change of a plugin, and notes it if there was one. Whether there was. The crash points are those of
/// whoever makes the change.
async fn noted(
    mut tx: Transaction<'_, Postgres>,
    plugin: Uuid,
    done: &PgQueryResult,
    what: &str,
    who: Option<&str>,
    revision: Option<&str>,
) -> Result<bool, Error> {
    let is_changed = done.rows_affected() == 1;
    if is_changed {
        note(&mut tx, plugin, what, who, revision).await?;
    }
    tx.commit().await.map_err(Error::on("change what is wanted of a plugin"))?;
    Ok(is_changed)
}

/// Notes something, and forgets the oldest.
async fn note(
    conn: &mut PgConnection,
    plugin: Uuid,
    what: &str,
    who: Option<&str>,
    revision: Option<&str>,
) -> Result<(), Error> {
    sqlx::query!(
        "insert into plugin_event (plugin, what, who, revision) values ($1, $2, $3, $4)",
        plugin,
        what,
        who,
        revision,
    )
    .execute(&mut *conn)
    .await
    .map_err(Error::on("note what became of a plugin"))?;
    sqlx::query!(
        "delete from plugin_event where plugin = $1 and id <= (
             select id from plugin_event where plugin = $1 order by id desc offset $2 limit 1)",
        plugin,
        EVENTS,
    )
    .execute(conn)
    .await
    .map_err(Error::on("forget what became of a plugin"))?;
    Ok(())
}

fn uid(text: &str) -> Result<Uuid, Error> {
    read_enum("the UID of a plugin", text)
}
