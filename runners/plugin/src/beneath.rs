//! Work on files beneath a folder that a plugin may write, following no link on the way.
//!
//! Every part of a path is opened from the descriptor of the part before, so that a link that is put
//! in the way at any moment is an error and leads nowhere.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, fchmod, futimens,
    mkdirat, openat, readlinkat, renameat, statat, symlinkat, unlinkat,
};
use rustix::io::Errno;

const FOLDER: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

/// How deep a tree is walked.
const DEEPEST: usize = 64;

/// A folder, held by its descriptor.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: OwnedFd,
}

/// What stands at a path, and whether it changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Stamp {
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    /// Seconds and nanoseconds of the last change of its content.
    pub(crate) changed: (i64, i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    File,
    Link,
    Folder,
    Other,
}

impl Beneath {
    /// The path itself may lead through links: it is ours.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        Ok(Self { root: openat(CWD, &path, FOLDER, Mode::empty())? })
    }

    /// Names in the folder at the path, which is empty for the root.
    pub(crate) fn list(&self, path: &str) -> io::Result<Vec<Vec<u8>>> {
        let folder = self.folder(path)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&folder)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Calls `each` for everything but folders, with its path. What has no name as text is passed
    /// over, and so is what is gone meanwhile.
    pub(crate) fn walk(
        &self,
        each: &mut dyn FnMut(&str, Stamp) -> io::Result<()>,
    ) -> io::Result<()> {
        self.walk_from("", 0, each)
    }

    fn walk_from(
        &self,
        path: &str,
        depth: usize,
        each: &mut dyn FnMut(&str, Stamp) -> io::Result<()>,
    ) -> io::Result<()> {
        let names = match self.list(path) {
            Err(error) if is_gone(&error) => return Ok(()),
            listed => listed?,
        };
        for name in names {
            let Ok(name) = String::from_utf8(name) else { continue };
            let path = if path.is_empty() { name } else { format!("{path}/{name}") };
            match self.stamp(&path)? {
                Some(Stamp { kind: Kind::Folder, .. }) if depth < DEEPEST => {
                    self.walk_from(&path, depth + 1, each)?;
                }
                Some(Stamp { kind: Kind::Folder, .. }) | None => {}
                Some(stamp) => each(&path, stamp)?,
            }
        }
        Ok(())
    }

    /// What stands at the path; `None` when nothing does.
    pub(crate) fn stamp(&self, path: &str) -> io::Result<Option<Stamp>> {
        let (folder, name) = split(path);
        let found = self
            .folder(folder)
            .and_then(|folder| Ok(statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)?));
        match found {
            Ok(stat) => Ok(Some(Stamp::of(&stat))),
            Err(error) if is_gone(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Opens a regular file.
    pub(crate) fn read(&self, path: &str) -> io::Result<File> {
        let (folder, name) = split(path);
        // A pipe in its place is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = File::from(openat(self.folder(folder)?, name, flags, Mode::empty())?);
        if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no regular file")) }
    }

    /// Where a link leads.
    pub(crate) fn target(&self, path: &str) -> io::Result<String> {
        let (folder, name) = split(path);
        let target = readlinkat(self.folder(folder)?, name, Vec::new())?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Puts a file there, whole or not at all. What stood there is replaced, unless it is a folder.
    pub(crate) fn write(
        &self,
        path: &str,
        mode: u32,
        fill: impl FnOnce(&mut File) -> io::Result<()>,
    ) -> io::Result<()> {
        let (folder, name) = split(path);
        let folder = self.make(folder)?;
        let beside = format!(".{}.famulus-new", &name[..name.floor_char_boundary(200)]);
        match unlinkat(&folder, &beside, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&folder, &beside, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(made);
        let written = fill(&mut file)
            .and_then(|()| Ok(fchmod(&file, Mode::from_raw_mode(mode & 0o777))?))
            .and_then(|()| Ok(renameat(&folder, &beside, &folder, name)?));
        if written.is_err() {
            // It is written anew, or removed with its folder.
            let _left = unlinkat(&folder, &beside, AtFlags::empty());
        }
        written
    }

    /// Takes over a file or a link of another folder, with the time of its last change.
    pub(crate) fn copy(&self, from: &Self, path: &str, stamp: Stamp) -> io::Result<()> {
        match stamp.kind {
            Kind::File => {
                let mut source = from.read(path)?;
                let mode =
                    std::os::unix::fs::PermissionsExt::mode(&source.metadata()?.permissions());
                self.write(path, mode | 0o600, |file| {
                    io::copy(&mut source, file)?;
                    touch(file, stamp.changed)
                })
            }
            Kind::Link => {
                let (folder, name) = split(path);
                let target = readlinkat(from.folder(folder)?, name, Vec::new())?;
                self.link(path, target.as_bytes(), stamp.changed)
            }
            // Neither is handed to a copy.
            Kind::Folder | Kind::Other => Ok(()),
        }
    }

    /// Puts a link there, in the place of a file or a link.
    pub(crate) fn link(&self, path: &str, target: &[u8], changed: (i64, i64)) -> io::Result<()> {
        let (folder, name) = split(path);
        self.remove(path)?;
        let folder = self.make(folder)?;
        symlinkat(target, &folder, name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&folder, name, &times(changed), flags)?)
    }

    /// Removes a file or a link, if it is there.
    pub(crate) fn remove(&self, path: &str) -> io::Result<()> {
        let (folder, name) = split(path);
        let done =
            self.folder(folder).and_then(|folder| Ok(unlinkat(&folder, name, AtFlags::empty())?));
        match done {
            Err(error) if is_gone(&error) => Ok(()),
            done => done,
        }
    }

    fn folder(&self, path: &str) -> io::Result<OwnedFd> {
        let mut folder = openat(&self.root, ".", FOLDER, Mode::empty())?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            refuse_dots(part)?;
            folder = openat(&folder, part, FOLDER, Mode::empty())?;
        }
        Ok(folder)
    }

    /// The folder, made with all above it where they are missing.
    fn make(&self, path: &str) -> io::Result<OwnedFd> {
        let mut folder = openat(&self.root, ".", FOLDER, Mode::empty())?;
        for part in path.split('/').filter(|part| !part.is_empty()) {
            refuse_dots(part)?;
            match mkdirat(&folder, part, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            folder = openat(&folder, part, FOLDER, Mode::empty())?;
        }
        Ok(folder)
    }
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Kind::File,
            FileType::Symlink => Kind::Link,
            FileType::Directory => Kind::Folder,
            FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => Kind::Other,
        };
        let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or_default();
        Self { kind, bytes: stat.st_size.max(0) as u64, changed: (stat.st_mtime, nanos) }
    }
}

