//! `famulus restore` into a database that somebody else keeps, and into a cluster from nothing.
//!
//! ```text
//! Secrets (before the release makes its own) ─► database, empty until all of it is there ─► Plugins
//!     ─► their files, each as soon as its revision is built; until then it takes no calls
//! ```
//!
//! Who keeps the database makes it, and decides what becomes of one that holds something: here it is
//! left as it is.

use super::{
    drill::{checked, sound},
    held,
    home::Opened,
    keeping::{self, FOR_A_RESTORE},
    restore::{any, hold_back, tell},
    target::Target,
    which,
};
use crate::{
    args::{RestoreArgs, RestoreSecretsArgs},
    paths::Paths,
    say,
};
use anyhow::Context;
use famulus_backup::{
    backups::{Backups, Which},
    manifest::{Holds, Manifest},
    restore as parts,
};
use famulus_cluster::{
    RESTORED_FROM,
    keeper::Keeper,
    kept::{self, Made},
};
use famulus_errors::chain;
use famulus_lifecycle::Signals;
use famulus_store::{Connect, HeldBack, Restoring};
use secrecy::ExposeSecret;
use std::{path::PathBuf, time::Duration};

/// A server that starts beside who waits has this long.
const FOR_A_SERVER: Duration = Duration::from_mins(10);
/// How often somebody who waits looks.
const LOOK: Duration = Duration::from_secs(1);

/// `famulus restore …`, where the configuration names a database.
pub(super) async fn restore(
    wanted: &RestoreArgs,
    which: &Which,
    opened: &Opened,
    signals: &mut Signals,
) -> anyhow::Result<()> {
    anyhow::ensure!(
        !wanted.replace,
        "--replace is for the private Postgres; restore into an empty database, and name it in \
         DATABASE_URL when it is there"
    );
    let url = opened.database.url.as_ref().context("no database is named")?;
    if wanted.wait {
        return tokio::select! {
            waited = Box::pin(wait(opened)) => waited,
            _signal = signals.wait_for_signal() => anyhow::bail!("stopped before it was restored"),
        };
    }
    let target = Target::elsewhere(url, &opened.database, false).await?;
    let backups = opened.home.backups.clone();
    let work = async {
        if let Some(restored) = famulus_store::restored(&target.connect()).await? {
            say::line(&format!("{restored} is restored already; the database stays as it is."));
            return again(opened, &backups, restored).await;
        }
        any(&backups).await?;
        let there = famulus_store::installation(&target.connect()).await?;
        let died = famulus_store::restore_died(&target.connect()).await?;
        anyhow::ensure!(
            there.is_none() || died,
            "the database holds an installation already, and nothing is put in its place; restore into \
             an empty database"
        );
        let (name, _) = backups.find(which, None).await?;
        let manifest = checked(&backups, &name).await?;
        let held = fill(opened, &backups, &name, &manifest, &target).await?;
        tell(&name, &manifest, held);
        rest(opened, &backups, &name, &manifest).await
    };
    tokio::select! {
        done = Box::pin(work) => done,
        _signal = signals.wait_for_signal() => {
            anyhow::bail!("stopped before everything was restored; begin again")
        }
    }
}

/// Fills the database, which is empty again where that fails.
async fn fill(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
    target: &Target,
) -> anyhow::Result<HeldBack> {
    let identities = opened.home.identities()?;
    let restoring = Restoring::begin(&target.connect()).await?;
    let restoring = restoring
        .context("the database is being restored by another process; wait until it has ended")?;
    let filled = async {
        parts::database(backups, name, manifest, identities, &target.server()?).await?;
        sound(target, name).await?;
        hold_back(target, name).await
    };
    match filled.await {
        Ok(held) => {
            restoring.end().await?;
            Ok(held)
        }
        Err(error) => {
            restoring.undo().await?;
            Err(error)
        }
    }
}

/// What may be missing of a backup that was restored before, unless it is gone by now.
async fn again(opened: &Opened, backups: &Backups, restored: String) -> anyhow::Result<()> {
    match backups.find(&Which::Named(restored.clone()), None).await {
        Ok((name, manifest)) => rest(opened, backups, &name, &manifest).await,
        Err(error) => {
            let error = chain(&error);
            say::line(&format!("  Nothing else of it is looked for: {error}."));
            Ok(())
        }
    }
}

