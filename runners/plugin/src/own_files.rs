//! What a plugin keeps beside its code, as a tar: `tree/…` is what no bundle put into the tree that
//! serves, and `home/…` the plugin's home.
//!
//! It is what goes with a plugin from revision to revision, and like there empty folders, pipes and names
//! that are no text stay behind.

use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tar::{Archive, Builder, EntryType, Header};

use crate::beneath::{Beneath, Kind, Stamp, touch};
use crate::carry::{self, is_bundled, is_passed_over};
use crate::volume::{Record, Volume};

const TREE: &str = "tree/";
const HOME: &str = "home/";

/// Where a plugin has its files.
pub(crate) struct OwnFiles {
    pub(crate) tree: Beneath,
    pub(crate) record: Record,
    pub(crate) home: Beneath,
}

impl OwnFiles {
    /// Those beside the tree of a revision; nothing, where that was not built to its end.
    pub(crate) fn open(volume: &Volume, hex: &str, home: &Path) -> io::Result<Option<Self>> {
        let Some(record) = volume.record(hex)? else { return Ok(None) };
        let (tree, home) = (Beneath::open(&volume.tree(hex))?, Beneath::open(home)?);
        Ok(Some(Self { tree, record, home }))
    }

    /// Writes all of them. Nobody writes to them meanwhile.
    pub(crate) fn give(&self, to: &mut dyn Write) -> io::Result<()> {
        let mut tar = Builder::new(to);
        for (path, stamp) in carry::own(&self.tree, &self.record)? {
            append(&mut tar, &self.tree, TREE, &path, stamp)?;
        }
        self.home.walk(&mut |path, stamp| append(&mut tar, &self.home, HOME, path, stamp))?;
        tar.finish()
    }

