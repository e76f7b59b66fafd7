//! The folder that a run has to itself: made empty, filled with its files, and removed.
//!
//! All work on files goes through the folder's own descriptor and follows no link, so that what a
//! tool left behind, or what its path became meanwhile, leads nowhere else.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, openat};

/// A scratch folder. It is removed when this is dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    folder: OwnedFd,
}

impl Scratch {
    /// Makes it anew: what stood at the path is removed.
    pub fn make(path: PathBuf) -> io::Result<Self> {
        remove(&path)?;
        DirBuilder::new().mode(0o700).create(&path)?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = openat(CWD, &path, flags, Mode::empty())?;
        Ok(Self { path, folder })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn folder(&self) -> &OwnedFd {
        &self.folder
    }

    /// Makes a new file in it, whose name was checked.
    pub fn create(&self, name: &str) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)?.into())
    }

    /// Makes a new file with these bytes, for tests.
    #[cfg(test)]
    pub fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(&mut self.create(name)?, bytes)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(%error, path = %self.path.display(), "a scratch folder could not be removed");
        }
    }
}

/// Removes whatever stands at the path, also a link and folders that nobody may enter.
pub fn remove(path: &Path) -> io::Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => return fs::remove_file(path),
        Ok(_) => fs::remove_dir_all(path),
        Err(error) => Err(error),
    };
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            unlock(path)?;
            fs::remove_dir_all(path)
        }
        done => done,
    }
}

/// Opens every folder to its owner. No process is left that could put a link in the way.
fn unlock(folder: &Path) -> io::Result<()> {
    fs::set_permissions(folder, Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            unlock(&entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn what_was_there_is_gone_and_links_are_not_followed() {
        let base = tempfile::tempdir().unwrap();
        let outside = base.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "k").unwrap();
        let path = base.path().join("plugin");
        symlink(&outside, &path).unwrap();
        let scratch = Scratch::make(path.clone()).unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_dir());
        assert!(outside.join("kept").exists());

        symlink(outside.join("kept"), path.join("link")).unwrap();
        assert!(scratch.write("link", b"changed").is_err());
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "k");

        fs::create_dir_all(path.join("locked/inside")).unwrap();
        fs::set_permissions(path.join("locked"), Permissions::from_mode(0o000)).unwrap();
        scratch.write("file", b"1").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }
}
