//! What a plugin made goes with it from revision to revision.
//!
//! A file is the plugin's own when no bundle put it there. It is copied twice: into the new tree
//! before its init script runs, while the old one still serves; and, when calls have ended, whatever
//! changed in between. What init did to its copy stays unless the original changed too.

use std::collections::BTreeMap;
use std::io;

use crate::beneath::{Beneath, Kind, Stamp};
use crate::config::CONFIG_FILE;
use crate::volume::{Bundled, Record};
use famulus_bundle::archive::hex;

/// Why the files of a plugin could not be taken over, or are not what they were.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CarryError {
    #[error("the files that the plugin made could not be carried over")]
    Disk(#[source] io::Error),
    #[error(
        "`{0}` is not what the bundle put there; build the revision again, and see who wrote to it"
    )]
    Changed(String),
}

/// Copies the plugin's own files into a new tree, and says which, as they were.
pub(crate) fn first(
    from: &Beneath,
    old: &Record,
    to: &Beneath,
    bundled: &BTreeMap<String, Bundled>,
) -> Result<BTreeMap<String, Stamp>, CarryError> {
    let mut carried = BTreeMap::new();
    for (path, stamp) in own(from, old).map_err(CarryError::Disk)? {
        if take(from, to, &path, stamp, bundled).map_err(CarryError::Disk)? {
            carried.insert(path, stamp);
        }
    }
    Ok(carried)
}

/// Takes over what changed since. Nobody writes to the old tree any more.
pub(crate) fn rest(
    from: &Beneath,
    old: &Record,
    to: &Beneath,
    new: &Record,
) -> Result<(), CarryError> {
    let now = own(from, old).map_err(CarryError::Disk)?;
    for (path, stamp) in &now {
        if new.carried.get(path) != Some(stamp) {
            take(from, to, path, *stamp, &new.bundled).map_err(CarryError::Disk)?;
        }
    }
    for (path, was) in new.carried.iter().filter(|(path, _)| !now.contains_key(*path)) {
        // The plugin removed it; the copy goes too, unless init made something of it.
        if to.stamp(path).map_err(CarryError::Disk)? == Some(*was) {
            to.remove(path).map_err(CarryError::Disk)?;
        }
    }
    Ok(())
}

/// Everything in a tree that no bundle put there.
pub(crate) fn own(tree: &Beneath, record: &Record) -> io::Result<BTreeMap<String, Stamp>> {
    let mut own = BTreeMap::new();
    tree.walk(&mut |path, stamp| {
        let is_own = matches!(stamp.kind, Kind::File | Kind::Link)
            && path != CONFIG_FILE
            && !record.bundled.contains_key(path);
        if is_own {
            own.insert(path.to_owned(), stamp);
        }
        Ok(())
    })?;
    Ok(own)
}

/// Whether it was taken: not where the new bundle has something at its path, above or beneath it.
fn take(
    from: &Beneath,
    to: &Beneath,
    path: &str,
    stamp: Stamp,
    bundled: &BTreeMap<String, Bundled>,
) -> io::Result<bool> {
    if is_bundled(path, bundled) {
        return Ok(false);
    }
    match to.copy(from, path, stamp) {
        Ok(()) => Ok(true),
        // It ended meanwhile, or init made a folder or a link of what was a file, or the reverse:
        // what init made of it stays.
        Err(error) if is_passed_over(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether a bundle has something at the path, above or beneath it.
pub(crate) fn is_bundled(path: &str, bundled: &BTreeMap<String, Bundled>) -> bool {
    let below = format!("{path}/");
    bundled.contains_key(path)
        || path.match_indices('/').any(|(at, _)| bundled.contains_key(&path[..at]))
        || bundled.range(below.clone()..).next().is_some_and(|(next, _)| next.starts_with(&below))
}

pub(crate) fn is_passed_over(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::DirectoryNotEmpty
            | io::ErrorKind::PermissionDenied
    ) || rustix::io::Errno::from_io_error(error) == Some(rustix::io::Errno::LOOP)
}

/// What stands at the paths of a bundle.
pub(crate) fn fingerprint<'a>(
    tree: &Beneath,
    paths: impl IntoIterator<Item = &'a str>,
) -> io::Result<BTreeMap<String, Bundled>> {
    paths.into_iter().map(|path| Ok((path.to_owned(), look(tree, path)?))).collect()
}

fn look(tree: &Beneath, path: &str) -> io::Result<Bundled> {
    let Some(stamp) = tree.stamp(path)? else { return Ok(Bundled::Gone) };
    match stamp.kind {
        Kind::File => {
            let file = tree.read(path)?;
            let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata()?.permissions());
            Ok(Bundled::File { digits: hex(file)?, executable: mode & 0o111 != 0 })
        }
        Kind::Link => Ok(Bundled::Link { target: tree.target(path)? }),
        Kind::Folder | Kind::Other => Ok(Bundled::Gone),
    }
}

