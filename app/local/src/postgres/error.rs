//! Why the private Postgres does not run, and what to do about it.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::version::OLDEST_MAJOR;

/// Why the private Postgres could not be started or used.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No usable installation anywhere.
    #[error(
        "no Postgres {OLDEST_MAJOR} or newer with the vector extension (pgvector) was found; \
         looked at: {}; fetch one with `cargo xtask postgres`, install one with pgvector on this \
         machine, or set DATABASE_URL to a server that has both",
        list(looked)
    )]
    NotFound { looked: Vec<Looked> },
    /// The configured installation cannot be used. Nothing else is tried in its place.
    #[error(
        "the configured Postgres cannot be used: {looked}; point bin_dir to the bin folder of \
         Postgres {OLDEST_MAJOR} or newer with pgvector, or remove the setting to have one searched for"
    )]
    ConfiguredUnusable { looked: Looked },
    /// The data were written by another major version.
    #[error(
        "the data in {} were written by Postgres {data}, but only Postgres {offered} is here; set \
         bin_dir to the bin folder of a Postgres {data} with pgvector, or dump the data with the \
         old version and restore them into a new data directory",
        data_dir.display()
    )]
    DataVersion { data_dir: PathBuf, data: u32, offered: String },
    /// Another process works on this data directory.
    #[error(
        "another famulus (process {pid}) is using {}; stop it first, or choose another data directory",
        data_dir.display()
    )]
    AlreadyRunning { data_dir: PathBuf, pid: String },
    /// Another process works on this data directory, and its server is not there to be asked.
    #[error(
        "another famulus is using {}, but its Postgres takes no connections now; it may be starting \
         or stopping: try again in a moment",
        data_dir.display()
    )]
    NotReachable { data_dir: PathBuf },
    /// The user under which the server runs cannot get to a path.
    #[error(
        "user {user:?}, under which Postgres runs because it refuses root, cannot reach {}: {} is \
         closed to it; run `chmod o+x {}`, or choose a place such as /var/lib/famulus",
        path.display(), blocked_at.display(), blocked_at.display()
    )]
    Unreachable { path: PathBuf, blocked_at: PathBuf, user: String },
    /// Postgres refuses to run as root and no other user exists.
    #[error(
        "Postgres refuses to run as root, and there is no user famulus, postgres or nobody to run \
         it as; create one with `useradd --system famulus`"
    )]
    NoUnprivilegedUser,
    /// The user under which the server would run is a number alone.
    #[error(
        "Postgres wants a name for the user that it runs as, and user id {uid} has none here; make one with \
         `useradd --uid {uid} famulus` as root, or set DATABASE_URL to a server elsewhere"
    )]
    Nameless { uid: u32 },
    /// The data belong to someone else.
    #[error(
        "{} belongs to user id {owner}, but this process runs as user id {user}; start famulus as \
         the owner, or give the directory over with `chown -R {user} {}`",
        path.display(), path.display()
    )]
    Owner { path: PathBuf, owner: u32, user: u32 },
    /// There is something in the place of the data that is not a Postgres data directory.
    #[error(
        "{} exists but holds no Postgres data; move it away or choose another data directory",
        path.display()
    )]
    NotData { path: PathBuf },
    /// The file system is full.
    #[error(
        "the disk that holds {} is full; nothing was lost: free some space (a new database needs \
         about 60 MB) and start again",
        path.display()
    )]
    DiskFull { path: PathBuf },
    /// Creating the data directory failed.
    #[error("initdb could not create the database in {}: {said}", path.display())]
    Initdb { path: PathBuf, said: String },
    /// The server ended instead of coming up.
    #[error("Postgres did not start: {said}; its log is {}", log.display())]
    Start { said: String, log: PathBuf },
    /// The server lives but does not accept connections.
    #[error(
        "Postgres did not accept connections within {seconds} s; its log is {}",
        log.display()
    )]
    NotReady { seconds: u64, log: PathBuf },
    /// Processes of an earlier run are still there and do not end.
    #[error(
        "processes of an earlier Postgres still use {} and do not end, even when killed: {pids:?}; \
         restart the machine or choose another data directory",
        path.display()
    )]
    Leftovers { path: PathBuf, pids: Vec<i32> },
    /// The operating system refused something.
    #[error("could not {doing} {}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    /// The server refused a connection or a statement.
    #[error("Postgres refused in database {database:?}: {message} (SQLSTATE {code})")]
    Refused { database: String, message: String, code: String },
    /// Talking to the server broke off.
    #[error("the connection to Postgres at {} broke off", socket.display())]
    Connection { socket: PathBuf, source: io::Error },
}

impl PostgresError {
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| {
            if source.kind() == io::ErrorKind::StorageFull {
                Self::DiskFull { path }
            } else {
                Self::Io { doing, path, source }
            }
        }
    }
}

/// One place that was searched, and why it will not do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Looked {
    /// The folder, or the way of finding one.
    pub place: String,
    /// What was wrong there.
    pub why: Why,
}

/// Why an installation cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// There is no complete server there.
    Missing,
    /// The program does not run; holds what it said.
    Broken(String),
    /// The version that was found.
    TooOld(String),
    /// The version that was found, without pgvector.
    NoVector(String),
    /// The unprivileged user of the server cannot get there.
    Unreachable { user: String },
}

impl fmt::Display for Looked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.place)?;
        match &self.why {
            Why::Missing => write!(f, "(no postgres and initdb there)"),
            Why::Broken(said) => write!(f, "(postgres does not run: {said})"),
            Why::TooOld(version) => {
                write!(f, "(version {version}, but {OLDEST_MAJOR} or newer is needed)")
            }
            Why::NoVector(version) => write!(f, "(version {version}, but without pgvector)"),
            Why::Unreachable { user } => write!(f, "(user {user:?} cannot reach it)"),
        }
    }
}

fn list(looked: &[Looked]) -> String {
    looked.iter().map(Looked::to_string).collect::<Vec<_>>().join(", ")
}
