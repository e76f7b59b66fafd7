//! A private server that another process of ours has started: where it is, for who may look.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use super::binaries::ask;
use super::error::PostgresError;
use super::version::Version;
use super::{DATABASE, SUPERUSER, socket};

/// Where a running private server is reached, and with which programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The folder of its socket, which only its own user and root can enter.
    pub socket_dir: PathBuf,
    /// `pg_dump` and `pg_restore` of the right version.
    pub bin_dir: PathBuf,
    /// Such as `18.4`.
    pub version: String,
}

impl Running {
    /// The superuser.
    pub const USER: &'static str = SUPERUSER;
    /// The database of the application.
    pub const DATABASE: &'static str = DATABASE;

    /// The server of the process that works on a data directory; `None` when nobody does.
    ///
    /// # Errors
    /// Somebody does, but the server is not there, or not yet.
    pub fn find(data_dir: &Path) -> Result<Option<Self>, PostgresError> {
        let path = data_dir.join("lock");
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(PostgresError::io("open", &path)(error)),
        };
        match lock.try_lock_shared() {
            // A start that comes in this very moment finds it free again.
            Ok(()) => {
                let _closed_soon = lock.unlock();
                return Ok(None);
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(PostgresError::io("lock", &path)(error)),
        }
        let pgdata = data_dir.join("postgres");
        let found = Self::described(&pgdata);
        let not_reachable = || PostgresError::NotReachable { data_dir: data_dir.to_owned() };
        found.map(Some).ok_or_else(not_reachable)
    }

    /// By the files that a server leaves in its data while it runs.
    fn described(pgdata: &Path) -> Option<Self> {
        let pid = fs::read_to_string(pgdata.join("postmaster.pid")).ok()?;
        let started = fs::read_to_string(pgdata.join("postmaster.opts")).ok()?;
        let (socket_dir, program) = (socket_of(&pid)?, program_of(&started)?);
        let version = Version::parse(&ask(&program, "--version").ok()?)?;
        Some(Self { socket_dir, bin_dir: program.parent()?.to_owned(), version: version.text })
    }

    /// A connection URL of the superuser.
    pub fn url_of(&self, database: &str) -> String {
        socket::url(&self.socket_dir, SUPERUSER, database)
    }
}

/// The fifth line, once the eighth says that it takes connections.
fn socket_of(pid_file: &str) -> Option<PathBuf> {
    let mut lines = pid_file.lines();
    let socket_dir = lines.nth(4)?;
    let ready = lines.nth(2)?.trim() == "ready";
    (ready && socket_dir.starts_with('/')).then(|| PathBuf::from(socket_dir))
}

/// The program stands first, and its first argument in quotes.
fn program_of(options: &str) -> Option<PathBuf> {
    let (program, _) = options.split_once(" \"-D\"")?;
    program.starts_with('/').then(|| PathBuf::from(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_by_what_it_left_in_its_data() {
        let pid = "4711\n/data/postgres\n1764023429\n5432\n/data dir/run\n\n  12 34\nready   \n";
        assert_eq!(socket_of(pid), Some(PathBuf::from("/data dir/run")));
        assert_eq!(socket_of(&pid.replace("ready", "starting")), None);
        assert_eq!(socket_of("4711\n"), None);
        let options = "/my tree/bin/postgres \"-D\" \"/data/postgres\" \"-c\" \"a=b\"\n";
        assert_eq!(program_of(options), Some(PathBuf::from("/my tree/bin/postgres")));
        assert_eq!(program_of("postgres\n"), None);
    }

    #[test]
    fn where_nobody_works_nothing_runs() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Running::find(folder.path()).unwrap(), None);
        let lock = File::create(folder.path().join("lock")).unwrap();
        assert_eq!(Running::find(folder.path()).unwrap(), None);
        lock.lock().unwrap();
        let error = Running::find(folder.path()).unwrap_err().to_string();
        assert!(error.contains("try again in a moment"), "{error}");
    }
}
