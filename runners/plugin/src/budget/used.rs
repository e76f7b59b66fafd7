//! What lies below a folder, counted so that a plugin hides nothing there.
//!
//! Each folder is opened from the descriptor of the one above it, so that no length of a path and no
//! link in the way keeps it from being counted. One that its owner, the plugin, closed is opened to
//! its owner again. What cannot be counted all the same is as good as too much.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, chmod, fchmod, fstat, openat, statat,
};
use rustix::io::Errno;

use crate::settings::Budget;

/// A block, as the kernel counts what a file takes.
const BLOCK: u64 = 512;

/// How deep folders may lie. Packages within packages come to about thirty.
const DEEPEST: usize = 64;

/// How often a folder is opened to its owner in one look: a tool may close it at the same time.
const TRIES: usize = 3;

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// A folder itself, whatever its mode is.
const PLACE: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::PATH).union(OFlags::CLOEXEC);

/// What an owner needs to look into a folder.
const LOOK_INTO: Mode = Mode::RUSR.union(Mode::XUSR);

/// Why something was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Uncounted {
    #[error("folders of the plugin lie more than {DEEPEST} deep, where they are not counted")]
    Deep,
    #[error("a folder of the plugin cannot be looked into, and so is not counted")]
    Closed,
}

/// What a file takes, and whether another name or a descriptor may lead to it as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) blocks: u64,
    pub(super) shared: bool,
}

#[derive(Debug, Default)]
pub(super) struct Used {
    bytes: u64,
    files: u64,
    /// Where anything was counted.
    devices: BTreeSet<u64>,
    /// Shared files, each counted once.
    seen: BTreeSet<(u64, u64)>,
}

impl Used {
    /// Counts until it is too much. Follows the place itself if it is a link, and no other.
    pub(super) fn add(&mut self, place: &Path, limit: Budget) -> Result<(), Uncounted> {
        // What is not there yet has nothing in it.
        let Ok(place) = place.canonicalize() else { return Ok(()) };
        let Ok(name) = CString::new(place.as_os_str().as_bytes()) else { return Ok(()) };
        match folder(CWD, &name)? {
            Some(found) => self.below(found.as_fd(), DEEPEST, limit),
            None => Ok(()),
        }
    }

    pub(super) fn count(&mut self, file: Taken) {
        self.devices.insert(file.device);
        if !file.shared || self.seen.insert((file.device, file.inode)) {
            self.files += 1;
            self.bytes += file.blocks * BLOCK;
        }
    }

    pub(super) fn is_on(&self, device: u64) -> bool {
        self.devices.contains(&device)
    }

    /// What is too much, and how much may be.
    pub(super) fn over(&self, limit: Budget) -> Option<(&'static str, u64)> {
        let bytes = (self.bytes > limit.bytes).then_some(("bytes", limit.bytes));
        bytes.or_else(|| (self.files > limit.files).then_some(("files", limit.files)))
    }

    fn below(
        &mut self,
        within: BorrowedFd<'_>,
        deeper: usize,
        limit: Budget,
    ) -> Result<(), Uncounted> {
        let mut folders = Vec::new();
        for entry in Dir::read_from(within).map_err(|_| Uncounted::Closed)? {
            let entry = entry.map_err(|_| Uncounted::Closed)?;
            let name = entry.file_name();
            if [c".", c".."].contains(&name) {
                continue;
            }
            let Some(stat) = look(within, name)? else { continue };
            let is_folder = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            self.count(Taken {
                device: stat.st_dev,
                inode: stat.st_ino,
                blocks: u64::try_from(stat.st_blocks).unwrap_or_default(),
                shared: !is_folder && stat.st_nlink != 1,
            });
            if self.over(limit).is_some() {
                return Ok(());
            }
            if is_folder {
                folders.push(name.to_owned());
            }
        }
        for name in folders {
            let deeper = deeper.checked_sub(1).ok_or(Uncounted::Deep)?;
            if let Some(found) = folder(within, &name)? {
                self.below(found.as_fd(), deeper, limit)?;
            }
            if self.over(limit).is_some() {
                break;
            }
        }
        Ok(())
    }
}

