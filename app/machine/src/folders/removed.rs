//! Folders of plugins that go, all at once for everybody, and then piece by piece.
//!
//! ```text
//! plugins/ID ─► plugins/gone-ID: nobody finds it ─► keys ─► the rest, until nobody writes into it any more
//! ```

use std::borrow::Cow;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use famulus_core::crash;

use super::{Folders, PluginFolders, in_a_thread, remove};
use crate::error::MachineError;
use crate::lent::{PACKAGES, REPOSITORIES};

/// How the folder of a plugin is called while it is removed.
const GONE: &str = "gone-";

/// How long somebody may write into a folder that is being removed.
const WRITTEN: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(5);

impl Folders {
    /// Removes the folders of all plugins but these, and what was not finished of theirs.
    pub(crate) async fn keep_only(&self, uids: &[String]) -> Result<(), MachineError> {
        let kept: Vec<PathBuf> = uids.iter().map(|uid| self.of(uid).base).collect();
        let entries = match fs::read_dir(&self.base) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(MachineError::folder(&self.base)(error)),
        };
        for entry in entries {
            let base = entry.map_err(MachineError::folder(&self.base))?.path();
            if base == self.root() {
                continue;
            }
            let folders = PluginFolders { base };
            if kept.contains(&folders.base) {
                remove(&folders.next_config())?;
                remove(&folders.next_files())?;
                for lent in [PACKAGES, REPOSITORIES] {
                    remove(&lent.copy(&folders))?;
                }
                continue;
            }
            crash::before("plugin.clear");
            if entry_name(&folders.base).starts_with(GONE) {
                in_a_thread(&folders.clone(), move || clear(&folders.base)).await?;
            } else {
                folders.remove().await?;
            }
            crash::after("plugin.clear");
        }
        Ok(())
    }
}

impl PluginFolders {
    /// Takes the plugin away for everybody. Whoever copies its files may be at it, in another process even: from
    /// now on there is no plugin that it could make folders for. What has it open keeps it until it is removed.
    pub(crate) async fn set_aside(&self) -> Result<(), MachineError> {
        let (base, gone) = (self.base.clone(), self.gone());
        in_a_thread(self, move || {
            if !base.is_dir() {
                return Ok(());
            }
            clear(&gone)?;
            fs::rename(&base, &gone).map_err(MachineError::folder(&base))
        })
        .await
    }

    /// Removes all that there is of the plugin.
    pub(crate) async fn remove(&self) -> Result<(), MachineError> {
        self.set_aside().await?;
        let gone = self.gone();
        in_a_thread(self, move || clear(&gone)).await
    }

    /// Where it is while it is removed.
    fn gone(&self) -> PathBuf {
        self.base.with_file_name(format!("{GONE}{}", entry_name(&self.base)))
    }
}

/// The last name of a path, which is one that was made here.
fn entry_name(path: &Path) -> Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Removes a folder into which somebody may write still, who finds no place for more soon. Keys go first.
fn clear(gone: &Path) -> Result<(), MachineError> {
    for keys in ["config", "mounted"] {
        remove(&gone.join(keys))?;
    }
    let begun = Instant::now();
    loop {
        match remove(gone) {
            Err(MachineError::Folder { source, .. })
                if source.kind() == io::ErrorKind::DirectoryNotEmpty
                    && begun.elapsed() < WRITTEN =>
            {
                thread::sleep(LOOK_AGAIN);
            }
            removed => return removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::sync::{Arc, Barrier};

    use rustix::fs::{OFlags, openat};

    use super::*;
    use crate::order::Purpose;

    const UID: &str = "019ac000-0000-7000-8000-00000000beef";

    /// The folders of one plugin, made.
    fn made(data: &Path) -> (Folders, PluginFolders) {
        let folders = Folders::new(data);
        folders.prepare().unwrap();
        let own = folders.of(UID);
        own.prepare(None, Purpose::Serve).unwrap();
        (folders, own)
    }

    fn names(folders: &Folders) -> Vec<String> {
        let entries = fs::read_dir(&folders.base).unwrap();
        entries.map(|entry| entry_name(&entry.unwrap().path()).into_owned()).collect()
    }

    #[tokio::test]
    async fn a_plugin_is_removed_while_somebody_writes_into_its_folders() {
        let data = tempfile::tempdir().unwrap();
        let (folders, own) = made(data.path());
        // As a sandbox does, which holds them and knows no path of the machine.
        let state = File::open(own.state()).unwrap();
        let begun = Arc::new(Barrier::new(2));
        let has_begun = Arc::clone(&begun);
        let writes = thread::spawn(move || {
            let until = Instant::now() + Duration::from_millis(300);
            let mut written = 0_u32;
            while Instant::now() < until {
                let flags = OFlags::CREATE | OFlags::WRONLY;
                let name = format!("file-{written}");
                if openat(&state, name, flags, 0o600.into()).is_err() {
                    continue;
                }
                written += 1;
                if written == 1 {
                    has_begun.wait();
                }
            }
            written
        });
        begun.wait();
        own.remove().await.unwrap();
        assert!(writes.join().unwrap() > 0);
        assert_eq!(names(&folders), ["root"]);
    }

    #[tokio::test]
    async fn who_copies_files_does_not_bring_back_a_plugin_that_is_gone() {
        let data = tempfile::tempdir().unwrap();
        let (folders, own) = made(data.path());
        own.prepare(None, Purpose::Give).unwrap();
        own.remove().await.unwrap();
        let refused = own.prepare(None, Purpose::Give);
        assert!(matches!(refused, Err(MachineError::Gone)), "{refused:?}");
        assert_eq!(names(&folders), ["root"]);
        own.remove().await.unwrap();
    }

    #[tokio::test]
    async fn what_was_not_removed_to_its_end_is_at_the_next_start() {
        let data = tempfile::tempdir().unwrap();
        let (folders, own) = made(data.path());
        let copy = REPOSITORIES.copy(&own);
        fs::create_dir_all(&copy).unwrap();
        folders.keep_only(&[UID.to_owned()]).await.unwrap();
        assert!(
            own.base.is_dir() && !copy.exists(),
            "credentials were lent for longer than a step"
        );
        fs::rename(&own.base, folders.base.join("gone-00000000beef")).unwrap();
        folders.keep_only(&[UID.to_owned()]).await.unwrap();
        assert_eq!(names(&folders), ["root"]);
    }
}
