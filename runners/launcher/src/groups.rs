//! The control groups of a sandbox: made before its first process, entered by that before it does anything else,
//! and removed behind its last.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use famulus_protocol::launch::{ControlGroup, LaunchLimits};
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, open, unlinkat};
use rustix::io::Errno;

use crate::error::LaunchError;

/// The file that takes a process into a group, and what names the process that writes.
const PROCESSES: &str = "cgroup.procs";
const MYSELF: &str = "0";

/// How long the kernel may take to find a group empty, once its last process has ended.
const EMPTY: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// Groups that were made. They are removed when this is dropped.
pub(crate) struct Groups {
    made: Vec<Made>,
}

/// A group by the folder above it, held open: once the sandbox has its root, paths of the machine lead nowhere.
struct Made {
    above: OwnedFd,
    name: OsString,
    path: PathBuf,
}

impl Groups {
    /// Makes them with their limits.
    pub(crate) fn make(limits: &LaunchLimits) -> Result<Self, LaunchError> {
        let mut groups = Self { made: Vec::new() };
        for group in &limits.groups {
            let failed = |source| LaunchError::Group { path: group.folder.clone(), source };
            groups.made.push(Made::make(&group.folder).map_err(failed)?);
            limit(group)?;
        }
        Ok(groups)
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for made in &self.made {
            if let Err(error) = made.remove() {
                // Who started this removes at its next start what is left; nobody hears a launcher that is alone.
                let path = made.path.display();
                let _alone = writeln!(
                    io::stderr(),
                    "famulus-runner: the control group {path} cannot be removed: {error}"
                );
            }
        }
    }
}

impl Made {
    fn make(folder: &Path) -> io::Result<Self> {
        let (Some(above), Some(name)) = (folder.parent(), folder.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let above = open(above, flags, Mode::empty())?;
        let made = Self { above, name: name.to_owned(), path: folder.to_owned() };
        match made.create() {
            // One of the same name is what a launcher left that was killed.
            Err(Errno::EXIST) => {
                made.remove()?;
                made.create()?;
            }
            created => created?,
        }
        Ok(made)
    }

    fn create(&self) -> Result<(), Errno> {
        mkdirat(&self.above, &self.name, Mode::from_raw_mode(0o755))
    }

    fn remove(&self) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            match unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR) {
                Err(Errno::NOENT) => return Ok(()),
                Err(Errno::BUSY) if begun.elapsed() < EMPTY => thread::sleep(LOOK_AGAIN),
                removed => return Ok(removed?),
            }
        }
    }
}

fn limit(group: &ControlGroup) -> Result<(), LaunchError> {
    for one in &group.limits {
        let path = group.folder.join(&one.file);
        if one.is_optional && !path.exists() {
            continue;
        }
        fs::write(&path, &one.value).map_err(|source| LaunchError::Group { path, source })?;
    }
    Ok(())
}

/// Takes this process, which has one thread, into the groups. Whatever it starts is there, too.
pub(crate) fn enter(limits: &LaunchLimits) -> Result<(), LaunchError> {
    for group in &limits.groups {
        let path = group.folder.join(PROCESSES);
        fs::write(&path, MYSELF).map_err(|source| LaunchError::Group { path, source })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use famulus_protocol::launch::GroupLimit;

    use super::*;

    fn limits(folder: &Path, limits: &[(&str, &str, bool)]) -> LaunchLimits {
        let limits = limits.iter().map(|(file, value, is_optional)| GroupLimit {
            file: (*file).to_owned(),
            value: (*value).to_owned(),
            is_optional: *is_optional,
        });
        let groups = vec![ControlGroup { folder: folder.join("own"), limits: limits.collect() }];
        LaunchLimits { groups, files: Vec::new() }
    }

    #[test]
    fn a_group_is_made_with_its_limits_and_left_out_is_what_the_kernel_does_not_know() {
        let above = tempfile::tempdir().unwrap();
        let limits = limits(above.path(), &[("pids.max", "7", false), ("swap.max", "0", true)]);
        let groups = Groups::make(&limits).unwrap();
        let own = above.path().join("own");
        assert_eq!(fs::read_to_string(own.join("pids.max")).unwrap(), "7");
        assert!(!own.join("swap.max").exists());
        enter(&limits).unwrap();
        assert_eq!(fs::read_to_string(own.join(PROCESSES)).unwrap(), MYSELF);
        // A kernel's group is removed with the files in it.
        for file in ["pids.max", PROCESSES] {
            fs::remove_file(own.join(file)).unwrap();
        }
        drop(groups);
        assert!(!own.exists());
    }

    #[test]
    fn what_a_killed_launcher_left_is_in_nobodys_way() {
        let above = tempfile::tempdir().unwrap();
        let limits = limits(above.path(), &[]);
        fs::create_dir(above.path().join("own")).unwrap();
        drop(Groups::make(&limits).unwrap());
        assert!(!above.path().join("own").exists());
    }

    #[test]
    fn a_limit_that_cannot_be_set_makes_no_sandbox_and_leaves_no_group() {
        let above = tempfile::tempdir().unwrap();
        let limits = limits(above.path(), &[("absent/memory.max", "7", false)]);
        let refused = Groups::make(&limits).err().map(|error| error.to_string());
        assert!(refused.is_some_and(|said| said.contains("absent/memory.max")));
        assert!(!above.path().join("own").exists());
        assert!(enter(&limits).is_err(), "and nobody goes on outside of it");
    }
}
