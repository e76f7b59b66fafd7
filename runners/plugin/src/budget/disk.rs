//! The filesystem on which a plugin's files lie.
//!
//! Where it is the plugin's own, its blocks say more than a walk does: whatever takes room is among
//! them. Where it is a folder of the node's disk, what others keep there is, too.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{StatVfs, statvfs};

use crate::settings::Budget;

/// Files that lie on the node's disk, whatever a Pod's volumes are: the kubelet writes the second.
const OF_NODE: [&str; 2] = ["/", "/etc/hosts"];

#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    /// Bytes and files that have room on it.
    room: Budget,
    /// What is free of it.
    free: Budget,
    own: bool,
}

impl Disk {
    /// `asked` is the budget: a disk of the plugin's own was asked for by its size.
    pub(super) fn of(place: &Path, asked: Budget) -> io::Result<Self> {
        let device = fs::metadata(place)?.dev();
        let is_there = |path: &&str| fs::metadata(path).is_ok_and(|it| it.dev() == device);
        let elsewhere = !OF_NODE.iter().any(is_there);
        Ok(Self::from(&statvfs(place)?, elsewhere, asked))
    }

    fn from(found: &StatVfs, elsewhere: bool, asked: Budget) -> Self {
        let reserved = found.f_bfree.saturating_sub(found.f_bavail);
        // Some say nothing of blocks, and some make files as they are wanted.
        let known = |all: u64, number: u64| if all == 0 { u64::MAX } else { number };
        let of = |blocks: u64, files: u64| Budget {
            bytes: known(found.f_blocks, blocks.saturating_mul(found.f_frsize)),
            files: known(found.f_files, files),
        };
        let room = of(found.f_blocks.saturating_sub(reserved), found.f_files);
        let free = of(found.f_bavail, found.f_ffree);
        // A budget is nine tenths of what was asked for, and a volume a little more or less than that.
        let is_of_size = asked.bytes != u64::MAX && room.bytes / 4 <= asked.bytes / 3;
        Self { room, free, own: elsewhere && is_of_size }
    }

    /// What may be kept on it: a full disk is to stay usable.
    pub(super) fn share(&self) -> Budget {
        Budget { bytes: self.room.bytes / 10 * 9, files: self.room.files / 10 * 9 }
    }

    /// What of it is too much, and how much may be, if all that lies there is the plugin's. A little
    /// more than its share: older revisions lie there, too, and no plugin is refused for them.
    pub(super) fn over(&self) -> Option<(&'static str, u64)> {
        let over = |what, room: u64, free: u64| {
            let most = room / 100 * 95;
            (self.own && room.saturating_sub(free) > most).then_some((what, most))
        };
        over("bytes", self.room.bytes, self.free.bytes)
            .or_else(|| over("files", self.room.files, self.free.files))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;
    const ASKED: Budget = Budget { bytes: GIB / 10 * 9, files: 50_000 };

    /// A disk with blocks of 4 KiB, of which a twentieth is kept for root.
    fn disk(size: u64, used: u64, inodes: u64, used_inodes: u64) -> StatVfs {
        let (blocks, free) = (size / 4096, (size - used) / 4096);
        StatVfs {
            f_bsize: 4096,
            f_frsize: 4096,
            f_blocks: blocks,
            f_bfree: free,
            f_bavail: free.saturating_sub(blocks / 20),
            f_files: inodes,
            f_ffree: inodes - used_inodes,
            f_favail: inodes - used_inodes,
            f_fsid: 0,
            f_flag: rustix::fs::StatVfsMountFlags::empty(),
            f_namemax: 255,
        }
    }

    #[test]
    fn a_disk_of_ones_own_is_too_full_whatever_fills_it() {
        let over = |found: StatVfs, elsewhere| Disk::from(&found, elsewhere, ASKED).over();
        assert_eq!(over(disk(GIB, GIB / 100 * 90, 65_536, 10), true), None);
        assert_eq!(over(disk(GIB, GIB / 100 * 94, 65_536, 10), true).map(|it| it.0), Some("bytes"));
        assert_eq!(over(disk(GIB, GIB / 2, 65_536, 65_000), true), Some(("files", 62_225)));
        assert_eq!(over(disk(GIB, 0, 0, 0), true), None, "files are made as they are wanted");
        assert_eq!(over(disk(0, 0, 0, 0), true), None, "nothing is known");
    }

    #[test]
    fn what_others_keep_on_a_shared_disk_is_not_the_plugins() {
        let full = disk(GIB, GIB / 100 * 94, 65_536, 10);
        assert_eq!(Disk::from(&full, false, ASKED).over(), None, "it is the node's");
        let large = disk(100 * GIB, 94 * GIB, 6_553_600, 10);
        assert_eq!(Disk::from(&large, true, ASKED).over(), None, "nobody asked for so much");
        let any = Budget { bytes: u64::MAX, ..ASKED };
        assert_eq!(Disk::from(&full, true, any).over(), None, "nobody asked for a size");
    }
}
