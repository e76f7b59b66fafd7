//! The runner's side: starts a supervisor, listens, and makes sure that it ends.

use std::collections::HashSet;
use std::env;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use famulus_protocol::Isolation;
use futures::StreamExt;
use parking_lot::Mutex;
use rustix::process::getpid;
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdout, Command};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};
use tokio_util::codec::{FramedRead, LinesCodec};
use tokio_util::sync::CancellationToken;

use super::processes::{Survivors, end_but};
use super::{Frame, Job, Report, SUPERVISE};

/// Beyond deadline and grace: time for a supervisor to end what the kernel holds, and to report.
const SLACK: Duration = Duration::from_secs(20);

/// The longest frame: a full report in which every byte became an escape of six.
const LONGEST_FRAME: usize = 16 * 1024 * 1024;

/// Starts supervisors. Clones share one record of who runs.
#[derive(Clone, Debug)]
pub struct Supervisor {
    program: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    /// Our supervisors. Held while one is started, so that nobody takes it for an orphan.
    known: Mutex<HashSet<u32>>,
    isolation: Mutex<Option<Isolation>>,
}

#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    #[error("the runner's own program cannot be found")]
    Program(#[source] io::Error),
    #[error("a supervisor cannot be started; see whether the runner is out of processes or memory")]
    Spawn(#[source] io::Error),
    #[error("the job cannot be handed to its supervisor")]
    Job(#[source] io::Error),
    #[error("the supervisor of the call ended without a report; the call may have happened or not")]
    NoReport,
}

impl Supervisor {
    /// Takes this program as the one to start again.
    pub fn new() -> Result<Self, SupervisorError> {
        let program = env::current_exe().map_err(SupervisorError::Program)?;
        Ok(Self { program, shared: Arc::default() })
    }

    /// What held the last process that was started.
    pub fn isolation(&self) -> Option<Isolation> {
        *self.shared.isolation.lock()
    }

    /// Runs the job to its end. What the tool says on the way goes to `said`. Ends it when `cancel`
    /// is cancelled, and when this future is dropped.
    pub async fn run(
        &self,
        job: &Job,
        mut said: impl FnMut(String),
        cancel: &CancellationToken,
    ) -> Result<Report, SupervisorError> {
        let mut child = self.start()?;
        let last = Duration::from_millis(job.deadline_millis + job.grace_millis) + SLACK;
        let last = Instant::now() + last;
        let mut control = child.inner.stdin.take();
        let Some(stdout) = child.inner.stdout.take() else { return Err(SupervisorError::NoReport) };
        let mut line =
            serde_json::to_vec(job).map_err(|error| SupervisorError::Job(error.into()))?;
        line.push(b'\n');
        if let Some(control) = &mut control {
            control.write_all(&line).await.map_err(SupervisorError::Job)?;
        }
        drop(line);
        let mut frames = FramedRead::new(stdout, LinesCodec::new_with_max_length(LONGEST_FRAME));
        let report = loop {
            tokio::select! {
                frame = next(&mut frames) => match frame {
                    Some(Frame::Started(isolation)) => self.note(isolation),
                    Some(Frame::Said(text)) => said(text),
                    Some(Frame::Report(report)) => break Some(report),
                    None => break None,
                },
                // The supervisor hears it by the end of its input.
                () = cancel.cancelled(), if control.is_some() => drop(control.take()),
                () = sleep_until(last) => break None,
            }
        };
        child.finish(report.is_some()).await;
        report.ok_or(SupervisorError::NoReport)
    }

    fn start(&self) -> Result<Supervised, SupervisorError> {
        let mut command = Command::new(&self.program);
        command
            .arg(SUPERVISE)
            .env_clear()
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit());
        let mut known = self.shared.known.lock();
        let inner = command.spawn().map_err(SupervisorError::Spawn)?;
        let pid = inner.id();
        known.extend(pid);
        drop(known);
        Ok(Supervised { inner, pid, shared: Arc::clone(&self.shared) })
    }

    fn note(&self, isolation: Isolation) {
        let mut last = self.shared.isolation.lock();
        *last = Some(isolation);
    }
}

/// The next frame; `None` when the supervisor says nothing more, or nonsense.
async fn next(frames: &mut FramedRead<ChildStdout, LinesCodec>) -> Option<Frame> {
    let line = frames.next().await?.ok()?;
    serde_json::from_str(&line).ok()
}

/// A supervisor that runs. Dropping it closes its input, upon which it ends everything.
struct Supervised {
    inner: Child,
    pid: Option<u32>,
    shared: Arc<Shared>,
}

impl Supervised {
    async fn finish(&mut self, reported: bool) {
        if !reported {
            tracing::error!(pid = self.pid, "a supervisor ended without a report, or is ended now");
            // It may be gone already.
            let _gone = self.inner.start_kill();
        }
        if let Err(error) = self.inner.wait().await {
            tracing::warn!(%error, "a supervisor could not be waited for");
        }
        if !reported {
            let shared = Arc::clone(&self.shared);
            if let Err(error) = spawn_blocking(move || shared.end_orphans()).await {
                tracing::error!(%error, "processes that a supervisor left behind were not ended");
            }
        }
    }
}

impl Drop for Supervised {
    fn drop(&mut self) {
        if let Some(pid) = self.pid {
            self.shared.known.lock().remove(&pid);
        }
    }
}

impl Shared {
    /// Ends what a dead supervisor left: whoever became a child of the runner, its subreaper, and is
    /// no supervisor.
    fn end_orphans(&self) {
        let known = self.known.lock();
        let is_ours = |pid: i32| u32::try_from(pid).is_ok_and(|pid| known.contains(&pid));
        if let Err(Survivors { count, missed }) = end_but(getpid(), &is_ours) {
            tracing::error!(count, ?missed, "processes that a supervisor left behind do not end");
        }
    }
}