/// Whether the paths of the bundle hold what they held when the build had ended.
pub(crate) fn verify(tree: &Beneath, record: &Record) -> Result<(), CarryError> {
    for (path, expected) in &record.bundled {
        let found = look(tree, path).map_err(CarryError::Disk)?;
        if found != *expected {
            return Err(CarryError::Changed(path.escape_debug().to_string()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }

    struct Bench {
        base: tempfile::TempDir,
        old: Record,
        new: Record,
    }

    impl Bench {
        /// Both bundles have `manifest.json` and `t/run`, the new one `lib/x` and `note` too.
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            for path in ["old/manifest.json", "old/t/run", "new/manifest.json", "new/t/run"] {
                write(base.path(), path, path);
            }
            write(base.path(), "new/lib/x", "new");
            write(base.path(), "new/note", "new");
            let print = |tree: &str, paths: &[&str]| {
                let tree = Beneath::open(&base.path().join(tree)).unwrap();
                Record::of(String::new(), fingerprint(&tree, paths.iter().copied()).unwrap())
            };
            let old = print("old", &["manifest.json", "t/run"]);
            let new = print("new", &["lib/x", "manifest.json", "note", "t/run"]);
            Self { base, old, new }
        }

        fn trees(&self) -> (Beneath, Beneath) {
            let open = |name| Beneath::open(&self.base.path().join(name)).unwrap();
            (open("old"), open("new"))
        }

        fn first(&mut self) {
            let (from, to) = self.trees();
            self.new.carried = first(&from, &self.old, &to, &self.new.bundled).unwrap();
        }

        fn rest(&self) {
            let (from, to) = self.trees();
            rest(&from, &self.old, &to, &self.new).unwrap();
            verify(&to, &self.new).unwrap();
        }

        fn read(&self, path: &str) -> String {
            fs::read_to_string(self.base.path().join(path)).unwrap_or_default()
        }
    }

    #[test]
    fn what_the_plugin_made_comes_along_and_the_bundle_stays() {
        let mut bench = Bench::new();
        let base = bench.base.path().to_owned();
        write(&base, "old/data/kept.db", "1");
        write(&base, "old/t/cache", "c");
        write(&base, "old/config.json", "secret");
        write(&base, "old/lib", "a file where the new bundle has a folder");
        write(&base, "old/note/deep", "a folder where the new bundle has a file");
        write(&base, "old/t/run", "changed by the plugin");
        symlink("/etc/passwd", base.join("old/out")).unwrap();
        bench.first();
        let carried: Vec<&str> = bench.new.carried.keys().map(String::as_str).collect();
        assert_eq!(carried, ["data/kept.db", "out", "t/cache"]);
        assert_eq!(bench.read("new/data/kept.db"), "1");
        assert_eq!(bench.read("new/t/run"), "new/t/run");
        assert_eq!(bench.read("new/note"), "new");
        assert_eq!(fs::read_link(base.join("new/out")).unwrap(), Path::new("/etc/passwd"));
        bench.rest();
    }

    #[test]
    fn what_changed_in_between_comes_too_and_what_init_did_stays() {
        let mut bench = Bench::new();
        let base = bench.base.path().to_owned();
        for name in ["calm", "busy", "dropped", "dropped-and-migrated"] {
            write(&base, &format!("old/{name}"), "one");
        }
        bench.first();
        // Init works on the copies, calls on the originals.
        write(&base, "new/calm", "migrated");
        write(&base, "new/dropped-and-migrated", "migrated");
        write(&base, "old/busy", "two, longer");
        write(&base, "old/fresh", "three");
        fs::remove_file(base.join("old/dropped")).unwrap();
        fs::remove_file(base.join("old/dropped-and-migrated")).unwrap();
        bench.rest();
        assert_eq!(bench.read("new/calm"), "migrated");
        assert_eq!(bench.read("new/busy"), "two, longer");
        assert_eq!(bench.read("new/fresh"), "three");
        assert!(!base.join("new/dropped").exists());
        assert_eq!(bench.read("new/dropped-and-migrated"), "migrated");
    }

    #[test]
    fn a_link_in_the_new_tree_leads_nothing_out() {
        let bench = Bench::new();
        let base = bench.base.path().to_owned();
        fs::create_dir(base.join("outside")).unwrap();
        write(&base, "old/way/file", "x");
        symlink(base.join("outside"), base.join("new/way")).unwrap();
        bench.rest();
        assert!(!base.join("outside/file").exists());
    }

    #[test]
    fn a_bundle_that_was_tampered_with_does_not_serve() {
        let bench = Bench::new();
        let base = bench.base.path().to_owned();
        let (_, to) = bench.trees();
        verify(&to, &bench.new).unwrap();
        write(&base, "new/t/run", "evil");
        assert!(
            matches!(verify(&to, &bench.new), Err(CarryError::Changed(path)) if path == "t/run")
        );
        fs::remove_file(base.join("new/t/run")).unwrap();
        symlink("/bin/sh", base.join("new/t/run")).unwrap();
        assert!(verify(&to, &bench.new).is_err());
    }
}
