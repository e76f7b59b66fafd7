//! A launcher, and the sandbox that it made: started, listened to, and ended.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::launch::{LAUNCH, NOT_LAUNCHED};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::error::MachineError;
use crate::order::SandboxOrder;

/// Of what a sandbox says, the end is kept.
const LINES: usize = 200;

/// Letters of a line; the rest of it is passed over.
const LETTERS: usize = 2_000;

/// How long the last words of one that ended are waited for.
const HEARD: Duration = Duration::from_secs(1);

/// How long it takes, at most, to kill a sandbox.
const KILLED: Duration = Duration::from_secs(10);

/// A sandbox that was started. It ends when this is dropped: its launcher sees that, and clears up behind it.
pub(crate) struct Launcher {
    child: Child,
    /// The launcher ends the sandbox when the other end of its input is gone, however that comes.
    held: Option<ChildStdin>,
    /// What it writes, where that is asked for.
    written: Option<ChildStdout>,
    log: Log,
}

/// The end of what a sandbox said. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    /// Held for single operations, never across an await.
    said: Arc<Mutex<VecDeque<String>>>,
    /// Nothing more is said.
    whole: CancellationToken,
}

impl Log {
    /// Oldest first.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.said.lock().iter().cloned().collect()
    }

    /// The last line that says something.
    pub(crate) fn last(&self) -> Option<String> {
        self.said.lock().iter().rev().find(|line| !line.trim().is_empty()).cloned()
    }

    fn push(&self, line: String) {
        let mut lines = self.said.lock();
        if lines.len() >= LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    async fn follow(self, said: impl AsyncRead + Unpin) {
        let mut said = BufReader::new(said);
        let mut line = Vec::new();
        while let Ok(true) = next(&mut said, &mut line).await {
            self.push(String::from_utf8_lossy(&line).into_owned());
            line.clear();
        }
        self.whole.cancel();
    }
}

/// Reads one line, of which no more than its first letters are kept; `false` at the end.
async fn next(said: &mut (impl AsyncBufReadExt + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let piece = said.fill_buf().await?;
        if piece.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = piece.iter().position(|byte| *byte == b'\n');
        let used = end.unwrap_or(piece.len());
        let room = LETTERS.saturating_sub(line.len());
        line.extend_from_slice(&piece[..used.min(room)]);
        said.consume(used + usize::from(end.is_some()));
        if end.is_some() {
            return Ok(true);
        }
    }
}

impl Launcher {
    pub(crate) fn start(
        runner: &Path,
        order: &SandboxOrder,
        tasks: &Tasks,
    ) -> Result<Self, MachineError> {
        Self::spawn(runner, order, Stdio::null(), tasks)
    }

    /// The same, and its output is [taken](Self::take_written).
    pub(crate) fn writing(
        runner: &Path,
        order: &SandboxOrder,
        tasks: &Tasks,
    ) -> Result<Self, MachineError> {
        Self::spawn(runner, order, Stdio::piped(), tasks)
    }

    fn spawn(
        runner: &Path,
        order: &SandboxOrder,
        output: Stdio,
        tasks: &Tasks,
    ) -> Result<Self, MachineError> {
        let unwritten = |error: serde_json::Error| MachineError::Start(error.into());
        let launch = serde_json::to_string(&order.launch).map_err(unwritten)?;
        let limits = serde_json::to_string(&order.limits).map_err(unwritten)?;
        let mut child = Command::new(runner)
            .args([LAUNCH, &launch, &limits])
            .env_clear()
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(output)
            .stderr(Stdio::piped())
            // A signal from a terminal is for the assistant, which ends its sandboxes by itself.
            .process_group(0)
            .spawn()
            .map_err(MachineError::Start)?;
        let (held, said, log) = (child.stdin.take(), child.stderr.take(), Log::default());
        if let Some(said) = said {
            // It ends with the sandbox, which holds the other end.
            tasks.spawn("sandbox.log", OnExit::Log, log.clone().follow(said));
        }
        let written = child.stdout.take();
        Ok(Self { child, held, written, log })
    }

    pub(crate) fn take_written(&mut self) -> Option<ChildStdout> {
        self.written.take()
    }

    pub(crate) fn log(&self) -> Log {
        self.log.clone()
    }

    /// Asks the program to end.
    pub(crate) fn terminate(&self) {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid
            && let Err(error) = kill_process(pid, Signal::TERM)
        {
            tracing::debug!(%error, "a sandbox ended before it was asked to");
        }
    }

    /// Waits until it has ended. Cancel safe.
    pub(crate) async fn exited(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Why nothing was executed, if that is why it ended so.
    pub(crate) async fn refusal(&self, status: ExitStatus) -> Option<String> {
        // Its last words may be on their way still.
        let _silent = timeout(HEARD, self.log.whole.cancelled()).await;
        if status.code() != Some(i32::from(NOT_LAUNCHED)) {
            return None;
        }
        let said = self.log.last().unwrap_or_else(|| "the launcher does not say why".to_owned());
        Some(said.trim_start_matches("famulus-runner: ").to_owned())
    }

    /// Ends it now, and all that is in it.
    pub(crate) async fn kill(mut self) {
        drop(self.held.take());
        if timeout(KILLED, self.child.wait()).await.is_err() {
            tracing::error!("a sandbox does not end; its launcher is killed");
            if let Err(error) = self.child.start_kill() {
                tracing::error!(%error, "a launcher cannot be killed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn of_much_that_is_said_the_end_is_kept() {
        let log = Log::default();
        let long = "x".repeat(LETTERS * 20);
        let said: Vec<String> = (0..LINES + 50).map(|number| format!("line {number}")).collect();
        let said = format!("{long}\n{}\n{long}", said.join("\n"));
        log.clone().follow(said.as_bytes()).await;
        let lines = log.lines();
        assert_eq!(lines.len(), LINES);
        assert_eq!(lines[0], "line 51");
        assert_eq!(lines[LINES - 1].len(), LETTERS);
        assert_eq!(log.last().unwrap().len(), LETTERS);
    }
}