    /// Puts them back; what the bundle put there stays. It can be done again.
    pub(crate) fn take(&self, from: impl Read) -> io::Result<()> {
        let mut tar = Archive::new(from);
        for entry in tar.entries()? {
            let mut entry = entry?;
            let name =
                entry.path()?.to_str().map(str::to_owned).ok_or_else(|| strange("a path"))?;
            let (into, path) = match (name.strip_prefix(TREE), name.strip_prefix(HOME)) {
                (Some(path), _) => (&self.tree, path),
                (None, Some(path)) => (&self.home, path),
                (None, None) => return Err(strange("a folder")),
            };
            if name.starts_with(TREE) && is_bundled(path, &self.record.bundled) {
                continue;
            }
            let changed = (entry.header().mtime()?.cast_signed(), 0);
            let kind = entry.header().entry_type();
            let put = if kind.is_file() {
                let (mode, left) = (entry.header().mode()?, entry.size());
                into.write(path, mode | 0o600, |file| {
                    io::copy(&mut Exactly { inner: &mut entry, left }, file)?;
                    touch(file, changed)
                })
            } else if kind.is_symlink() {
                let target = entry.link_name_bytes().ok_or_else(|| strange("a link"))?;
                into.link(path, &target, changed)
            } else {
                return Err(strange("an entry"));
            };
            match put {
                Ok(()) => {}
                // The init script made something else of it.
                Err(error) if is_passed_over(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn append(
    tar: &mut Builder<&mut dyn Write>,
    from: &Beneath,
    prefix: &str,
    path: &str,
    stamp: Stamp,
) -> io::Result<()> {
    let name = format!("{prefix}{path}");
    let mut header = Header::new_gnu();
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(stamp.changed.0.max(0).cast_unsigned());
    match stamp.kind {
        Kind::File => {
            let file = from.read(path)?;
            let metadata = file.metadata()?;
            header.set_entry_type(EntryType::Regular);
            header.set_mode(metadata.permissions().mode() & 0o777);
            header.set_size(metadata.len());
            tar.append_data(&mut header, name, Exactly { inner: file, left: metadata.len() })
        }
        Kind::Link => {
            header.set_entry_type(EntryType::Symlink);
            header.set_mode(0o777);
            header.set_size(0);
            tar.append_link(&mut header, name, from.target(path)?)
        }
        Kind::Folder | Kind::Other => Ok(()),
    }
}

fn strange(what: &str) -> io::Error {
    io::Error::other(format!("{what} of the archive is none that a runner gave"))
}

/// As many bytes as were promised, or an error.
struct Exactly<R> {
    inner: R,
    left: u64,
}

impl<R: Read> Read for Exactly<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let most = to.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if most == 0 {
            return Ok(0);
        }
        let read = self.inner.read(&mut to[..most])?;
        if read == 0 {
            return Err(io::Error::other("a file ended before all of it was read"));
        }
        self.left -= read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;
    use crate::carry::fingerprint;

    fn write(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }

    /// A tree with a bundle of two files, and a home.
    fn place(root: &Path) -> OwnFiles {
        write(root, "tree/manifest.json", "{}");
        write(root, "tree/t/run", "code");
        fs::create_dir_all(root.join("home")).unwrap();
        let tree = Beneath::open(&root.join("tree")).unwrap();
        let bundled = fingerprint(&tree, ["manifest.json", "t/run"]).unwrap();
        let record = Record::of(String::new(), bundled);
        OwnFiles { tree, record, home: Beneath::open(&root.join("home")).unwrap() }
    }

    fn given(files: &OwnFiles) -> Vec<u8> {
        let mut tar = Vec::new();
        files.give(&mut tar).unwrap();
        tar
    }

    #[test]
    fn what_a_plugin_keeps_comes_back_and_its_code_does_not() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let long = format!("tree/data/{}", "long/".repeat(40) + "file");
        for (path, text) in [
            ("tree/data/kept.db", "rows"),
            ("tree/t/cache", ""),
            ("home/.config/tool", "token"),
            (&long, "deep"),
        ] {
            write(from.path(), path, text);
        }
        symlink("../somewhere/else", from.path().join("tree/link")).unwrap();
        symlink("/etc/passwd", from.path().join("home/link")).unwrap();
        let executable = fs::Permissions::from_mode(0o750);
        fs::set_permissions(from.path().join("tree/data/kept.db"), executable).unwrap();
        let old = place(from.path());
        write(from.path(), "tree/config.json", "a secret");
        write(from.path(), "tree/t/run", "changed by the plugin");
        let tar = given(&old);
        let new = place(to.path());
        write(to.path(), "tree/data/kept.db", "made by init");
        new.take(tar.as_slice()).unwrap();
        assert_eq!(given(&new), tar, "the same files with the same modes and times");
        let read = |path: &str| fs::read_to_string(to.path().join(path)).unwrap();
        assert_eq!(read("tree/data/kept.db"), "rows");
        assert_eq!(read("home/.config/tool"), "token");
        assert_eq!(read("tree/t/run"), "code");
        assert!(!to.path().join("tree/config.json").exists());
        assert_eq!(
            fs::read_link(to.path().join("tree/link")).unwrap(),
            Path::new("../somewhere/else")
        );
    }

    #[test]
    fn nothing_of_an_archive_leaves_the_plugins_folders() {
        let to = tempfile::tempdir().unwrap();
        let files = place(to.path());
        let outside = to.path().join("outside");
        fs::create_dir(&outside).unwrap();
        let archive = |name: &str, kind: EntryType| {
            let mut tar = Builder::new(Vec::new());
            let mut header = Header::new_gnu();
            header.set_entry_type(kind);
            header.set_mode(0o644);
            header.set_size(if kind == EntryType::Regular { 4 } else { 0 });
            // As somebody would write it who means harm.
            header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            tar.append(&header, &b"evil"[..if kind == EntryType::Regular { 4 } else { 0 }])
                .unwrap();
            tar.into_inner().unwrap()
        };
        for name in ["tree/../outside/x", "outside/x", "/etc/x", "home/../../x", "tree"] {
            assert!(files.take(archive(name, EntryType::Regular).as_slice()).is_err(), "{name}");
        }
        for kind in [EntryType::Link, EntryType::Fifo, EntryType::Directory, EntryType::Char] {
            assert!(files.take(archive("tree/x", kind).as_slice()).is_err(), "{kind:?}");
        }
        symlink(&outside, to.path().join("home/way")).unwrap();
        files.take(archive("home/way/x", EntryType::Regular).as_slice()).unwrap();
        assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
    }

    #[test]
    fn an_archive_that_breaks_off_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        write(from.path(), "tree/data", &"x".repeat(5000));
        let tar = given(&place(from.path()));
        let files = place(to.path());
        assert!(files.take(&tar[..3000]).is_err());
        assert!(!to.path().join("tree/data").exists());
    }
}
