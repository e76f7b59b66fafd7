//! What a plugin keeps, copied by steps of their own on one machine: there a backup may be taken by another
//! process than the one whose runner serves, and a restore gives the files back before any runner serves.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::time::Duration;

use famulus_protocol::revision::{Copied, digest};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

use crate::build::bundled;
use crate::bundle::Failure;
use crate::own_files::OwnFiles;
use crate::settings::CopySettings;
use crate::volume::Volume;

/// Between two looks whether a call runs.
const LOOK: Duration = Duration::from_millis(20);

/// Writes the files beside the tree that serves, as a tar. No call runs meanwhile.
pub async fn give(settings: &CopySettings, to: impl Write + Send + 'static) -> Copied {
    report(given(settings, to).await)
}

/// Puts the files of a backup beside the tree that was built last. It can be done again.
pub async fn take(settings: &CopySettings) -> Copied {
    let own = settings.clone();
    report(in_a_thread(move || taken(&own)).await)
}

async fn given(
    settings: &CopySettings,
    to: impl Write + Send + 'static,
) -> Result<String, Failure> {
    let volume = Volume::new(settings.volume.clone());
    let no_call_runs = alone(&volume, settings.patience).await?;
    let home = settings.home.clone();
    in_a_thread(move || {
        let _no_call_runs = no_call_runs;
        let hex = volume.active().ok_or_else(|| Failure::build("no revision of it serves yet"))?;
        let files = OwnFiles::open(&volume, &hex, &home).map_err(disk())?;
        let files = files.ok_or_else(|| Failure::build("what serves was not built to its end"))?;
        let mut to = BufWriter::new(to);
        files.give(&mut to).and_then(|()| to.flush()).map_err(disk())?;
        Ok(files.record.digest)
    })
    .await
}

fn taken(settings: &CopySettings) -> Result<String, Failure> {
    let volume = Volume::new(settings.volume.clone());
    let revision = bundled(&settings.work)?.revision;
    let hex = digest(&revision).map_err(|problem| Failure::build(problem.to_string()))?;
    let files = OwnFiles::open(&volume, hex, &settings.home).map_err(disk())?;
    let files = files.ok_or_else(|| Failure::build(format!("{revision} was not built")))?;
    let tar = File::open(&settings.files).map_err(Failure::disk("the files of the backup"))?;
    files.take(BufReader::new(tar)).map_err(|error| {
        Failure::build(format!("the files of the backup cannot be put back: {error}"))
    })?;
    volume.synced().map_err(disk())?;
    Ok(revision)
}

/// Waits for a moment in which no call runs.
async fn alone(volume: &Volume, patience: Duration) -> Result<File, Failure> {
    let until = Instant::now() + patience;
    loop {
        if let Some(held) = volume.hold_alone().map_err(disk())? {
            return Ok(held);
        }
        if Instant::now() >= until {
            let seconds = patience.as_secs();
            return Err(Failure::build(format!("calls of it ran for {seconds} s without a pause")));
        }
        sleep(LOOK).await;
    }
}

async fn in_a_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|panicked| Err(disk()(io::Error::other(panicked))))
}

fn disk() -> impl FnOnce(io::Error) -> Failure {
    Failure::disk("the plugin's volume")
}

fn report(copied: Result<String, Failure>) -> Copied {
    match copied {
        Ok(revision) => Copied::Done { revision },
        Err(failure) => Copied::Failed(failure.report()),
    }
}
