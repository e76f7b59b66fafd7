//! One server process: started, awaited, stopped.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Child;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::account::Account;
use super::binaries::Binaries;
use super::error::PostgresError;
use super::wire::Session;
use super::{DATABASE, PORT, is_disk_full, leftovers};

/// How often a starting server is asked. Asking is one connection attempt on a local socket.
const POLL: Duration = Duration::from_millis(20);

/// Long enough to replay the largest write-ahead log of the default settings on a slow disk.
const READY_DEADLINE: Duration = Duration::from_mins(5);

/// A connection attempt that takes longer has met a server that is stuck.
const CONNECT_DEADLINE: Duration = Duration::from_secs(5);

/// When a start that is still going on is worth a line in the log.
const SLOW_START: Duration = Duration::from_secs(5);

/// How long the server gets for each, from mild to hard: a checkpoint of dirty buffers, an exit
/// without one, and what the kernel needs.
const STOP_STEPS: [(Signal, Duration); 3] = [
    (Signal::INT, Duration::from_secs(20)),
    (Signal::QUIT, Duration::from_secs(5)),
    (Signal::KILL, Duration::from_secs(5)),
];

/// A log beyond this size is put aside at the next start; one older log is kept.
const LOG_LIMIT: u64 = 4 << 20;

/// The end of the log that is worth showing in an error, in lines.
const SHOWN_LINES: usize = 5;

/// SQLSTATE: the database does not exist.
const NO_SUCH_DATABASE: &str = "3D000";
/// SQLSTATE: starting up, shutting down or recovering.
const CANNOT_CONNECT_NOW: &str = "57P03";

/// What a server process is started from.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) binaries: Binaries,
    pub(super) account: Account,
    pub(super) pgdata: PathBuf,
    pub(super) log: PathBuf,
    pub(super) socket_dir: PathBuf,
    pub(super) shared_buffers_mb: u32,
    pub(super) max_connections: u32,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// By itself when asked, or it was gone already. Nothing is left to recover.
    Orderly,
    /// Only by force. The next start recovers from the write-ahead log.
    Forced,
}

/// A server process and where its part of the log begins. Asked to stop when it is dropped, be it
/// in the middle of its start.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) child: Child,
    log_begins: u64,
}

impl Server {
    pub(super) fn socket(&self) -> PathBuf {
        self.socket_dir.join(format!(".s.PGSQL.{PORT}"))
    }

    /// Clears what an earlier run left and starts the process. Blocks its thread.
    pub(super) fn spawn(&self) -> Result<Started, PostgresError> {
        leftovers::clear(&self.pgdata)?;
        let (log, log_begins) = self.open_log()?;
        let errors = log.try_clone().map_err(PostgresError::io("open", &self.log))?;
        let program = self.binaries.program("postgres");
        let mut command = Command::new(&program);
        self.account.apply(&mut command);
        command.arg("-D").arg(&self.pgdata);
        for setting in self.settings() {
            command.arg("-c").arg(setting);
        }
        // A group of its own: Ctrl-C in the terminal is for the app, which stops Postgres last.
        command.process_group(0).stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = tokio::process::Command::from(command)
            .spawn()
            .map_err(PostgresError::io("run", &program))?;
        Ok(Started { child, log_begins })
    }

