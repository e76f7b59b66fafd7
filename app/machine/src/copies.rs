//! What plugins of this machine keep, on its way into a backup and out of it. It does not matter whether the
//! assistant runs meanwhile, and in which process.
//!
//! ```text
//! backup   state ─► a sandbox of its own, which waits for a moment without calls ─► tar
//! restore  tar ─► files.tar ─► the next build puts it beside the tree, and then it serves
//! ```
//!
//! What a plugin wrote is read as the plugin's user and inside a sandbox, never by this process.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use famulus_lifecycle::{Tasks, boxed};
use famulus_protocol::launch::LaunchNetwork;
use famulus_protocol::revision::Copied;
use serde_json::{Map, Value};
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

use crate::config;
use crate::error::{MachineError, StepError};
use crate::folders::{Folders, PluginFolders, make, remove};
use crate::launcher::Launcher;
use crate::machine::Settings;
use crate::order::{Of, Purpose, REPORT, launch};
use crate::steps::report;

/// What is read at once.
const PIECE: usize = 64 * 1024;

/// Who copies what plugins keep. Clones are the same.
#[derive(Clone)]
pub struct Copies {
    settings: Arc<Settings>,
    folders: Folders,
    tasks: Tasks,
}

impl std::fmt::Debug for Copies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Copies({})", self.settings.data_dir.display())
    }
}

/// The files of a plugin, as they come. The sandbox that gives them ends when this is dropped.
pub struct GivenFiles {
    launcher: Launcher,
    written: ChildStdout,
    report: PathBuf,
    folders: PluginFolders,
}

impl Copies {
    pub fn new(settings: Settings, tasks: &Tasks) -> Self {
        let folders = Folders::new(&settings.data_dir);
        Self { settings: Arc::new(settings), folders, tasks: tasks.clone() }
    }

    /// Whether anything of the plugin has served here, so that it may keep something.
    pub fn has_served(&self, uid: &str) -> bool {
        self.folders.of(uid).state().join("active").is_symlink()
    }

    /// The files of a plugin, as a tar. No call of it runs while they are read.
    ///
    /// # Errors
    /// No sandbox can be made, in which they could be read.
    #[boxed]
    pub async fn files(&self, plugin: &str, uid: &str) -> Result<GivenFiles, MachineError> {
        let folders = self.folders.of(uid);
        match self.give(plugin, folders.clone()).await {
            // It was removed meanwhile, which is all that there is to say.
            Err(_) if !folders.are_there() => Err(MachineError::Gone),
            given => given,
        }
    }

    async fn give(&self, plugin: &str, folders: PluginFolders) -> Result<GivenFiles, MachineError> {
        let user = self.folders.take(&folders, Purpose::Give).await?;
        let of = Of { plugin, folders: &folders, root: self.folders.root(), user };
        let order = launch(Purpose::Give, &of, &self.settings, None, LaunchNetwork::None);
        let mut launcher = Launcher::writing(&self.settings.runner, &order, &self.tasks)?;
        let written = launcher
            .take_written()
            .ok_or_else(|| MachineError::Copy(io::ErrorKind::BrokenPipe.into()))?;
        let report = folders.given().join(REPORT);
        Ok(GivenFiles { launcher, written, report, folders })
    }

    /// What the owner configured; nothing, if nothing was.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn configured(&self, uid: &str) -> Result<Map<String, Value>, MachineError> {
        config::read(&self.folders.of(uid))
    }

    /// Keeps what a backup has of a plugin's configuration. Only while the assistant does not run.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn configure(&self, uid: &str, values: Map<String, Value>) -> Result<(), MachineError> {
        self.folders.prepare()?;
        config::write(&self.folders.of(uid), &Value::Object(values))
    }

    /// Keeps what a backup has of a plugin's files, until the next build puts them in their place: what the plugin
    /// has by then goes. Only while the assistant does not run, and for threads that may block.
    ///
    /// # Errors
    /// They cannot be read or written. What the plugin has stays as it is.
    pub fn give_back(&self, uid: &str, mut files: impl Read) -> Result<(), MachineError> {
        let folders = self.folders.of(uid);
        let (path, aside) = (folders.files(), folders.next_files());
        self.folders.prepare()?;
        if let Some(base) = path.parent() {
            make(base, 0o700)?;
        }
        remove(&aside)?;
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside);
        let written = written.and_then(|mut file| {
            io::copy(&mut files, &mut file)?;
            file.sync_all()
        });
        written.map_err(MachineError::folder(&aside))?;
        fs::rename(&aside, &path).map_err(MachineError::folder(&path))
    }
}

impl GivenFiles {
    /// The next piece; nothing behind the last.
    ///
    /// # Errors
    /// They did not come whole.
    #[boxed]
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, StepError> {
        let mut piece = Vec::with_capacity(PIECE);
        let read = self.written.read_buf(&mut piece).await;
        if read.map_err(MachineError::Copy)? > 0 {
            return Ok(Some(piece));
        }
        let status = self.launcher.exited().await.map_err(MachineError::Copy)?;
        let reported = report(&self.report);
        // What was read while it was removed may lack anything, whatever the report says.
        if !self.folders.are_there() {
            return Err(MachineError::Gone.into());
        }
        if let Some(why) = self.launcher.refusal(status).await {
            return Err(MachineError::NotLaunched(why).into());
        }
        match reported {
            Some(Copied::Done { .. }) => Ok(None),
            Some(Copied::Failed(failure)) => Err(StepError::Failed(failure)),
            None => {
                let said = self.launcher.log().last().unwrap_or_default();
                Err(StepError::Silent { how: status.to_string(), said })
            }
        }
    }
}
