//! The folders of one plugin, below the data folder.
//!
//! ```text
//! plugins/root           empty: every sandbox mounts its root over it
//! plugins/ID/config      what the owner configured; the app's alone
//!            mounted     bearer, wanted revision, configuration   read by the sandbox
//!            order       what a build is asked for                read by the sandbox that bundles
//!            doors       the app's door, the runner's socket      ─┐
//!            kept        calls and their results                   │ the plugin's user's
//!            state       trees and caches                          │
//!            work        bundle and report of a build              │
//!            given       report of who copies its files           ─┘
//!            files.tar   what a restore gives back, until it is there
//! plugins/gone-ID        what is being removed
//! ```
//!
//! `ID` is short: a socket's path must be.

mod removed;

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, DirBuilder};
use std::hash::{Hash, Hasher};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, lchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::getuid;
use tokio::task::spawn_blocking;

use crate::error::MachineError;
use crate::order::Purpose;

/// What the kernel takes in the address of a Unix socket, without the closing zero byte.
const LONGEST_ADDRESS: usize = 107;

/// Digits of a plugin's UID by which its folder is named: those of a UUID that are random.
const DIGITS: usize = 12;

/// Users of sandboxes, where this process is root. Nobody else has them on an ordinary machine.
const USERS: std::ops::Range<u32> = 1_310_000..1_375_000;

/// The folder of the plugins of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    base: PathBuf,
    /// A user is chosen and taken by one at a time.
    choosing: Arc<Mutex<()>>,
}

/// The folders of one plugin. They need not be there yet.
#[derive(Clone, Debug)]
pub(crate) struct PluginFolders {
    base: PathBuf,
}

impl Folders {
    pub(crate) fn new(data_dir: &Path) -> Self {
        Self { base: data_dir.join("plugins"), choosing: Arc::default() }
    }

    /// Makes what all plugins share.
    pub(crate) fn prepare(&self) -> Result<(), MachineError> {
        for (path, mode) in [(self.base.clone(), 0o700), (self.root(), 0o755)] {
            make(&path, mode)?;
        }
        Ok(())
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("root")
    }

    pub(crate) fn of(&self, uid: &str) -> PluginFolders {
        let digits: Vec<char> = uid.chars().filter(char::is_ascii_alphanumeric).collect();
        let last = digits.len().saturating_sub(DIGITS);
        PluginFolders { base: self.base.join(digits[last..].iter().collect::<String>()) }
    }

    /// Makes what a sandbox of the plugin needs, and gives the plugin's user: one of its own, where this process
    /// is root.
    pub(crate) async fn take(
        &self,
        plugin: &PluginFolders,
        purpose: Purpose,
    ) -> Result<Option<u32>, MachineError> {
        let (all, own) = (self.clone(), plugin.clone());
        in_a_thread(plugin, move || {
            let _one = all.choosing.lock();
            let user = all.user(&own)?;
            own.prepare(user, purpose)?;
            Ok(user)
        })
        .await
    }

    /// The user of a plugin; nobody, where it is that of this process.
    pub(crate) fn user(&self, plugin: &PluginFolders) -> Result<Option<u32>, MachineError> {
        if getuid().is_root() { self.own_user(plugin).map(Some) } else { Ok(None) }
    }

    /// Whom its folders belong to, or the first that nobody has.
    fn own_user(&self, plugin: &PluginFolders) -> Result<u32, MachineError> {
        let failed = || MachineError::folder(&self.base);
        if let Some(user) = owner(&plugin.state()).map_err(failed())? {
            return Ok(user);
        }
        let mut taken = Vec::new();
        for entry in fs::read_dir(&self.base).map_err(failed())? {
            let entry = entry.map_err(failed())?;
            taken.extend(owner(&entry.path().join("state")).map_err(failed())?);
        }
        let free = users(&self.base).find(|user| !taken.contains(user));
        free.ok_or_else(|| failed()(io::Error::other("all users of sandboxes are taken")))
    }
}

impl PluginFolders {
    pub(crate) fn mounted(&self) -> PathBuf {
        self.base.join("mounted")
    }

    pub(crate) fn order(&self) -> PathBuf {
        self.base.join("order")
    }

    pub(crate) fn doors(&self) -> PathBuf {
        self.base.join("doors")
    }

    pub(crate) fn kept(&self) -> PathBuf {
        self.base.join("kept")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.base.join("state")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.base.join("work")
    }

    /// What is temporary for who copies the plugin's files, and where it reports. Others have it in memory.
    pub(crate) fn given(&self) -> PathBuf {
        self.base.join("given")
    }

    /// A tar of what the plugin kept, which waits to be put back.
    pub(crate) fn files(&self) -> PathBuf {
        self.base.join("files.tar")
    }

