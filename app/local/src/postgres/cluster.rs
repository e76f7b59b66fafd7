//! The data directory: made whole or not at all.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;
use super::binaries::Binaries;
use super::error::PostgresError;
use super::{SUPERUSER, is_disk_full};

/// The first version with locale rules of its own instead of the operating system's.
const BUILTIN_LOCALE_MAJOR: u32 = 17;

/// Only the socket, whose folder is closed to everybody but the user of the server and root.
const PG_HBA: &str = "local all all trust\n";

/// The major version that wrote the data, or `None` where none exist yet.
pub(super) fn data_version(pgdata: &Path) -> Result<Option<u32>, PostgresError> {
    let not_data = || PostgresError::NotData { path: pgdata.to_owned() };
    match fs::read_to_string(pgdata.join("PG_VERSION")) {
        Ok(version) => version.trim().parse().map(Some).map_err(|_| not_data()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = match pgdata.read_dir() {
                Ok(entries) => entries,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(PostgresError::io("read the folder", pgdata)(error)),
            };
            if entries.next().is_some() { Err(not_data()) } else { Ok(None) }
        }
        Err(error) => Err(PostgresError::io("read the version of", pgdata)(error)),
    }
}

/// Creates the data directory under another name and renames it when it is complete, so that an
/// interrupted attempt leaves nothing that looks like data.
pub(super) fn create(
    pgdata: &Path,
    binaries: &Binaries,
    account: &Account,
) -> Result<(), PostgresError> {
    let parent = pgdata.parent().unwrap_or(pgdata);
    discard_attempts(pgdata, parent)?;
    let attempt = attempt_name(pgdata, &std::process::id().to_string());
    account.own_folder(&attempt)?;
    let made = initdb(&attempt, binaries, account).and_then(|()| {
        let rules = attempt.join("pg_hba.conf");
        fs::write(&rules, PG_HBA).map_err(PostgresError::io("write", &rules))?;
        sync(&rules)?;
        fs::rename(&attempt, pgdata).map_err(PostgresError::io("put in place", pgdata))?;
        sync(parent)
    });
    if made.is_err() {
        let _ = fs::remove_dir_all(&attempt);
    }
    made
}

fn initdb(dir: &Path, binaries: &Binaries, account: &Account) -> Result<(), PostgresError> {
    let mut command = Command::new(binaries.program("initdb"));
    account.apply(&mut command);
    command.arg("--pgdata").arg(dir).args([
        "--username",
        SUPERUSER,
        "--auth=trust",
        "--encoding=UTF8",
        // Messages and sort order that do not change with the machine; letters of all alphabets.
        "--locale=C",
        "--lc-ctype=C.UTF-8",
        "--text-search-config=simple",
        "--data-checksums",
        "--no-instructions",
    ]);
    if binaries.version.major >= BUILTIN_LOCALE_MAJOR {
        command.args(["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]);
    }
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(PostgresError::io("run", &binaries.program("initdb")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(why(&String::from_utf8_lossy(&output.stderr), dir, account))
}

/// What `initdb` complains about.
fn why(said: &str, dir: &Path, account: &Account) -> PostgresError {
    let (said, path) = (said.trim().to_owned(), dir.to_owned());
    if is_disk_full(&said) {
        PostgresError::DiskFull { path }
    } else if said.contains("could not look up effective user ID") {
        PostgresError::Nameless { uid: account.uid }
    } else {
        PostgresError::Initdb { path, said }
    }
}

/// Removes what interrupted attempts left. A fresh name is used for each attempt because an
/// `initdb` whose parent was killed may still be writing into the old one.
fn discard_attempts(pgdata: &Path, parent: &Path) -> Result<(), PostgresError> {
    let prefix = attempt_name(pgdata, "");
    let entries = parent.read_dir().map_err(PostgresError::io("read the folder", parent))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        if path.to_string_lossy().starts_with(&*prefix.to_string_lossy())
            && let Err(error) = fs::remove_dir_all(&path)
        {
            tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished database");
        }
    }
    if pgdata.exists() {
        // Empty, or data_version would have refused it; rename cannot replace it for another user.
        fs::remove_dir(pgdata).map_err(PostgresError::io("replace the empty folder", pgdata))?;
    }
    Ok(())
}

fn attempt_name(pgdata: &Path, attempt: &str) -> PathBuf {
    pgdata.with_extension(format!("unfinished-{attempt}"))
}

fn sync(path: &Path) -> Result<(), PostgresError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(PostgresError::io("bring to disk", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_initdb_complains_about_comes_with_a_remedy() {
        let mut account = Account::ourselves();
        account.uid = 47110;
        let check = |said: &str, expected: &str| {
            let told = why(said, Path::new("/data/pg"), &account).to_string();
            assert!(told.contains(expected), "{told}");
        };
        // As it says it.
        check(
            "initdb: could not look up effective user ID 47110: user does not exist\n",
            "`useradd --uid 47110 famulus`",
        );
        check("could not write: No space left on device", "free some space");
        check("something else", "initdb could not create the database in /data/pg: something else");
    }
}
