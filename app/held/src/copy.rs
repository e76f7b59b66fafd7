//! A folder as a tar, and back: regular files and the folders that they are in.

use std::{
    fs::{self, File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Component, Path, PathBuf},
    time::UNIX_EPOCH,
};
use tar::{Archive, Builder, EntryType, Header};

/// Writes what is there; what is no file stays behind.
pub(crate) fn give(folder: &Path, to: impl Write) -> io::Result<()> {
    let mut tar = Builder::new(to);
    if folder.exists() {
        add(&mut tar, folder, Path::new(""))?;
    }
    tar.finish()
}

fn add(tar: &mut Builder<impl Write>, folder: &Path, below: &Path) -> io::Result<()> {
    let entries = fs::read_dir(folder.join(below))?;
    let mut names = entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>()?;
    names.sort();
    for name in names {
        let below = below.join(name);
        let path = folder.join(&below);
        let known = fs::symlink_metadata(&path)?;
        if known.is_dir() {
            add(tar, folder, &below)?;
        } else if known.is_file() {
            // A tar counts from 1970; what is older is as old as that.
            let changed = known.modified()?.duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
            let mut header = Header::new_gnu();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(known.permissions().mode() & 0o777);
            header.set_mtime(changed);
            header.set_size(known.len());
            tar.append_data(&mut header, &below, File::open(&path)?.take(known.len()))?;
        }
    }
    Ok(())
}

/// Whether somebody is there: each account has a folder.
pub(crate) fn has_account(folder: &Path) -> io::Result<bool> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(error),
    };
    for entry in entries {
        if entry?.file_type()?.is_dir() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts a folder in the place of one that has no account. Until all of it is there nothing has changed.
pub(crate) fn take(from: impl Read, folder: &Path, once: &[u8]) -> io::Result<()> {
    let (new, old) = (folder.with_extension("restoring"), folder.with_extension("before"));
    for left in [&new, &old] {
        if left.exists() {
            fs::remove_dir_all(left)?;
        }
    }
    fs::create_dir_all(&new)?;
    if let Err(error) = unpack(from, &new) {
        fs::remove_dir_all(&new)?;
        return Err(error);
    }
    let mut note = File::create(taken(folder))?;
    note.write_all(once)?;
    note.sync_all()?;
    if folder.exists() {
        fs::rename(folder, &old)?;
    }
    fs::rename(&new, folder)?;
    if let Some(parent) = folder.parent() {
        File::open(parent)?.sync_all()?;
    }
    if old.exists() {
        fs::remove_dir_all(&old)?;
    }
    Ok(())
}

/// Whether what is there was taken under this name.
pub(crate) fn is_taken(folder: &Path, once: &[u8]) -> io::Result<bool> {
    match fs::read(taken(folder)) {
        Ok(noted) => Ok(!noted.is_empty() && noted == once),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where it stands under which name a folder was taken.
fn taken(folder: &Path) -> PathBuf {
    folder.with_extension("restored")
}

fn unpack(from: impl Read, into: &Path) -> io::Result<()> {
    let strange = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let unread = |error: io::Error| io::Error::new(io::ErrorKind::InvalidData, error);
    let mut tar = Archive::new(from);
    for entry in tar.entries().map_err(unread)? {
        let mut entry = entry.map_err(unread)?;
        let below = entry.path().map_err(unread)?.into_owned();
        let is_plain = below.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_plain || below.as_os_str().is_empty() {
            return Err(strange("it names a file outside of its folder"));
        }
        if entry.header().entry_type() != EntryType::Regular {
            return Err(strange("it holds what is no file"));
        }
        let path = into.join(&below);
        let parent = path.parent().unwrap_or(into);
        fs::create_dir_all(parent)?;
        let mode = entry.header().mode().map_err(unread)? & 0o777;
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        let (size, copied) = (entry.size(), io::copy(&mut entry, &mut file)?);
        if copied != size {
            return Err(strange("a file in it is cut off"));
        }
        file.set_permissions(Permissions::from_mode(mode | 0o600))?;
        file.sync_all()?;
        File::open(parent)?.sync_all()?;
    }
    Ok(())
}
