//! What a cluster may leave behind on the machine.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

use super::place::Place;
use super::{cgroups, namespace, storage, wait};

/// How long the last ones may take to go.
const LIMIT: Duration = Duration::from_mins(1);

/// What is left, in words; nothing when all is gone. `network` is the one that the cluster had.
pub(super) async fn of(place: &Place, network: Option<&str>) -> Result<Vec<String>> {
    let gone = wait::until("the end of everything", LIMIT, || {
        Ok(now(place, network)?.is_empty().then_some(()))
    });
    match gone.await {
        Ok(()) => Ok(Vec::new()),
        Err(_) => now(place, network),
    }
}

fn now(place: &Place, network: Option<&str>) -> Result<Vec<String>> {
    let mut left = Vec::new();
    for pid in namespace::stragglers(place, network)? {
        left.push(format!("the process {pid} ({})", namespace::name(pid)));
    }
    left.extend(mounts(place)?.into_iter().map(|mount| format!("the mount {mount}")));
    left.extend(storage::loops(place).into_iter().map(|name| format!("the loop device {name}")));
    let groups = cgroups::left(place)?;
    left.extend(groups.iter().map(|group| format!("the control group {}", group.display())));
    if place.folder.exists() {
        left.push(format!("the folder {}", place.folder.display()));
    }
    Ok(left)
}

/// Mounts of the machine in the cluster's folder.
pub(super) fn mounts(place: &Place) -> Result<Vec<String>> {
    let table = fs::read_to_string("/proc/self/mounts").context("cannot list the mounts")?;
    let points = table.lines().filter_map(|line| line.split(' ').nth(1));
    let inside = points.filter(|point| std::path::Path::new(point).starts_with(&place.folder));
    Ok(inside.map(str::to_owned).collect())
}
