//! From one tree to the next, between two calls.
//!
//! ```text
//! calls end ─► files carried over ─► bundle verified ─► config.json ─► self-test ─► active
//! ```
//!
//! Until the last step the old tree serves if anything fails.

use std::path::PathBuf;
use std::time::Duration;

use famulus_protocol::revision::{ConfigKey, digest};
use famulus_runner_harness::WorkHealth;
use famulus_runner_harness::supervisor::Supervisor;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::{JoinError, spawn_blocking};
use tokio::time::{Instant, sleep};

use crate::beneath::Beneath;
use crate::carry::{self, CarryError};
use crate::config::Config;
use crate::plugin::{Plugin, look};
use crate::self_test;
use crate::settings::Sandbox;
use crate::volume::Volume;
use famulus_bundle::Tree;
use famulus_bundle::manifest;
use famulus_runner_harness::scratch::Scratch;

/// How long a moment without calls is waited for before new ones have to wait too.
const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(20);

/// Trees that are kept beside the active one.
const OTHERS: usize = 1;

/// Why a revision does not serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SwitchError {
    #[error("`{0}` names no revision")]
    Name(String),
    #[error("the volume cannot be used")]
    Volume(#[source] std::io::Error),
    #[error("it was not built to its end")]
    Unbuilt,
    #[error(transparent)]
    Carry(#[from] CarryError),
    #[error("the configuration cannot be put in place: {0}")]
    Config(String),
    #[error("the self-test failed: {0}")]
    SelfTest(String),
    #[error("a step ended by a defect of the runner")]
    Defect(#[from] JoinError),
}

/// Lets a revision serve that was built, while no call runs. Gives what its configuration lacks.
pub(crate) async fn switch(
    plugin: &Plugin,
    volume: &Volume,
    supervisor: &Supervisor,
    revision: &str,
    given: Option<String>,
) -> Result<Config, SwitchError> {
    let hex =
        digest(revision).map_err(|_problem| SwitchError::Name(revision.to_owned()))?.to_owned();
    let (own, digits) = (volume.clone(), hex.clone());
    let config = spawn_blocking(move || prepare(&own, &digits, given.as_deref())).await??;
    self_test(plugin, volume.tree(&hex), supervisor).await?;
    let own = volume.clone();
    spawn_blocking(move || own.activate(&hex)).await?.map_err(SwitchError::Volume)?;
    plugin.readiness().change(|state| {
        state.revision = Some(revision.to_owned());
        state.missing.clone_from(&config.missing);
    });
    Ok(config)
}

/// Removes what is not needed any more. Failing is no harm.
pub(crate) async fn thin(volume: &Volume) {
    let volume = volume.clone();
    match spawn_blocking(move || volume.thin(OTHERS)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "old trees could not be removed"),
        Err(error) => tracing::warn!(%error, "old trees could not be removed"),
    }
}

/// Waits until no call runs; while that lasts, none begins.
pub(crate) async fn between_calls(plugin: &Plugin) -> OwnedRwLockWriteGuard<()> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        if let Ok(held) = plugin.gate().clone().try_write_owned() {
            return held;
        }
        sleep(LOOK).await;
    }
    plugin.gate().clone().write_owned().await
}

fn prepare(volume: &Volume, hex: &str, given: Option<&str>) -> Result<Config, SwitchError> {
    let record = volume.record(hex).map_err(SwitchError::Volume)?.ok_or(SwitchError::Unbuilt)?;
    let new = Beneath::open(&volume.tree(hex)).map_err(SwitchError::Volume)?;
    if let Some(active) = volume.active().filter(|active| active != hex)
        && let Some(old) = volume.record(&active).map_err(SwitchError::Volume)?
    {
        let from = Beneath::open(&volume.tree(&active)).map_err(SwitchError::Volume)?;
        carry::rest(&from, &old, &new, &record)?;
    }
    carry::verify(&new, &record)?;
    configure(volume, hex, given)
}

/// Puts the configuration into a tree.
pub(crate) fn configure(
    volume: &Volume,
    hex: &str,
    given: Option<&str>,
) -> Result<Config, SwitchError> {
    let root = volume.tree(hex);
    let keys = Tree::open(&root).map(|tree| keys(&tree)).map_err(SwitchError::Volume)?;
    let config =
        Config::of(&keys, given).map_err(|error| SwitchError::Config(error.to_string()))?;
    let tree = Beneath::open(&root).map_err(SwitchError::Volume)?;
    config.write(&tree).map_err(|error| SwitchError::Config(error.to_string()))?;
    Ok(config)
}

/// What the manifest declares; a broken one declares nothing, and is complained about elsewhere.
fn keys(tree: &Tree) -> Vec<ConfigKey> {
    manifest::plugin(tree).map(|plugin| plugin.config).unwrap_or_default()
}

async fn self_test(
    plugin: &Plugin,
    root: PathBuf,
    supervisor: &Supervisor,
) -> Result<(), SwitchError> {
    let sandbox =
        Sandbox { plugin: root.clone(), state: vec![root.clone()], ..plugin.sandbox().clone() };
    let complaints = spawn_blocking(move || {
        let mut health = WorkHealth::default();
        match Tree::open(&root) {
            Ok(tree) => look(&tree, &mut health),
            Err(error) => health.complaints.push(error.to_string()),
        }
        health.complaints
    });
    let manifests = self_test::manifests(&complaints.await?);
    let scratch = Scratch::make(sandbox.temporary.join(".self-test"));
    let scratch = scratch.map_err(SwitchError::Volume)?;
    let folder = scratch.path().to_owned();
    let process = self_test::process_in(&sandbox, supervisor, folder).await;
    for check in [manifests, process] {
        if !check.passed {
            return Err(SwitchError::SelfTest(check.detail));
        }
    }
    Ok(())
}
