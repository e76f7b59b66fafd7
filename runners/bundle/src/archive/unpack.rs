//! A bundle becomes files, in a folder that is empty.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

use famulus_protocol::revision::{BUNDLE_BYTES, BUNDLE_FILES};
use tar::{Archive, Entry};

use super::{ArchiveError, Names, link_stays};

/// Writes what the bundle holds, and gives the paths. Links are made when all files are there, so
/// that no file is written through one.
pub fn unpack(bundle: &Path, into: &Path) -> Result<Vec<String>, ArchiveError> {
    let disk = || ArchiveError::disk(bundle);
    let file = File::open(bundle).map_err(disk())?;
    if file.metadata().map_err(disk())?.len() > BUNDLE_BYTES {
        return Err(ArchiveError::Bytes);
    }
    let mut archive = Archive::new(file.take(BUNDLE_BYTES));
    let mut names = Names::default();
    let (mut paths, mut links, mut bytes) = (Vec::new(), Vec::new(), 0);
    for entry in archive.entries().map_err(disk())? {
        let mut entry = entry.map_err(disk())?;
        let path = text(&entry.path_bytes())?;
        names.take(&path)?;
        bytes += entry.size();
        if bytes > BUNDLE_BYTES {
            return Err(ArchiveError::Bytes);
        }
        let kind = entry.header().entry_type();
        if kind.is_file() {
            write(&mut entry, into, &path)?;
        } else if kind.is_symlink() {
            let target = text(&entry.link_name_bytes().unwrap_or_default())?;
            if !link_stays(&path, &target) {
                let target = target.escape_debug().to_string();
                return Err(ArchiveError::Link { path, target });
            }
            links.push((path.clone(), target));
        } else {
            // Hard links, devices, folders, sparse files: a bundle has none.
            return Err(ArchiveError::Kind { path });
        }
        paths.push(path);
        if paths.len() > BUNDLE_FILES {
            return Err(ArchiveError::Files);
        }
    }
    for (path, target) in links {
        let place = into.join(&path);
        folders(into, &path)?;
        symlink(target, &place).map_err(ArchiveError::disk(&place))?;
    }
    Ok(paths)
}

fn text(bytes: &[u8]) -> Result<String, ArchiveError> {
    String::from_utf8(bytes.to_vec()).map_err(|error| {
        let path = String::from_utf8_lossy(error.as_bytes()).escape_debug().to_string();
        ArchiveError::Path { path, what: "is no text; rename it" }
    })
}

fn write(entry: &mut Entry<'_, impl Read>, into: &Path, path: &str) -> Result<(), ArchiveError> {
    folders(into, path)?;
    let place = into.join(path);
    let mode = if entry.header().mode().unwrap_or(0) & 0o111 == 0 { 0o644 } else { 0o755 };
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&place)?;
        let copied = io::copy(&mut *entry, &mut file)?;
        if copied != entry.size() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // The mask of the process does not count.
        fs::set_permissions(&place, Permissions::from_mode(mode))
    })();
    written.map_err(ArchiveError::disk(&place))
}

fn folders(into: &Path, path: &str) -> Result<(), ArchiveError> {
    let Some((folder, _)) = path.rsplit_once('/') else { return Ok(()) };
    let folder = into.join(folder);
    let made = DirBuilder::new().recursive(true).mode(0o755).create(&folder);
    made.map_err(ArchiveError::disk(&folder))
}

#[cfg(test)]
mod tests {
    use tar::{Builder, EntryType, Header};

    use super::*;

