//! The control groups of a cluster: one folder in every hierarchy of the machine, with all Pods
//! below it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::place::Place;
use super::wait;

const ROOT: &str = "/sys/fs/cgroup";

/// Every control group has this file, a folder that only gathers mounts has not.
const SIGN: &str = "cgroup.procs";

/// Groups of processes that have just ended are still busy.
const LIMIT: Duration = Duration::from_secs(10);

/// Makes the folders: the kubelet wants its root to exist.
pub(super) fn create(place: &Place) -> Result<()> {
    for folder in folders(place)? {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make the control group {}", folder.display()))?;
    }
    Ok(())
}

/// Those that exist.
pub(super) fn left(place: &Place) -> Result<Vec<PathBuf>> {
    Ok(folders(place)?.into_iter().filter(|folder| folder.exists()).collect())
}

pub(super) async fn remove(place: &Place) -> Result<()> {
    wait::until("the end of the control groups", LIMIT, || {
        for folder in left(place)? {
            remove_below(&folder);
        }
        Ok(left(place)?.is_empty().then_some(()))
    })
    .await
}

/// One folder in each hierarchy, or in the only one.
fn folders(place: &Place) -> Result<Vec<PathBuf>> {
    let root = Path::new(ROOT);
    let mut roots = vec![root.to_owned()];
    if !root.join(SIGN).exists() {
        let entries = fs::read_dir(root).context("this machine has no control groups")?;
        let folders = entries.filter_map(|entry| Some(entry.ok()?.path()));
        // Links such as `cpuacct` lead to a hierarchy that is listed already.
        roots = folders.filter(|path| !path.is_symlink() && path.join(SIGN).exists()).collect();
    }
    Ok(roots.into_iter().map(|root| root.join(place.cgroup())).collect())
}

/// Removes what can be removed, the innermost first. Only folders: the files in them are not files.
fn remove_below(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
        }
    }
    let _ = fs::remove_dir(folder);
}
