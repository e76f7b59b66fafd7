//! What was compiled, in two places at once: a library is linked, since whoever writes it anew
//! makes another file of it, and everything else is copied, since cargo writes into what is there.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// What these end with is replaced as a whole, and large.
const REPLACED: [&str; 3] = ["rlib", "rmeta", "so"];

/// Brings entries of a folder, named relative to it, to the same names in another. Times stay as they are:
/// cargo goes by them.
pub(super) fn bring(from: &Path, what: &[PathBuf], to: &Path) -> Result<()> {
    for name in what {
        let target = to.join(name);
        if let Some(folder) = target.parent() {
            fs::create_dir_all(folder).with_context(|| cannot(folder))?;
        }
        entry(&from.join(name), &target).with_context(|| cannot(&target))?;
    }
    Ok(())
}

fn cannot(path: &Path) -> String {
    format!("cannot make {}", path.display())
}

fn entry(from: &Path, to: &Path) -> io::Result<()> {
    let metadata = from.symlink_metadata()?;
    if metadata.is_dir() {
        fs::create_dir_all(to)?;
        for inner in fs::read_dir(from)? {
            let inner = inner?;
            entry(&inner.path(), &to.join(inner.file_name()))?;
        }
        return Ok(());
    }
    if metadata.is_symlink() {
        return symlink(fs::read_link(from)?, to);
    }
    // On another disk there are no links.
    if is_replaced(from) && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    File::open(to)?.set_modified(metadata.modified()?)
}

fn is_replaced(file: &Path) -> bool {
    let ending = file.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| REPLACED.contains(&ending))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn what_is_written_into_is_copied_and_the_rest_linked_and_times_stay() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
        for name in ["deps/liba-1.rlib", "deps/a-1.d", "build/a-1/out/text", "other/b"] {
            let path = from.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, name).unwrap();
            File::open(&path).unwrap().set_modified(time).unwrap();
        }
        symlink("text", from.join("build/a-1/out/link")).unwrap();
        bring(&from, &["deps".into(), "build/a-1".into()], &to).unwrap();
        let inode = |path: PathBuf| fs::metadata(path).unwrap().ino();
        for (name, is_linked) in
            [("deps/liba-1.rlib", true), ("deps/a-1.d", false), ("build/a-1/out/text", false)]
        {
            assert_eq!(fs::read_to_string(to.join(name)).unwrap(), name);
            assert_eq!(to.join(name).metadata().unwrap().modified().unwrap(), time, "{name}");
            assert_eq!(inode(from.join(name)) == inode(to.join(name)), is_linked, "{name}");
        }
        assert_eq!(fs::read_link(to.join("build/a-1/out/link")).unwrap(), Path::new("text"));
        assert!(!to.join("other").exists());
    }
}
