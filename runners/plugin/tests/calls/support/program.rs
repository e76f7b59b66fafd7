//! Programs that tests write, copy and start.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;

use super::Bench;

/// Held while a program is written and while one is started: what is forked meanwhile would keep the
/// file open for writing, and nobody could run it.
static PROGRAMS: Mutex<()> = Mutex::new(());

/// Writes a script that anybody may run, into a folder that is there.
pub(super) fn write(path: &Path, script: &str) {
    let _alone = PROGRAMS.lock();
    fs::write(path, script).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(super) fn start(command: &mut Command) -> Child {
    let _alone = PROGRAMS.lock();
    command.spawn().unwrap()
}

/// A copy of the program where any user finds it.
pub(crate) fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let built = PathBuf::from(env!("CARGO_BIN_EXE_famulus-runner"));
        if !Bench::has_own_user() {
            return built;
        }
        // One for each build, so that no test run leaves a copy of its own behind. Those of the last
        // hour may be another tree's, under test now.
        let length = fs::metadata(&built).unwrap().len();
        let modified = fs::metadata(&built).unwrap().modified().unwrap();
        let age = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let folder = std::env::temp_dir().join("famulus-runner-under-test");
        fs::create_dir_all(&folder).unwrap();
        let copy = folder.join(format!("{length}-{age}"));
        if !copy.exists() {
            for entry in fs::read_dir(&folder).unwrap() {
                let path = entry.unwrap().path();
                let made = fs::metadata(&path).and_then(|metadata| metadata.modified());
                let age = made.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
                if age > Duration::from_hours(1) {
                    let _used = fs::remove_file(path);
                }
            }
            let beside = folder.join(format!("{}.new", std::process::id()));
            fs::copy(&built, &beside).unwrap();
            fs::rename(beside, &copy).unwrap();
        }
        copy
    })
}

pub(crate) fn give(path: &Path, user: u32) {
    chown(path, Some(user), Some(user)).unwrap();
    if path.symlink_metadata().unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            let entry = entry.unwrap();
            if !entry.file_type().unwrap().is_symlink() {
                give(&entry.path(), user);
            }
        }
    }
}
