//! Bundles that are kept no longer.
//!
//! What serves, what is pinned and the last few of each plugin stay. Those of a plugin that is gone stay
//! for a month, counted from the first whole list of Plugins that lacks it: a restored database may be
//! older than its Plugins, and a restored cluster may get them later. Only rows go here; their pieces are
//! then nobody's, and go by retention.

use crate::{
    db::{Scope, Store},
    error::Error,
};
use famulus_core::plugin::InstalledPlugin;
use famulus_lifecycle::boxed;
use famulus_queue::Instant;
use jiff::{SignedDuration, Timestamp};

/// A revision that was described so lately may be on its way to serve.
const YOUNG: SignedDuration = SignedDuration::from_hours(24);

/// How long the bundles of a plugin are kept that is not there.
const MISSING: SignedDuration = SignedDuration::from_hours(30 * 24);

impl Store {
    /// Forgets the revisions that are not to be kept, after a whole list of the plugins that there are:
    /// of each the `keep` that were built last stay, and those in use. How many went.
    #[boxed]
    pub async fn forget_revisions(
        &self,
        now: Timestamp,
        installed: &[InstalledPlugin],
        keep: u32,
    ) -> Result<u64, Error> {
        let failed = || Error::on("forget old revisions");
        let ago = |age| Instant(now.checked_sub(age).unwrap_or(Timestamp::MIN));
        let names: Vec<&str> = installed.iter().map(|plugin| plugin.name.as_str()).collect();
        let in_use: Vec<&str> =
            installed.iter().flat_map(|plugin| &plugin.in_use).map(String::as_str).collect();
        let mut tx = self.begin(Scope::System).await?;
        sqlx::query!(
            "update plugin_revision
             set missing_since = case when plugin = any($1) then null else $2::timestamptz end
             where (plugin = any($1)) = (missing_since is not null)",
            &names as _,
            Instant(now) as _,
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        let gone = sqlx::query!(
            "delete from plugin_revision
             where missing_since < $1
                or plugin = any($2) and described_at < $3 and not digest = any($4)
                   and digest in (
                       select digest from (
                           select digest, row_number() over (
                               partition by plugin order by described_at desc, created_at desc, digest
                           ) as place from plugin_revision
                       ) as ranked where place > $5)",
            ago(MISSING) as _,
            &names as _,
            ago(YOUNG) as _,
            &in_use as _,
            i64::from(keep),
        )
        .execute(&mut *tx)
        .await
        .map_err(failed())?;
        tx.commit().await.map_err(failed())?;
        Ok(gone.rows_affected())
    }
}
