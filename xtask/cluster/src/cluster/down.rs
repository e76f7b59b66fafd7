//! `cargo xtask cluster down`: removes a cluster, and makes sure that nothing of it is left.

use std::fs;

use anyhow::{Context, Result, bail};
use xtask_shell::{Shell, lock};

use super::namespace::{Namespaces, namespace};
use super::place::Place;
use super::{cgroups, packages, residue};

pub(super) async fn run(shell: &mut Shell, place: &Place) -> Result<()> {
    packages::root()?;
    let _lock = lock::take(shell, &place.lock(), "changes this cluster").await?;
    if !is_there(place)? {
        println!("there is no cluster {}", place.name);
        return Ok(());
    }
    remove(place).await?;
    println!("cluster {} is gone; nothing of it is left", place.name);
    Ok(())
}

/// Whether there is a cluster, or a part of one.
pub(super) fn is_there(place: &Place) -> Result<bool> {
    Ok(place.folder.exists()
        || Namespaces::find(place)?.is_some()
        || !cgroups::left(place)?.is_empty())
}

/// Removes everything. It fails when something is left, and says what.
pub(super) async fn remove(place: &Place) -> Result<()> {
    let network = end(place).await?;
    let mounts = residue::mounts(place)?;
    if !mounts.is_empty() {
        bail!("something is mounted in the cluster's folder: {}", mounts.join(", "));
    }
    if place.folder.exists() {
        fs::remove_dir_all(&place.folder)
            .with_context(|| format!("cannot remove {}", place.folder.display()))?;
    }
    let left = residue::of(place, network.as_deref()).await?;
    if !left.is_empty() {
        bail!("left of cluster {}:\n  {}", place.name, left.join("\n  "));
    }
    Ok(())
}

/// Ends what runs and keeps the work folder. Returns which network the cluster had.
pub(super) async fn end(place: &Place) -> Result<Option<String>> {
    let mut network = None;
    while let Some(namespaces) = Namespaces::find(place)? {
        network = namespace(namespaces.first, "net");
        namespaces.end().await?;
    }
    cgroups::remove(place).await?;
    Ok(network)
}
