//! The private Postgres: a server of our own on a data directory of our own.
//!
//! ```text
//! start ─► lock ─► user ─► binaries ─► leftovers ─► initdb (once) ─► postgres ─► ready
//!                                          ▲                            │
//!                                          └──── supervisor: it died ───┘
//! ```
//!
//! Layout of the data directory: `lock` (held by the living process, contains its pid),
//! `postgres/` (the data), `postgres.log`, `run/` (the socket).
//!
//! The module refuses to know the schema and the application's role: it hands out a URL of the
//! superuser over a socket that only this user and root can reach.
//!
//! Invariants: one process per data directory, by a lock of the operating system that a crash
//! releases; acknowledged writes are on disk; data appear under their name only when complete;
//! the server never listens on the network and never runs as root; a start puts in order whatever
//! an earlier process left.

mod account;
mod binaries;
mod cluster;
mod error;
mod leftovers;
mod running;
mod server;
mod socket;
mod version;
mod wire;

use std::fs::{self, File, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use famulus_lifecycle::{OnExit, Tasks, boxed};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use account::Account;
use binaries::{Binaries, Places};
use server::{Server, Started};
use wire::Session;

pub use error::{Looked, PostgresError, Why};
pub use running::Running;
pub use server::Stopped;

/// The superuser of the private server.
const SUPERUSER: &str = "postgres";

/// The database of the application, made at the first start.
const DATABASE: &str = "famulus";

/// Only part of the socket's name: nothing listens on a port.
const PORT: u16 = 5432;

/// The pause before a server that died is started again, doubling up to the second value.
const RESTART_PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

/// What to start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Absolute; made if missing. Holds the data and everything else the server needs.
    pub data_dir: PathBuf,
    /// The `bin` folder of the installation to use, and no other. Without it one is searched for:
    /// on this machine first, then in `tree_dirs`.
    pub bin_dir: Option<PathBuf>,
    /// Unpacked trees (each with a `bin` folder), or folders that hold trees named `postgres-*`.
    pub tree_dirs: Vec<PathBuf>,
    /// Memory that all connections share, in MiB.
    pub shared_buffers_mb: u32,
    /// Connections at the same time, including three kept for the superuser.
    pub max_connections: u32,
}

impl Settings {
    /// For one household: 32 MiB of shared buffers and 40 connections.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            bin_dir: None,
            tree_dirs: Vec::new(),
            shared_buffers_mb: 32,
            max_connections: 40,
        }
    }
}

/// Postgres's own programs, where no private server is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    pub bin_dir: PathBuf,
    /// Such as `18.4`.
    pub version: String,
    pub major: i32,
}

impl Programs {
    /// The newest that are found, as [`PrivatePostgres::start`] finds them.
    ///
    /// # Errors
    /// There are none that will do.
    pub fn find(bin_dir: Option<&Path>, tree_dirs: &[PathBuf]) -> Result<Self, PostgresError> {
        let account = Account::ourselves();
        let places = Places { configured: bin_dir, trees: tree_dirs };
        let Binaries { bin_dir, version } = Binaries::find(&places, None, &account)?;
        Ok(Self { bin_dir, version: version.text, major: version.major.cast_signed() })
    }
}

/// A running private server. Stop it with [`PrivatePostgres::stop`]; when it is only dropped the
/// server is asked to stop and nobody waits for it.
#[derive(Debug)]
pub struct PrivatePostgres {
    server: Arc<Server>,
    process: Arc<Mutex<Option<Started>>>,
    stop: CancellationToken,
    /// Released when everything else is down.
    _lock: Lock,
}

impl PrivatePostgres {
    /// Starts the server, creating the data at the first start, and returns when it accepts
    /// connections. A server that dies later is started again by a task of `tasks`, until their
    /// shutdown begins; the server itself outlives that shutdown, so that draining tasks still
    /// have their database.
    ///
    /// # Errors
    /// Each variant of [`PostgresError`] names its remedy.
    #[boxed]
    pub async fn start(settings: Settings, tasks: &Tasks) -> Result<Self, PostgresError> {
        let prepared = blocking(move || prepare(settings)).await?;
        let (server, lock) = (Arc::new(prepared.0), prepared.1);
        let stop = CancellationToken::new();
        let mut started = spawn(&server).await?;
        if let Err(error) = server.ready(&mut started, &stop).await {
            started.stop(&server.pgdata).await;
            return Err(error);
        }
        let process = Arc::new(Mutex::new(Some(started)));
        let supervisor = Supervisor {
            server: server.clone(),
            process: process.clone(),
            stop: stop.clone(),
            shutdown: tasks.token(),
        };
        tasks.spawn("private postgres", OnExit::ShutDown, supervisor.run());
        Ok(Self { server, process, stop, _lock: lock })
    }

    /// A connection URL of the superuser for the application's database.
    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// The same for another database of this server.
    pub fn url_of(&self, database: &str) -> String {
        socket::url(&self.server.socket_dir, SUPERUSER, database)
    }

    /// The same for those who have this server, and those who find it running.
    pub fn place(&self) -> Running {
        let Binaries { bin_dir, version } = self.server.binaries.clone();
        Running { socket_dir: self.server.socket_dir.clone(), bin_dir, version: version.text }
    }

    /// The version of the server, such as `18.4`.
    pub fn version(&self) -> &str {
        &self.server.binaries.version.text
    }

    /// The folder of the programs in use: `pg_dump` and `pg_restore` of the right version.
    pub fn bin_dir(&self) -> &Path {
        &self.server.binaries.bin_dir
    }

