//! What a plugin keeps, for backups: given while no call runs, and taken once before it serves.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use famulus_protocol::{Kind, Problem};
use famulus_runner_harness::Mount;
use famulus_runner_harness::pieces::{PieceReader, Pieces, written};
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use crate::own_files::OwnFiles;
use crate::settings::{Cluster, Sandbox};
use crate::volume::Volume;

/// Between two looks whether files are copied still.
const LOOK: Duration = Duration::from_millis(20);

/// Where it is kept.
#[derive(Clone, Debug)]
pub struct Keeping {
    volume: Volume,
    home: PathBuf,
    mount: Mount,
    /// Another process copies the files, too.
    is_shared: bool,
}

impl Keeping {
    pub fn new(mount: &Mount, cluster: &Cluster, sandbox: &Sandbox) -> Self {
        let (volume, home) =
            (Volume::new(cluster.volume.clone()), sandbox.environment.cache.join("home"));
        Self { volume, home, mount: mount.clone(), is_shared: cluster.shared_volume }
    }

    /// Waits while another process copies the files. None does until what this gives is dropped.
    pub(crate) async fn during_a_call(&self) -> io::Result<Option<File>> {
        if !self.is_shared {
            return Ok(None);
        }
        loop {
            if let Some(held) = self.volume.hold_for_call()? {
                return Ok(Some(held));
            }
            sleep(LOOK).await;
        }
    }

    /// Gives the files. Calls wait for as long as somebody takes them.
    pub(crate) async fn give(
        &self,
        no_call_runs: OwnedRwLockWriteGuard<()>,
    ) -> Result<Pieces, Problem> {
        let keeping = self.clone();
        let files = in_a_thread(move || keeping.open()).await?;
        Ok(written(move |to| {
            let _no_call_runs = no_call_runs;
            files.give(to)
        }))
    }

    /// Takes files, if the operator says that some come, and they did not yet.
    pub(crate) async fn take(&self, pieces: Pieces) -> Result<(), Problem> {
        let (keeping, reader) = (self.clone(), PieceReader::new(pieces));
        in_a_thread(move || keeping.put(reader)).await
    }

    pub(crate) fn configuration(&self) -> Result<String, Problem> {
        let mounted = self.mount.read().map_err(|error| unusable("what is mounted", &error))?;
        Ok(mounted.config.unwrap_or_else(|| "{}".to_owned()))
    }

    fn put(&self, reader: PieceReader) -> Result<(), Problem> {
        let mounted = self.mount.read().map_err(|error| unusable("what is mounted", &error))?;
        let backup = mounted.wanted.awaits.ok_or_else(|| {
            Problem::new(
                Kind::Invalid,
                "no files of a backup are waited for",
                "files are taken once, by a Plugin that a restore made",
            )
        })?;
        if self.volume.restored().as_ref() == Some(&backup) {
            return Ok(());
        }
        // Another tree would take over what is put into this one, but not what comes after that.
        let files = self.open()?;
        if Some(&files.record.digest) != mounted.wanted.revision.as_ref() {
            return Err(not_ready("the revision that is to serve is not there yet"));
        }
        files.take(reader).map_err(|error| unusable("the archive or the volume", &error))?;
        let noted = self.volume.note_restored(&backup);
        noted.map_err(|error| unusable("the volume", &error))
    }

    fn open(&self) -> Result<OwnFiles, Problem> {
        let hex = self.volume.active().ok_or_else(|| not_ready("no revision serves yet"))?;
        let files = OwnFiles::open(&self.volume, &hex, &self.home);
        files.map_err(|error| unusable("its folder", &error))?.ok_or_else(unbuilt)
    }
}

async fn in_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| Err(unusable("the runner", &io::Error::other(panicked))))
}

fn unbuilt() -> Problem {
    not_ready("the revision was not built to its end")
}

fn not_ready(what: &str) -> Problem {
    Problem::new(Kind::NotReady, what, "ask again; see whether its build succeeded")
}

fn unusable(what: &str, error: &io::Error) -> Problem {
    tracing::error!(%error, what, "what the plugin keeps cannot be given or taken");
    Problem::new(
        Kind::Internal,
        format!("{what} cannot be used: {error}"),
        "see the log of the runner, and whether its volume is full or read-only",
    )
}
