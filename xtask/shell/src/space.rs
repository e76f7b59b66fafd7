//! Room on the disks that a whole run writes to.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::statvfs;

use crate::workspace::{cache, root};

/// What a whole run writes where nothing was built before, with some room to spare.
const WANTED_GIB: f64 = 12.0;

const GIB: f64 = (1_u64 << 30) as f64;

/// Says how much is free where programs are built and where clusters stand, and warns where that is
/// likely to be filled. The run goes on: much may be there already.
pub fn say() -> Result<()> {
    for folder in [root().to_owned(), cache()] {
        let free = free_gib(&folder)?;
        println!("{free:.1} GiB are free at {}", folder.display());
        if free < WANTED_GIB {
            eprintln!(
                "warning: a run of everything writes up to {WANTED_GIB} GiB; where the disk is full, servers end \
                 and tests fail for no reason of their own: make room first"
            );
        }
    }
    Ok(())
}

/// What programs may still write there, in GiB.
fn free_gib(folder: &Path) -> Result<f64> {
    let folder: PathBuf = folder.ancestors().find(|one| one.exists()).unwrap_or(folder).into();
    let disk = statvfs(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok(disk.f_bavail as f64 * disk.f_frsize as f64 / GIB)
}
