//! What lies below a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::settings::Budget;

/// A block, as the kernel counts what a file takes.
const BLOCK: u64 = 512;

#[derive(Debug, Default)]
pub(super) struct Used {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Files of several names, each counted once.
    seen: BTreeSet<(u64, u64)>,
}

impl Used {
    /// Counts until it is too much. Follows the place itself if it is a link, and no other.
    pub(super) fn add(&mut self, place: &Path, limit: Budget) -> io::Result<()> {
        let mut folders = vec![place.canonicalize()?];
        while let Some(folder) = folders.pop() {
            let Ok(entries) = fs::read_dir(folder) else { continue };
            for entry in entries {
                let entry = entry?;
                let Ok(metadata) = entry.metadata() else { continue };
                if metadata.is_dir() {
                    folders.push(entry.path());
                } else if metadata.nlink() > 1
                    && !self.seen.insert((metadata.dev(), metadata.ino()))
                {
                    continue;
                }
                self.files += 1;
                self.bytes += metadata.blocks() * BLOCK;
                if self.bytes > limit.bytes || self.files > limit.files {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_counted_once_and_links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("tree");
        fs::create_dir_all(place.join("a/b")).unwrap();
        fs::write(base.path().join("outside"), vec![1; 1 << 20]).unwrap();
        fs::write(place.join("a/one"), vec![1; 8192]).unwrap();
        fs::hard_link(place.join("a/one"), place.join("a/b/two")).unwrap();
        std::os::unix::fs::symlink(base.path(), place.join("out")).unwrap();
        let count = |limit: Budget| {
            let mut used = Used::default();
            used.add(&place, limit).unwrap();
            (used.bytes, used.files)
        };
        let (bytes, files) = count(Budget { bytes: u64::MAX, files: u64::MAX });
        assert!((8192..65536).contains(&bytes), "{bytes}");
        assert_eq!(files, 4);
        assert_eq!(count(Budget { bytes: u64::MAX, files: 1 }).1, 2, "it ends when it is enough");
    }
}
