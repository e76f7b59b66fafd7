//! One at a time: a file that is locked while something is made or changed.

use std::fs::{self, File, TryLockError};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::shell::Shell;

/// How often to look whether the other one is done.
const EVERY: Duration = Duration::from_millis(300);

/// Waits until the file is ours. The lock goes with the returned value, and with its process.
pub async fn take(shell: &mut Shell, file: &Path, held_for: &str) -> Result<File> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder).with_context(|| {
            format!("cannot make {}; set FAMULUS_CACHE to another folder", folder.display())
        })?;
    }
    let lock = File::create(file).with_context(|| format!("cannot open {}", file.display()))?;
    let mut told = false;
    loop {
        match lock.try_lock() {
            Ok(()) => return Ok(lock),
            Err(TryLockError::WouldBlock) if !told => {
                eprintln!("waiting: another process {held_for}");
                told = true;
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("cannot lock {}", file.display()));
            }
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            signal = shell.signals.wait_for_signal() => bail!("stopped by a signal ({signal:?})"),
        }
    }
}
