//! A backup comes before the database changes its shape: what an update spoils, a restore brings back.

use super::{home::Home, keeping::BEFORE_AN_UPDATE, target::Target};
use anyhow::Context;
use famulus_backup::take::{Outcome, take};
use famulus_core::clock::SystemClock;
use famulus_local::postgres::Running;

/// The schema of a database that somebody has used and that this release would change.
pub(super) async fn pending(target: &Target) -> anyhow::Result<Option<i64>> {
    let there = famulus_store::installation(&target.connect()).await?;
    let newest = famulus_store::newest_schema();
    Ok(there.map(|there| there.schema).filter(|schema| *schema < newest))
}

/// Takes a backup if this release would migrate a database that somebody has used.
///
/// # Errors
/// It was not taken. Nothing was changed, and nothing may be.
pub(crate) async fn before_migration(home: &Home, place: &Running) -> anyhow::Result<()> {
    let target = Target::of(place, Running::DATABASE);
    let Some(older) = pending(&target).await? else { return Ok(()) };
    let newest = famulus_store::newest_schema();
    if !home.config.before_updates {
        tracing::warn!(
            schema = older,
            wanted = newest,
            "the database is changed without a backup: `backup.before_updates` is false"
        );
        return Ok(());
    }
    let taken = async {
        let source = home.source(&target, BEFORE_AN_UPDATE).await?;
        anyhow::Ok(take(home.plan(), source, &SystemClock).await?)
    };
    let Outcome { name, manifest, .. } = taken.await.with_context(|| {
        format!(
            "this release changes the database (schema {older} to {newest}), and the backup that \
             comes before was not taken, so nothing was changed; see to the cause, start the \
             release of before, or go without by `backup.before_updates = false`"
        )
    })?;
    tracing::info!(
        backup.name = name,
        backup.bytes = manifest.bytes(),
        schema = older,
        wanted = newest,
        "a backup was taken before the database is changed"
    );
    Ok(())
}
