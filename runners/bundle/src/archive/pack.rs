//! Files become a bundle.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use famulus_protocol::revision::{BUNDLE_BYTES, BUNDLE_FILES};
use sha2::{Digest, Sha256};
use tar::{Builder, EntryType, Header};

use super::{ArchiveError, Names, link_stays};

/// Writes the bundle of a folder, and gives its digest. Folders without files are not in it, and
/// neither is what belongs to git.
pub fn pack(folder: &Path, to: &Path) -> Result<String, ArchiveError> {
    let mut paths = Vec::new();
    walk(folder, "", &mut paths)?;
    paths.sort();
    let file = File::create(to).map_err(ArchiveError::disk(to))?;
    let mut builder = Builder::new(Counting { file, hasher: Sha256::new(), bytes: 0 });
    let mut names = Names::default();
    for path in &paths {
        names.take(path)?;
        append(&mut builder, folder, path)?;
        if builder.get_ref().bytes > BUNDLE_BYTES {
            return Err(ArchiveError::Bytes);
        }
    }
    let mut counting = builder.into_inner().map_err(ArchiveError::disk(to))?;
    counting.file.flush().map_err(ArchiveError::disk(to))?;
    if counting.bytes > BUNDLE_BYTES {
        return Err(ArchiveError::Bytes);
    }
    Ok(format!("sha256:{}", hex::encode(counting.hasher.finalize())))
}

fn walk(folder: &Path, below: &str, paths: &mut Vec<String>) -> Result<(), ArchiveError> {
    for entry in fs::read_dir(folder.join(below)).map_err(ArchiveError::disk(folder))? {
        let entry = entry.map_err(ArchiveError::disk(folder))?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else {
            let path = name.to_string_lossy().into_owned();
            return Err(ArchiveError::Path { path, what: "is no text; rename it" });
        };
        if name.eq_ignore_ascii_case(".git") {
            continue;
        }
        let path = if below.is_empty() { name.to_owned() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(ArchiveError::disk(folder))?;
        if kind.is_dir() {
            walk(folder, &path, paths)?;
        } else {
            paths.push(path);
        }
        if paths.len() > BUNDLE_FILES {
            return Err(ArchiveError::Files);
        }
    }
    Ok(())
}

fn append(builder: &mut Builder<Counting>, folder: &Path, path: &str) -> Result<(), ArchiveError> {
    let place = folder.join(path);
    let disk = |source| ArchiveError::Disk { path: path.to_owned(), source };
    let metadata = fs::symlink_metadata(&place).map_err(disk)?;
    let mut header = Header::new_gnu();
    header.set_mtime(0);
    header.set_uid(0);
    header.set_gid(0);
    if metadata.is_symlink() {
        let target = fs::read_link(&place).map_err(disk)?;
        let target = target.to_string_lossy();
        if !link_stays(path, &target) {
            let (path, target) = (path.to_owned(), target.escape_debug().to_string());
            return Err(ArchiveError::Link { path, target });
        }
        header.set_entry_type(EntryType::Symlink);
        header.set_mode(0o777);
        header.set_size(0);
        return builder.append_link(&mut header, path, &*target).map_err(disk);
    }
    if !metadata.is_file() {
        return Err(ArchiveError::Kind { path: path.to_owned() });
    }
    if metadata.len() > BUNDLE_BYTES {
        return Err(ArchiveError::Bytes);
    }
    header.set_entry_type(EntryType::Regular);
    header.set_mode(if metadata.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 });
    header.set_size(metadata.len());
    let content = File::open(&place).map_err(disk)?;
    builder.append_data(&mut header, path, content).map_err(disk)
}

/// Writes on, counts, and remembers the digest.
struct Counting {
    file: File,
    hasher: Sha256,
    bytes: u64,
}

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::symlink;

    use super::super::{digest, unpack};
    use super::*;

    fn write(path: &Path, text: &str, mode: u32) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn the_same_files_give_the_same_bundle_and_come_back() {
        let base = tempfile::tempdir().unwrap();
        let long = format!("{}/{}.txt", "folder".repeat(20), "name".repeat(30));
        let make = |name: &str, modes: [u32; 2]| {
            let folder = base.path().join(name);
            write(&folder.join("b/run"), "#!/bin/sh\n", modes[0]);
            write(&folder.join("a"), "text", modes[1]);
            write(&folder.join(&long), "long", 0o600);
            write(&folder.join(".git/config"), "[core]", 0o644);
            fs::create_dir_all(folder.join("empty")).unwrap();
            symlink("../a", folder.join("b/link")).unwrap();
            let bundle = base.path().join(format!("{name}.tar"));
            (pack(&folder, &bundle).unwrap(), bundle)
        };
        let (one, bundle) = make("one", [0o700, 0o666]);
        let (two, _) = make("two", [0o755, 0o640]);
        assert_eq!(one, two);
        assert_eq!(digest(&bundle).unwrap(), one);
        let (other, _) = make("three", [0o644, 0o666]);
        assert_ne!(one, other, "whether a file is executable counts");

        let back = base.path().join("back");
        fs::create_dir(&back).unwrap();
        let mut names = unpack(&bundle, &back).unwrap();
        names.sort();
        assert_eq!(names, ["a", "b/link", "b/run", &long]);
        assert_eq!(fs::read_to_string(back.join(&long)).unwrap(), "long");
        assert_eq!(fs::read_to_string(back.join("b/link")).unwrap(), "text");
        let mode = |name| fs::metadata(back.join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("b/run"), mode("a")), (0o755, 0o644));
    }

    #[test]
    fn what_leads_out_or_is_no_file_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let check = |name: &str, make: &dyn Fn(&Path), expected: &str| {
            let folder = base.path().join(name);
            fs::create_dir(&folder).unwrap();
            make(&folder);
            let error = pack(&folder, &base.path().join("out.tar")).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        };
        check("link", &|at| symlink("/etc/passwd", at.join("x")).unwrap(), "leaves the plugin");
        check("up", &|at| symlink("../x", at.join("x")).unwrap(), "leaves the plugin");
        let pipe = |at: &Path| {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                at.join("p"),
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::RUSR,
                0,
            )
            .unwrap();
        };
        check("pipe", &pipe, "neither a file nor a link");
        check("name", &|at| fs::write(at.join("a\nb"), "").unwrap(), "control characters");
        let large = |at: &Path| {
            File::create(at.join("large")).unwrap().set_len(BUNDLE_BYTES + 1).unwrap();
        };
        check("large", &large, "more than 64 MiB");
        let many = |at: &Path| {
            for number in 0..=BUNDLE_FILES {
                File::create(at.join(number.to_string())).unwrap();
            }
        };
        check("many", &many, "more than 10000 files");
    }
}