    /// The same while it is written.
    pub(crate) fn next_files(&self) -> PathBuf {
        self.base.join("files.new")
    }

    /// The JSON of what the owner configured.
    pub(crate) fn config(&self) -> PathBuf {
        self.base.join("config").join("config.json")
    }

    /// The same while it is written. It may hold keys, so that a death must not leave it there.
    pub(crate) fn next_config(&self) -> PathBuf {
        self.config().with_extension("new")
    }

    /// Where the runner listens.
    pub(crate) fn runner_socket(&self) -> PathBuf {
        self.doors().join("run")
    }

    /// Where the app listens.
    pub(crate) fn app_socket(&self) -> PathBuf {
        self.doors().join("app")
    }

    /// Makes them all, and gives to the plugin's user what is to be its. What is temporary for this purpose is
    /// emptied.
    fn prepare(&self, user: Option<u32>, purpose: Purpose) -> Result<(), MachineError> {
        let socket = self.runner_socket();
        let bytes = socket.as_os_str().len().saturating_sub(LONGEST_ADDRESS);
        if bytes > 0 {
            return Err(MachineError::LongPath { path: socket, bytes });
        }
        // Who copies files does not bring back what was removed meanwhile.
        if purpose != Purpose::Give {
            make(&self.base, 0o700)?;
        } else if !self.are_there() {
            return Err(MachineError::Gone);
        }
        add(&self.base.join("config"))?;
        let temporary = (purpose == Purpose::Give).then(|| self.given());
        temporary.as_deref().map_or(Ok(()), remove)?;
        // What these hold is read in the sandbox, and written outside of it.
        for folder in [self.mounted(), self.order()] {
            add(&folder)?;
            own(&folder, user)?;
        }
        let written = [self.doors(), self.kept(), self.state(), self.work()];
        for folder in written.into_iter().chain(temporary) {
            add(&folder)?;
            own(&folder, user)?;
        }
        Ok(())
    }

    /// Removes its trees and caches, which stay its user's.
    pub(crate) async fn empty_state(&self, user: Option<u32>) -> Result<(), MachineError> {
        let state = self.state();
        in_a_thread(self, move || {
            remove(&state)?;
            make(&state, 0o700)?;
            own(&state, user)
        })
        .await
    }

    /// Whether there is anything of the plugin here.
    pub(crate) fn are_there(&self) -> bool {
        self.base.is_dir()
    }
}

/// The users of sandboxes, those first that are this installation's: the kernel counts the processes of a user over
/// the whole machine, so that two installations of one machine are to share none.
fn users(base: &Path) -> impl Iterator<Item = u32> {
    let mut hasher = DefaultHasher::new();
    base.hash(&mut hasher);
    let first = u32::try_from(hasher.finish() % u64::from(USERS.end - USERS.start)).unwrap_or(0);
    (USERS.start + first..USERS.end).chain(USERS.start..USERS.start + first)
}

/// Trees may be large.
async fn in_a_thread<T: Send + 'static>(
    folders: &PluginFolders,
    work: impl FnOnce() -> Result<T, MachineError> + Send + 'static,
) -> Result<T, MachineError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| MachineError::folder(&folders.base)(io::Error::other(error)))?
}

/// Whose a folder is, if somebody's that a sandbox may be.
fn owner(path: &Path) -> io::Result<Option<u32>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found.uid()).filter(|user| USERS.contains(user))),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

pub(crate) fn make(path: &Path, mode: u32) -> Result<(), MachineError> {
    let made = DirBuilder::new().recursive(true).mode(mode).create(path);
    made.map_err(MachineError::folder(path))
}

/// Makes a folder in one that is there.
fn add(path: &Path) -> Result<(), MachineError> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(MachineError::folder(path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

pub(crate) fn own(path: &Path, user: Option<u32>) -> Result<(), MachineError> {
    let Some(user) = user else { return Ok(()) };
    // Never what a link leads to: the plugin's user can put one into its folders.
    lchown(path, Some(user), Some(user)).map_err(MachineError::folder(path))
}

/// Removes a folder with all that is in it, or what else stands there, if anything does.
pub(crate) fn remove(path: &Path) -> Result<(), MachineError> {
    let is_folder = fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    match if is_folder { fs::remove_dir_all(path) } else { fs::remove_file(path) } {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(MachineError::folder(path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_installation_begins_with_users_of_its_own_and_has_all_of_them() {
        let first = |path: &str| users(Path::new(path)).next();
        assert_ne!(first("/var/lib/famulus/plugins"), first("/srv/second/plugins"));
        assert_eq!(first("/srv/second/plugins"), first("/srv/second/plugins"));
        let mut all: Vec<u32> = users(Path::new("/srv/second/plugins")).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(USERS));
    }
}