    /// Waits until the server accepts connections and has the database of the application.
    /// Returns early, without an error, when `stop` is cancelled.
    pub(super) async fn ready(
        &self,
        started: &mut Started,
        stop: &CancellationToken,
    ) -> Result<(), PostgresError> {
        let begun = Instant::now();
        let mut said_slow = false;
        loop {
            if let Ok(Some(status)) = started.child.try_wait() {
                return Err(self.start_failure(started.log_begins, status));
            }
            match timeout(CONNECT_DEADLINE, self.ensure_database()).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(error)) if !is_still_starting(&error) => return Err(error),
                Ok(Err(_)) | Err(_) => {}
            }
            if begun.elapsed() > READY_DEADLINE {
                let seconds = READY_DEADLINE.as_secs();
                return Err(PostgresError::NotReady { seconds, log: self.log.clone() });
            }
            if begun.elapsed() > SLOW_START && !said_slow {
                said_slow = true;
                tracing::info!("Postgres is still starting, most likely replaying its log");
            }
            tokio::select! {
                () = sleep(POLL) => {}
                () = stop.cancelled() => return Ok(()),
            }
        }
    }

    async fn ensure_database(&self) -> Result<(), PostgresError> {
        let socket = self.socket();
        match Session::connect(&socket, DATABASE).await {
            Ok(_) => Ok(()),
            Err(PostgresError::Refused { code, .. }) if code == NO_SUCH_DATABASE => {
                let mut session = Session::connect(&socket, "postgres").await?;
                session.run(&format!("CREATE DATABASE {DATABASE}")).await
            }
            Err(error) => Err(error),
        }
    }

    /// Given on the command line, so that what is in force is what this version of the program
    /// means, whatever the file in the data directory says.
    fn settings(&self) -> Vec<String> {
        let Self { socket_dir, shared_buffers_mb, max_connections, .. } = self;
        let mut settings = vec![
            "listen_addresses=".to_owned(),
            format!("port={PORT}"),
            format!("unix_socket_directories={}", quoted(socket_dir)),
            "unix_socket_permissions=0700".to_owned(),
            format!("shared_buffers={shared_buffers_mb}MB"),
            format!("max_connections={max_connections}"),
            "timezone=UTC".to_owned(),
            "log_timezone=UTC".to_owned(),
        ];
        settings.extend(DURABLE.iter().chain(&SMALL).chain(&QUIET).map(ToString::to_string));
        if self.binaries.version.major >= 18 {
            settings.extend(SMALL_SINCE_18.map(str::to_owned));
        }
        settings
    }

    fn open_log(&self) -> Result<(File, u64), PostgresError> {
        let failed = || PostgresError::io("open", &self.log);
        if fs::metadata(&self.log).is_ok_and(|log| log.len() > LOG_LIMIT) {
            let aside = self.log.with_extension("log.1");
            fs::rename(&self.log, &aside).map_err(PostgresError::io("put aside", &self.log))?;
        }
        let mut options = OpenOptions::new();
        let mut log =
            options.create(true).append(true).mode(0o600).open(&self.log).map_err(failed())?;
        let begins = log.seek(SeekFrom::End(0)).map_err(failed())?;
        Ok((log, begins))
    }

    fn start_failure(&self, log_begins: u64, status: ExitStatus) -> PostgresError {
        let said = read_from(&self.log, log_begins);
        if is_disk_full(&said) {
            return PostgresError::DiskFull { path: self.pgdata.clone() };
        }
        let lines: Vec<&str> = said.lines().collect();
        let shown = lines[lines.len().saturating_sub(SHOWN_LINES)..].join("; ");
        let said = if shown.is_empty() { status.to_string() } else { shown };
        PostgresError::Start { said, log: self.log.clone() }
    }
}

impl Started {
    /// Stops the server: politely, then less so.
    pub(super) async fn stop(mut self, pgdata: &Path) -> Stopped {
        for (signal, patience) in STOP_STEPS {
            signal_child(&self.child, signal);
            if timeout(patience, self.child.wait()).await.is_ok() {
                let mild = signal == Signal::INT;
                return if mild { Stopped::Orderly } else { Stopped::Forced };
            }
            tracing::warn!(?signal, ?patience, "Postgres does not stop: asking harder");
        }
        tracing::error!(pgdata = %pgdata.display(), "Postgres cannot be stopped");
        Stopped::Forced
    }
}

/// Nobody waits for a server that is only dropped, but it is told.
impl Drop for Started {
    fn drop(&mut self) {
        signal_child(&self.child, Signal::INT);
    }
}

fn signal_child(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
    if let Some(pid) = pid
        && let Err(error) = kill_process(pid, signal)
    {
        tracing::debug!(%error, "Postgres ended before its signal");
    }
}

/// What an acknowledged write rests on. The defaults, stated.
const DURABLE: [&str; 3] = ["fsync=on", "synchronous_commit=on", "full_page_writes=on"];

/// A private server has one application: no replicas, no worker processes for what it does not do.
const SMALL: [&str; 3] =
    ["max_wal_senders=0", "wal_level=minimal", "max_logical_replication_workers=0"];

/// Reads happen in the backend that wants them instead of in three more processes.
const SMALL_SINCE_18: [&str; 1] = ["io_method=sync"];

/// A log that names what went wrong and holds neither statements nor rows, which carry messages
/// and secrets.
const QUIET: [&str; 5] = [
    "logging_collector=off",
    "log_checkpoints=off",
    "log_min_error_statement=panic",
    "log_error_verbosity=terse",
    "log_parameter_max_length_on_error=0",
];

/// A value with commas or blanks would be read as a list of folders.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display())
}

fn is_still_starting(error: &PostgresError) -> bool {
    if let PostgresError::Refused { code, .. } = error {
        return code == CANNOT_CONNECT_NOW;
    }
    matches!(error, PostgresError::Connection { .. })
}

fn read_from(path: &Path, begins: u64) -> String {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|mut file| {
        file.seek(SeekFrom::Start(begins))?;
        file.read_to_end(&mut text)
    });
    match read {
        Ok(_) => String::from_utf8_lossy(&text).trim().to_owned(),
        Err(error) => format!("its log cannot be read: {error}"),
    }
}
