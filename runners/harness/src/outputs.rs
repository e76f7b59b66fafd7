//! Files that a run left: regular ones at the top of its folder, taken without following anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use famulus_protocol::{FILES, FILES_BYTES, OutputFile};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat, fstat, openat};

use crate::file_name::is_safe;
use crate::scratch::Scratch;

/// What the files of one call have come to.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputTotals {
    files: u32,
    bytes: u64,
}

/// Who a file was before the tool ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStamp {
    name: String,
    inode: u64,
    bytes: i64,
    changed: (i64, i64),
}

/// The files of one run, and what was left out.
#[derive(Debug, Default)]
pub struct Outputs {
    pub files: Vec<OutputFile>,
    pub notes: Vec<String>,
}

/// Remembers a file that was put there for the tool.
pub fn before(name: &str, file: &File) -> io::Result<FileStamp> {
    Ok(of(name, &fstat(file)?))
}

/// Copies the files of the folder to `to`, by their index. Files that were there before and are as
/// they were are none of the tool's. When all of them are more than 25 MiB with those of earlier
/// runs, none is taken, and a note says so.
pub fn gather(
    scratch: &Scratch,
    before: &[FileStamp],
    to: &Path,
    totals: &mut OutputTotals,
) -> io::Result<Outputs> {
    let mut gathered = Outputs::default();
    let mut found = Vec::new();
    let mut left_out = LeftOut::default();
    for entry in Dir::read_from(scratch.folder())? {
        let entry = entry?;
        let Ok(name) = entry.file_name().to_str() else {
            left_out.names += 1;
            continue;
        };
        if [".", ".."].contains(&name) {
            continue;
        }
        // A pipe or a device is not waited for.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(scratch.folder(), name, flags, Mode::empty()) else {
            left_out.others += 1;
            continue;
        };
        let stat = fstat(&file)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if kind == FileType::Directory {
            continue;
        }
        // A second name may be that of a file elsewhere.
        if kind != FileType::RegularFile || stat.st_nlink != 1 {
            left_out.others += 1;
        } else if !is_safe(name) {
            left_out.names += 1;
        } else if !before.contains(&of(name, &stat)) {
            found.push((name.to_owned(), File::from(file), stat.st_size.max(0) as u64));
        }
    }
    left_out.note(&mut gathered.notes);
    found.sort_by(|a, b| a.0.cmp(&b.0));

    let bytes: u64 = found.iter().map(|(_, _, bytes)| bytes).sum();
    let files = found.len() as u32;
    if totals.bytes + bytes > FILES_BYTES || totals.files + files > FILES {
        gathered.notes.push(format!(
            "the tool left {files} files of {bytes} bytes, and none was taken: a call may leave \
             {FILES} files of {FILES_BYTES} bytes in all"
        ));
        return Ok(gathered);
    }
    for (name, file, bytes) in found {
        let index = totals.files;
        copy(file, bytes, &to.join(index.to_string()))?;
        totals.files += 1;
        totals.bytes += bytes;
        gathered.files.push(OutputFile { index, name, bytes });
    }
    Ok(gathered)
}

fn of(name: &str, stat: &Stat) -> FileStamp {
    FileStamp {
        name: name.to_owned(),
        inode: stat.st_ino,
        bytes: stat.st_size,
        changed: (stat.st_mtime, i64::try_from(stat.st_mtime_nsec).unwrap_or_default()),
    }
}

fn copy(from: File, bytes: u64, to: &Path) -> io::Result<()> {
    let mut to = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(to)?;
    io::copy(&mut from.take(bytes), &mut to)?;
    Ok(())
}

#[derive(Debug, Default)]
struct LeftOut {
    names: u32,
    others: u32,
}

impl LeftOut {
    fn note(&self, notes: &mut Vec<String>) {
        if self.names > 0 {
            notes.push(format!(
                "{} files were left out: their names hold what a file name may not",
                self.names
            ));
        }
        if self.others > 0 {
            notes.push(format!(
                "{} files were left out: links, and what is no regular file, are not taken",
                self.others
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Bench {
        base: tempfile::TempDir,
        scratch: Scratch,
    }

    impl Bench {
        fn new() -> Self {
            let base = tempfile::tempdir().unwrap();
            fs::create_dir(base.path().join("to")).unwrap();
            let scratch = Scratch::make(base.path().join("scratch")).unwrap();
            Self { base, scratch }
        }

        fn path(&self, name: &str) -> std::path::PathBuf {
            self.scratch.path().join(name)
        }

        fn gather(&self, before: &[FileStamp], totals: &mut OutputTotals) -> Outputs {
            gather(&self.scratch, before, &self.base.path().join("to"), totals).unwrap()
        }
    }

    #[test]
    fn regular_files_are_taken_and_nothing_else() {
        let bench = Bench::new();
        fs::write(bench.base.path().join("secret"), "secret").unwrap();
        fs::write(bench.path("b.txt"), "bb").unwrap();
        fs::write(bench.path("a.txt"), "a").unwrap();
        symlink("../secret", bench.path("link")).unwrap();
        fs::hard_link(bench.base.path().join("secret"), bench.path("hard")).unwrap();
        fs::create_dir(bench.path("folder")).unwrap();
        fs::write(bench.path("folder/inside"), "x").unwrap();
        fs::write(bench.path("new\nline"), "x").unwrap();
        let gathered = bench.gather(&[], &mut OutputTotals::default());
        let names: Vec<&str> = gathered.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["a.txt", "b.txt"]);
        assert_eq!(gathered.notes.len(), 2, "{:?}", gathered.notes);
        assert_eq!(fs::read_to_string(bench.base.path().join("to/1")).unwrap(), "bb");
    }

    #[test]
    fn what_was_given_is_returned_only_when_it_was_changed() {
        let bench = Bench::new();
        let given = |name: &str| {
            bench.scratch.write(name, b"given").unwrap();
            before(name, &File::open(bench.path(name)).unwrap()).unwrap()
        };
        let given = [given("left"), given("changed")];
        fs::write(bench.path("changed"), "changed").unwrap();
        let gathered = bench.gather(&given, &mut OutputTotals::default());
        let names: Vec<&str> = gathered.files.iter().map(|file| file.name.as_str()).collect();
        assert_eq!(names, ["changed"]);
    }

    #[test]
    fn too_much_is_left_and_said() {
        let bench = Bench::new();
        File::create(bench.path("large")).unwrap().set_len(FILES_BYTES + 1).unwrap();
        fs::write(bench.path("small"), "s").unwrap();
        let mut totals = OutputTotals::default();
        let gathered = bench.gather(&[], &mut totals);
        assert!(gathered.files.is_empty());
        assert!(gathered.notes[0].contains("none was taken"), "{:?}", gathered.notes);
        fs::remove_file(bench.path("large")).unwrap();
        assert_eq!(bench.gather(&[], &mut totals).files.len(), 1);
        assert_eq!(bench.gather(&[], &mut totals).files[0].index, 1, "indexes go on over the runs");
    }
}