/// What is not in the database. What fails keeps the other from nothing.
async fn rest(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
) -> anyhow::Result<()> {
    let channels = held::give_back(&opened.home, backups, name, manifest).await;
    plugins(opened, backups, name, manifest).await?;
    channels
}

/// Makes the Plugins again, where there is a cluster.
async fn plugins(
    opened: &Opened,
    backups: &Backups,
    name: &str,
    manifest: &Manifest,
) -> anyhow::Result<()> {
    let Some(cluster) = opened.home.plugins.cluster() else { return Ok(()) };
    let identities = opened.home.identities()?;
    let Some(bytes) = parts::small(backups, name, manifest, Holds::Plugins, identities).await?
    else {
        return Ok(());
    };
    let namespace = &cluster.sandbox_namespace;
    let identities = opened.home.identities()?;
    let rest = keeping::rest(backups, name, manifest, identities.as_ref()).await?;
    let Made { made, there } = kept::make_plugins(namespace, &bytes, &rest).await?;
    if !made.is_empty() {
        say::line(&format!("  {} Plugins are there again: {}.", made.len(), made.join(", ")));
    }
    if !there.is_empty() {
        say::line(&format!(
            "  These were there already, and stay as they are: {}.",
            there.join(", ")
        ));
    }
    let waiting = kept::waiting(namespace, name).await?;
    if waiting.is_empty() {
        return Ok(());
    }
    let key = cluster.keeper_key_file.as_ref();
    let key =
        key.context("`cluster.keeper_key_file` names no key to give plugins their files with")?;
    let keeper = Keeper::connect(namespace, key, FOR_A_RESTORE).await?;
    let mut without = Vec::new();
    for plugin in waiting {
        let given =
            keeping::give_back(&keeper, &plugin, backups, name, manifest, identities.as_ref());
        match given.await {
            Ok(()) => {
                kept::has_its_files(namespace, &plugin).await?;
                say::line(&format!("  The plugin {plugin} has its files."));
            }
            Err(error) => without.push(format!("{plugin} ({error:#})")),
        }
    }
    anyhow::ensure!(
        without.is_empty(),
        "these plugins wait for their files: {}; begin again, or remove their annotation {RESTORED_FROM} \
         to go on without",
        without.join(", ")
    );
    Ok(())
}

/// Waits until somebody else has restored the database.
async fn wait(opened: &Opened) -> anyhow::Result<()> {
    let url = opened.database.url.as_ref().context("no database is named")?;
    // The server may start only now, and who waits needs no programs.
    let connect = Connect { patience: FOR_A_SERVER, ..Connect::new(url.expose_secret()) };
    loop {
        if let Some(restored) = famulus_store::restored(&connect).await? {
            say::line(&format!("{restored} is restored."));
            return Ok(());
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// `famulus restore-secrets …`: what the rest of a release is derived from. What is there already stays.
pub async fn restore_secrets(
    wanted: RestoreSecretsArgs,
    file: Option<PathBuf>,
    places: Paths,
) -> anyhow::Result<()> {
    let which = which(&wanted.backup, wanted.at)?;
    let (opened, _telemetry) = Opened::load(file, places)?;
    let backups = opened.home.backups.clone();
    any(&backups).await?;
    let (name, _) = backups.find(&which, None).await?;
    let manifest = checked(&backups, &name).await?;
    let RestoreSecretsArgs { release, namespace, root_key, token, .. } = wanted;
    for (secret, key, holds) in [(root_key, "key", Holds::RootKey), (token, "token", Holds::Token)]
    {
        let Some(secret) = secret else { continue };
        let identities = opened.home.identities()?;
        let Some(value) = parts::small(&backups, &name, &manifest, holds, identities).await? else {
            say::line(&format!("{name} has nothing for the Secret {secret}; a new one is made."));
            continue;
        };
        let Made { made, .. } =
            kept::make_secret(&namespace, &release, &secret, key, value).await?;
        let how = if made.is_empty() { "was there already, and stays as it is" } else { "is back" };
        say::line(&format!("The Secret {secret} {how}."));
    }
    Ok(())
}