    /// A bundle that somebody else wrote.
    fn forged(at: &Path, entries: &[(&str, EntryType, &str)]) {
        let mut builder = Builder::new(File::create(at).unwrap());
        for (path, kind, content) in entries {
            let mut header = Header::new_gnu();
            header.set_entry_type(*kind);
            header.set_mode(0o4777);
            let name = &mut header.as_gnu_mut().unwrap().name;
            name[..path.len()].copy_from_slice(path.as_bytes());
            let linked = !matches!(kind, EntryType::Regular | EntryType::GNUSparse);
            if linked {
                header.as_gnu_mut().unwrap().linkname[..content.len()]
                    .copy_from_slice(content.as_bytes());
            }
            let data = if linked { "" } else { content };
            header.set_size(data.len() as u64);
            header.set_cksum();
            builder.append(&header, data.as_bytes()).unwrap();
        }
        builder.finish().unwrap();
    }

    #[test]
    fn a_forged_bundle_writes_nothing_outside() {
        let base = tempfile::tempdir().unwrap();
        let bundle = base.path().join("bundle.tar");
        fs::write(base.path().join("outside"), "kept").unwrap();
        let mut number = 0;
        let mut check = |entries: &[(&str, EntryType, &str)], expected: &str| {
            number += 1;
            let into = base.path().join(number.to_string());
            fs::create_dir(&into).unwrap();
            forged(&bundle, entries);
            let said = unpack(&bundle, &into).map_err(|error| error.to_string()).unwrap_err();
            assert!(said.contains(expected), "{entries:?}: {said}");
            assert_eq!(fs::read_to_string(base.path().join("outside")).unwrap(), "kept");
        };
        use EntryType as Is;
        check(&[("../outside", Is::Regular, "x")], "`..`");
        check(&[("a/../../outside", Is::Regular, "x")], "`..`");
        check(&[("/tmp/famulus-outside", Is::Regular, "x")], "absolute");
        check(&[("a", Is::Symlink, "/etc")], "leaves the plugin");
        check(&[("a", Is::Symlink, "../outside")], "leaves the plugin");
        check(&[("a", Is::Symlink, "b"), ("a", Is::Regular, "x")], "twice");
        check(&[("a", Is::Symlink, "b"), ("a/x", Is::Regular, "x")], "beneath a file");
        check(&[("a", Is::Link, "../outside")], "neither a file nor a link");
        check(&[("a", Is::Char, "")], "neither a file nor a link");
        check(&[("a", Is::Block, "")], "neither a file nor a link");
        check(&[("a", Is::Fifo, "")], "neither a file nor a link");
        check(&[("a", Is::Directory, "")], "neither a file nor a link");
        check(&[(".git/hooks/post-checkout", Is::Regular, "x")], "belongs to git");
        assert!(!Path::new("/tmp/famulus-outside").exists());
    }

    #[test]
    fn bits_that_give_privileges_are_dropped() {
        let base = tempfile::tempdir().unwrap();
        let bundle = base.path().join("bundle.tar");
        forged(&bundle, &[("run", EntryType::Regular, "#!/bin/sh\n")]);
        let into = base.path().join("into");
        fs::create_dir(&into).unwrap();
        unpack(&bundle, &into).unwrap();
        let mode = fs::metadata(into.join("run")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
    }

    #[test]
    fn a_bundle_that_claims_more_than_it_has_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let bundle = base.path().join("bundle.tar");
        let claim = |size: u64| {
            let mut header = Header::new_gnu();
            header.set_path("a").unwrap();
            header.set_entry_type(EntryType::Regular);
            header.set_mode(0o644);
            header.set_size(size);
            header.set_cksum();
            fs::write(&bundle, header.as_bytes()).unwrap();
        };
        let into = base.path().join("into");
        fs::create_dir(&into).unwrap();
        claim(u64::MAX / 4);
        assert!(matches!(unpack(&bundle, &into).unwrap_err(), ArchiveError::Bytes));
        claim(1000);
        assert!(unpack(&bundle, &into).is_err());
        // A bundle that is larger than any may be is not read at all.
        File::create(&bundle).unwrap().set_len(BUNDLE_BYTES + 1).unwrap();
        assert!(matches!(unpack(&bundle, &into).unwrap_err(), ArchiveError::Bytes));
    }
}