/// Gives a file the time of its last change: seconds and nanoseconds.
pub(crate) fn touch(file: &File, changed: (i64, i64)) -> io::Result<()> {
    Ok(futimens(file, &times(changed))?)
}

fn times(changed: (i64, i64)) -> Timestamps {
    let time = Timespec { tv_sec: changed.0, tv_nsec: changed.1 };
    Timestamps { last_access: time, last_modification: time }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn refuse_dots(part: &str) -> io::Result<()> {
    if part == "." || part == ".." { Err(io::ErrorKind::InvalidInput.into()) } else { Ok(()) }
}

/// Nothing is there, or something that is no folder stands above it.
fn is_gone(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::NOTDIR | Errno::LOOP))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn no_link_is_followed_in_either_direction() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        let inside = base.path().join("inside");
        fs::create_dir_all(&outside).unwrap();
        fs::create_dir_all(inside.join("folder")).unwrap();
        fs::write(outside.join("secret"), "secret").unwrap();
        symlink(&outside, inside.join("way")).unwrap();
        symlink(outside.join("secret"), inside.join("link")).unwrap();
        let beneath = Beneath::open(&inside).unwrap();
        let fill = |file: &mut File| file.write_all(b"x");
        assert!(beneath.read("way/secret").is_err());
        assert!(beneath.read("link").is_err());
        assert!(beneath.read("folder").is_err());
        assert!(beneath.write("way/new", 0o644, fill).is_err());
        assert!(beneath.write("folder/../../new", 0o644, fill).is_err());
        beneath.remove("way/secret").unwrap();
        assert!(outside.join("secret").exists());
        // A link in the place of a file is replaced, not written through.
        beneath.write("link", 0o600, fill).unwrap();
        assert_eq!(fs::read_to_string(outside.join("secret")).unwrap(), "secret");
        assert_eq!(fs::read_to_string(inside.join("link")).unwrap(), "x");
        assert_eq!(fs::metadata(inside.join("link")).unwrap().permissions().mode() & 0o777, 0o600);
        beneath.write("deep/er/file", 0o755, fill).unwrap();
        let mut seen = Vec::new();
        let mut note = |path: &str, stamp: Stamp| {
            seen.push((path.to_owned(), stamp.kind));
            Ok(())
        };
        beneath.walk(&mut note).unwrap();
        seen.sort_by(|a, b| a.0.cmp(&b.0));
        let expected = [("deep/er/file", Kind::File), ("link", Kind::File), ("way", Kind::Link)];
        assert_eq!(seen, expected.map(|(path, kind)| (path.to_owned(), kind)));
    }

    #[test]
    fn a_copy_keeps_what_a_change_is_told_by() {
        let base = tempfile::tempdir().unwrap();
        let (from, to) = (base.path().join("from"), base.path().join("to"));
        fs::create_dir_all(from.join("a")).unwrap();
        fs::create_dir_all(&to).unwrap();
        fs::write(from.join("a/file"), "text").unwrap();
        fs::set_permissions(from.join("a/file"), fs::Permissions::from_mode(0o711)).unwrap();
        symlink("file", from.join("a/link")).unwrap();
        let (source, target) = (Beneath::open(&from).unwrap(), Beneath::open(&to).unwrap());
        for path in ["a/file", "a/link"] {
            let stamp = source.stamp(path).unwrap().unwrap();
            target.copy(&source, path, stamp).unwrap();
            assert_eq!(target.stamp(path).unwrap(), Some(stamp));
        }
        assert_eq!(fs::read_to_string(to.join("a/link")).unwrap(), "text");
        assert_eq!(fs::metadata(to.join("a/file")).unwrap().permissions().mode() & 0o777, 0o711);
        assert_eq!(target.stamp("gone/x").unwrap(), None);
    }
}
