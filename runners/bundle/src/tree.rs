//! The plugin's tree: reading from a folder that untrusted code may write.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::OFlags;

/// The longest manifest.
const MANIFEST_BYTES: u64 = 256 * 1024;

/// A tree as it was when a call came: the link to the active one is followed once.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { root: path.canonicalize()? })
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Reads a small file of the tree.
    pub fn read(&self, relative: &str) -> io::Result<String> {
        let path = self.inside(relative)?;
        // A pipe in its place is not waited for.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let file = OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut text = String::new();
        if file.take(MANIFEST_BYTES + 1).read_to_string(&mut text)? as u64 > MANIFEST_BYTES {
            return Err(io::Error::other(format!("it has more than {MANIFEST_BYTES} bytes")));
        }
        Ok(text)
    }

    /// The path of something in the tree, links followed as long as they stay in it.
    pub fn inside(&self, relative: &str) -> io::Result<PathBuf> {
        let path = self.root.join(relative).canonicalize()?;
        if path.starts_with(&self.root) {
            return Ok(path);
        }
        Err(io::Error::other("it leads out of the plugin's folder"))
    }

    /// Names of the folders that have a manifest, in order.
    pub fn tools(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.root)? {
            let Ok(name) = entry?.file_name().into_string() else { continue };
            if self.root.join(&name).join("manifest.json").is_file() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }
}

/// Whether it names something in a folder without leading out of it.
pub(crate) fn is_relative(path: &str) -> bool {
    let mut parts = Path::new(path).components().peekable();
    parts.peek().is_some() && parts.all(|part| matches!(part, Component::Normal(_)))
}

/// What is wrong with a file that is to be executed, and what to do.
pub fn executable(path: &Path) -> Result<(), String> {
    let metadata = fs::metadata(path).map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if metadata.permissions().mode() & 0o111 == 0 {
        return Err("it is not executable; run `chmod +x` on it".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn nothing_outside_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("plugin");
        fs::create_dir_all(root.join("tool")).unwrap();
        fs::write(folder.path().join("secret"), "s").unwrap();
        fs::write(root.join("tool/manifest.json"), "{}").unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("tool/manifest.json", root.join("in")).unwrap();
        let tree = Tree::open(&root).unwrap();
        assert_eq!(tree.read("tool/manifest.json").unwrap(), "{}");
        assert_eq!(tree.read("in").unwrap(), "{}");
        assert!(tree.read("out").is_err());
        assert!(tree.read("../secret").is_err());
        assert!(tree.read("tool").is_err());
        assert_eq!(tree.tools().unwrap(), ["tool"]);
    }

    #[test]
    fn a_relative_path_stays_inside() {
        for (path, inside) in
            [("run.py", true), ("bin/run", true), ("../run", false), ("/run", false), ("", false)]
        {
            assert_eq!(is_relative(path), inside, "{path}");
        }
    }
}