    /// Runs statements as the superuser in `database`, without results. For preparing databases,
    /// not for the application's own work.
    ///
    /// # Errors
    /// The server refused a statement, or cannot be reached.
    #[boxed]
    pub async fn run(&self, database: &str, sql: &str) -> Result<(), PostgresError> {
        Session::connect(&self.server.socket(), database).await?.run(sql).await
    }

    /// Stops the server and waits: open transactions are rolled back, then it is asked harder
    /// after 20 s. Afterwards the data directory is free for another process.
    #[boxed]
    pub async fn stop(self) -> Stopped {
        self.stop.cancel();
        let process = self.process.lock().await.take();
        let stopped = match process {
            Some(started) => started.stop(&self.server.pgdata).await,
            None => Stopped::Orderly,
        };
        // Empty unless the server was killed; then its next start cleans up the socket.
        let _ = fs::remove_dir(&self.server.socket_dir);
        stopped
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Starts the server again when it dies. Holds the process while it watches; gives it up as soon
/// as it is told to stop.
struct Supervisor {
    server: Arc<Server>,
    process: Arc<Mutex<Option<Started>>>,
    stop: CancellationToken,
    shutdown: CancellationToken,
}

impl Supervisor {
    async fn run(self) {
        let mut process = self.process.lock().await;
        let mut pause = RESTART_PAUSE.0;
        loop {
            if let Some(started) = process.as_mut() {
                tokio::select! {
                    () = self.told_to_end() => return,
                    status = started.child.wait() => {
                        tracing::error!(?status, "Postgres died: starting it again");
                    }
                }
                *process = None;
            }
            tokio::select! {
                () = self.told_to_end() => return,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(RESTART_PAUSE.1);
            match spawn(&self.server).await {
                Ok(started) => {
                    let started = process.insert(started);
                    match self.server.ready(started, &self.stop).await {
                        Ok(()) => {
                            tracing::info!("Postgres is back");
                            pause = RESTART_PAUSE.0;
                        }
                        Err(error) => report(&error),
                    }
                }
                Err(error) => report(&error),
            }
        }
    }

    async fn told_to_end(&self) {
        tokio::select! {
            () = self.stop.cancelled() => {}
            () = self.shutdown.cancelled() => {}
        }
    }
}

fn report(error: &PostgresError) {
    tracing::error!(error = error as &dyn std::error::Error, "Postgres could not be started again");
}

async fn spawn(server: &Arc<Server>) -> Result<Started, PostgresError> {
    let server = server.clone();
    blocking(move || server.spawn()).await
}

/// Runs file and process work off the runtime's own threads.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PostgresError> + Send + 'static,
) -> Result<T, PostgresError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// Everything up to the server process: lock, user, installation, data, socket folder.
fn prepare(settings: Settings) -> Result<(Server, Lock), PostgresError> {
    let Settings { data_dir, bin_dir, tree_dirs, shared_buffers_mb, max_connections } = settings;
    if !data_dir.is_dir() {
        // Others may pass through but not look: the server's own user has its folders inside.
        let mut folder = fs::DirBuilder::new();
        folder
            .recursive(true)
            .mode(0o711)
            .create(&data_dir)
            .map_err(PostgresError::io("create the data directory", &data_dir))?;
    }
    let data_dir =
        data_dir.canonicalize().map_err(PostgresError::io("find the data directory", &data_dir))?;
    let lock = take_lock(&data_dir)?;

    let pgdata = data_dir.join("postgres");
    let account = Account::choose(&pgdata)?;
    account.check_reach(&pgdata)?;
    let data_version = cluster::data_version(&pgdata)?;
    let places = Places { configured: bin_dir.as_deref(), trees: &tree_dirs };
    let data = data_version.map(|version| (data_dir.as_path(), version));
    let binaries = Binaries::find(&places, data, &account)?;

    if data_version.is_none() {
        tracing::info!(version = binaries.version.text, path = %pgdata.display(), "creating the database");
        cluster::create(&pgdata, &binaries, &account)?;
    }
    let socket_dir = socket::folder(&data_dir, &account)?;
    let log = data_dir.join("postgres.log");
    let server =
        Server { binaries, account, pgdata, log, socket_dir, shared_buffers_mb, max_connections };
    Ok((server, lock))
}

/// The lock on a data directory. The operating system releases it with our death, however we die.
#[derive(Debug)]
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it is not enough: a process that is being spawned has it, too, for a moment.
        let _closed_soon = self.0.unlock();
    }
}

fn take_lock(data_dir: &Path) -> Result<Lock, PostgresError> {
    let path = data_dir.join("lock");
    let failed = || PostgresError::io("lock", &path);
    let mut options = File::options();
    let mut lock =
        options.read(true).write(true).create(true).truncate(false).open(&path).map_err(failed())?;
    match lock.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut pid = String::new();
            let _ = lock.read_to_string(&mut pid);
            let pid = pid.trim().to_owned();
            return Err(PostgresError::AlreadyRunning { data_dir: data_dir.to_owned(), pid });
        }
        Err(TryLockError::Error(error)) => return Err(failed()(error)),
    }
    lock.set_len(0)
        .and_then(|()| lock.rewind())
        .and_then(|()| writeln!(lock, "{}", std::process::id()))
        .map_err(failed())?;
    Ok(Lock(lock))
}

/// How the operating system says it, which Postgres repeats, and how Postgres says it when only
/// part of a page found room.
fn is_disk_full(said: &str) -> bool {
    const WORDS: [&str; 4] = [
        "No space left on device",
        "Disk quota exceeded",
        "Check free disk space",
        ": wrote only ",
    ];
    WORDS.iter().any(|words| said.contains(words))
}