/// A folder that can be read and entered, or none where there is none any more.
fn folder(within: BorrowedFd<'_>, name: &CStr) -> Result<Option<OwnedFd>, Uncounted> {
    for _ in 0..TRIES {
        match openat(within, name, FOLDER, Mode::empty()) {
            Ok(found) => {
                let mode =
                    Mode::from_raw_mode(fstat(&found).map_err(|_| Uncounted::Closed)?.st_mode);
                if mode.contains(LOOK_INTO) || fchmod(&found, mode | LOOK_INTO).is_ok() {
                    return Ok(Some(found));
                }
            }
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(None),
            Err(Errno::ACCESS) => reopen(within, name),
            Err(_) => break,
        }
    }
    Err(Uncounted::Closed)
}

/// Opens a folder to its owner. Whether that helped is seen at the next try.
fn reopen(within: BorrowedFd<'_>, name: &CStr) {
    let Ok(place) = openat(within, name, PLACE, Mode::empty()) else { return };
    let Ok(stat) = fstat(&place) else { return };
    // A descriptor that is a place alone has no mode to change but by its path.
    let path = format!("/proc/self/fd/{}", place.as_raw_fd());
    let _seen_later = chmod(path, Mode::from_raw_mode(stat.st_mode) | LOOK_INTO);
}

/// What stands under a name, if anything does.
fn look(within: BorrowedFd<'_>, name: &CStr) -> Result<Option<Stat>, Uncounted> {
    for _ in 0..TRIES {
        match statat(within, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => return Ok(Some(stat)),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::ACCESS) => {
                let mode = fstat(within).map_err(|_| Uncounted::Closed)?.st_mode;
                let _seen_next = fchmod(within, Mode::from_raw_mode(mode) | LOOK_INTO);
            }
            Err(_) => break,
        }
    }
    Err(Uncounted::Closed)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    const ANY: Budget = Budget { bytes: u64::MAX, files: u64::MAX };

    fn count(place: &Path, limit: Budget) -> Result<(u64, u64), Uncounted> {
        let mut used = Used::default();
        used.add(place, limit)?;
        Ok((used.bytes, used.files))
    }

    #[test]
    fn what_is_kept_is_counted_once_and_links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let place = base.path().join("tree");
        fs::create_dir_all(place.join("a/b")).unwrap();
        fs::write(base.path().join("outside"), vec![1; 1 << 20]).unwrap();
        fs::write(place.join("a/one"), vec![1; 8192]).unwrap();
        fs::hard_link(place.join("a/one"), place.join("a/b/two")).unwrap();
        symlink(base.path(), place.join("out")).unwrap();
        let (bytes, files) = count(&place, ANY).unwrap();
        assert!((8192..65536).contains(&bytes), "{bytes}");
        assert_eq!(files, 4);
        let few = Budget { files: 1, ..ANY };
        assert_eq!(count(&place, few).unwrap().1, 2, "it ends when it is enough");
        assert_eq!(count(&base.path().join("nothing"), ANY), Ok((0, 0)));
    }

    /// Root reads whatever its mode is; the life of a runner shows the same for its own user.
    #[test]
    fn a_folder_that_is_closed_is_opened_to_its_owner_and_to_nobody_else() {
        for mode in [0, 0o400, 0o100, 0o200, 0o555] {
            let base = tempfile::tempdir().unwrap();
            let folder = base.path().join("closed");
            fs::create_dir_all(folder.join("within")).unwrap();
            fs::write(folder.join("within/file"), vec![1; 8192]).unwrap();
            fs::set_permissions(&folder, Permissions::from_mode(mode)).unwrap();
            assert_eq!(count(base.path(), ANY).unwrap().1, 3, "{mode:o}");
            let now = fs::metadata(&folder).unwrap().permissions().mode() & 0o7777;
            assert_eq!(now, mode | 0o500, "{mode:o}");
        }
    }

    #[test]
    fn what_lies_too_deep_is_said_to_be_uncounted() {
        let base = tempfile::tempdir().unwrap();
        let nested = |levels: usize| vec!["d"; levels].join("/");
        fs::create_dir_all(base.path().join(nested(DEEPEST))).unwrap();
        assert_eq!(count(base.path(), ANY).unwrap().1, DEEPEST as u64);
        fs::create_dir(base.path().join(nested(DEEPEST + 1))).unwrap();
        assert_eq!(count(base.path(), ANY), Err(Uncounted::Deep));
    }
}
