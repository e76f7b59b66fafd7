//! The folder of the server's socket, and the URL that leads there.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::PORT;
use super::account::Account;
use super::error::PostgresError;

/// What the kernel takes in the address of a Unix socket, without the closing zero byte.
const LONGEST_ADDRESS: usize = 107;

/// Makes the folder, closed to everybody but the server's user: `run` in the data directory, or
/// where that path is too long for a socket, one in the folder for temporary files whose name is
/// derived from the data directory.
pub(super) fn folder(data_dir: &Path, account: &Account) -> Result<PathBuf, PostgresError> {
    let inside = data_dir.join("run");
    let folder = if fits(&inside) { inside } else { elsewhere(data_dir, account.uid) };
    account.own_folder(&folder)?;
    account.check_reach(&folder)?;
    Ok(folder)
}

/// A URL for `user` in `database`, over the socket in `folder`.
pub(super) fn url(folder: &Path, user: &str, database: &str) -> String {
    format!("postgres://{user}@localhost:{PORT}/{database}?host={}", percent_encoded(folder))
}

fn fits(folder: &Path) -> bool {
    folder.join(format!(".s.PGSQL.{PORT}")).as_os_str().len() <= LONGEST_ADDRESS
}

fn elsewhere(data_dir: &Path, uid: u32) -> PathBuf {
    let name = format!("famulus-{uid}-{:016x}", fnv1a(data_dir.as_os_str().as_bytes()));
    let chosen = std::env::temp_dir().join(&name);
    if fits(&chosen) { chosen } else { Path::new("/tmp").join(name) }
}

/// The same in every process and version, which the standard library's hashes do not promise.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn percent_encoded(path: &Path) -> String {
    let encode = |byte: &u8| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(byte) {
            char::from(*byte).to_string()
        } else {
            format!("%{byte:02X}")
        }
    };
    path.as_os_str().as_bytes().iter().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_carry_any_path() {
        assert_eq!(
            url(Path::new("/var/lib/my data/run"), "postgres", "famulus"),
            "postgres://postgres@localhost:5432/famulus?host=%2Fvar%2Flib%2Fmy%20data%2Frun"
        );
    }

    #[test]
    fn long_paths_get_a_short_stable_place_of_their_own() {
        let long = PathBuf::from(format!("/{}", "x".repeat(200)));
        assert!(!fits(&long.join("run")));
        assert!(fits(&elsewhere(&long, 1000)));
        assert_eq!(elsewhere(&long, 1000), elsewhere(&long, 1000));
        assert_ne!(elsewhere(&long, 1000), elsewhere(&long.join("y"), 1000));
    }
}
