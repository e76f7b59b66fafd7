//! Files that a program holds open after their names are gone.
//!
//! Whoever may look at a process sees its descriptors below `/proc`. Those of a process that keeps
//! others of its user from looking are not seen.

use std::fs::{self, DirEntry};
use std::os::unix::fs::MetadataExt;

use rustix::process::geteuid;

use super::used::{Taken, Used};

/// Counts those of this user's processes on the disks of which something was counted.
pub(super) fn add(used: &mut Used) {
    let user = geteuid().as_raw();
    // Processes end while they are looked at, and whatever fails has gone with one.
    for process in entries("/proc").filter(is_process) {
        if !process.metadata().is_ok_and(|it| it.uid() == user) {
            continue;
        }
        for descriptor in entries(process.path().join("fd")) {
            let Ok(file) = fs::metadata(descriptor.path()) else { continue };
            if file.is_file() && file.nlink() == 0 && used.is_on(file.dev()) {
                used.count(Taken {
                    device: file.dev(),
                    inode: file.ino(),
                    blocks: file.blocks(),
                    shared: true,
                });
            }
        }
    }
}

fn entries(folder: impl AsRef<std::path::Path>) -> impl Iterator<Item = DirEntry> {
    fs::read_dir(folder).into_iter().flatten().flatten()
}

fn is_process(entry: &DirEntry) -> bool {
    entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::settings::Budget;

    #[test]
    fn a_file_without_a_name_counts_as_long_as_it_is_open_and_once() {
        const ANY: Budget = Budget { bytes: u64::MAX, files: u64::MAX };
        const MUCH: u64 = 32 << 20;
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("kept"), "k").unwrap();
        let mut file = tempfile::tempfile_in(place.path()).unwrap();
        file.write_all(&vec![1; MUCH as usize]).unwrap();
        let twice = file.try_clone().unwrap();
        let counted = || {
            let mut used = Used::default();
            used.add(place.path(), ANY).unwrap();
            add(&mut used);
            used
        };
        let over = |bytes: u64| counted().over(Budget { bytes, ..ANY }).is_some();
        // Other tests of this process may hold such files too, but none so large.
        assert!(over(MUCH - 1) && !over(MUCH * 3 / 2), "{:?}", counted());
        drop((file, twice));
        assert!(!over(MUCH / 2), "{:?}", counted());
    }
}
