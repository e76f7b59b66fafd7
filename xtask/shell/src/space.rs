//! Room on the disks that a whole run writes to, and in memory.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{statfs, statvfs};
use rustix::process::geteuid;

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

/// A folder of ours in memory, where the machine has one with so much room: what lies there needs no disk, and
/// is gone with the machine.
pub fn in_memory(wanted_gib: f64) -> Result<Option<PathBuf>> {
    const SHARED: &str = "/dev/shm";
    // `TMPFS_MAGIC` of `linux/magic.h`.
    let is_in_memory = statfs(SHARED).is_ok_and(|it| it.f_type == 0x0102_1994);
    if !is_in_memory || free_gib(Path::new(SHARED))? < wanted_gib {
        return Ok(None);
    }
    let (user, folder) = (geteuid().as_raw(), Path::new(SHARED));
    let folder = folder.join(format!("famulus-{user}"));
    match fs::DirBuilder::new().mode(0o755).create(&folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error).context(format!("cannot make {}", folder.display())),
    }
    // Anybody may have made it before us.
    let made = folder.symlink_metadata()?;
    Ok((made.is_dir() && made.uid() == user).then_some(folder))
}

/// What programs may still write there, in GiB.
fn free_gib(folder: &Path) -> Result<f64> {
    let folder: PathBuf = folder.ancestors().find(|one| one.exists()).unwrap_or(folder).into();
    let disk = statvfs(&folder).with_context(|| format!("cannot look at {}", folder.display()))?;
    Ok(disk.f_bavail as f64 * disk.f_frsize as f64 / GIB)
}
