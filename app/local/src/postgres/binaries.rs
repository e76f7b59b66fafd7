//! Finding a Postgres installation that will do.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::Account;
use super::error::{Looked, PostgresError, Why};
use super::version::{OLDEST_MAJOR, Version};

/// Where Debian and its children put each version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// An installation that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Binaries {
    pub(super) bin_dir: PathBuf,
    pub(super) version: Version,
}

/// What is searched, in order.
pub(super) struct Places<'a> {
    /// Used or refused, never passed over.
    pub(super) configured: Option<&'a Path>,
    /// Each is a tree (with a `bin` folder) or holds trees named `postgres-*`.
    pub(super) trees: &'a [PathBuf],
}

impl Binaries {
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// The first usable installation: the configured one; else one of this machine; else an
    /// unpacked tree. Where data exist, one of their major version is preferred over the order.
    pub(super) fn find(
        places: &Places<'_>,
        data: Option<(&Path, u32)>,
        account: &Account,
    ) -> Result<Self, PostgresError> {
        let mut looked = Vec::new();
        let mut usable = Vec::new();
        if let Some(bin_dir) = places.configured {
            let binaries = Self::inspect(bin_dir, account).map_err(|why| {
                let place = bin_dir.display().to_string();
                PostgresError::ConfiguredUnusable { looked: Looked { place, why } }
            })?;
            usable.push(binaries);
        } else {
            for place in host_places().chain(places.trees.iter().flat_map(|dir| trees_in(dir))) {
                match Self::inspect(&place, account) {
                    Ok(binaries) => usable.push(binaries),
                    Err(why) => looked.push(Looked { place: place.display().to_string(), why }),
                }
            }
        }
        let Some(first) = usable.first().cloned() else {
            return Err(PostgresError::NotFound { looked });
        };
        let Some((data_dir, major)) = data else { return Ok(first) };
        let offered = first.version.text;
        usable.into_iter().find(|binaries| binaries.version.major == major).ok_or_else(|| {
            PostgresError::DataVersion { data_dir: data_dir.to_owned(), data: major, offered }
        })
    }

    fn inspect(bin_dir: &Path, account: &Account) -> Result<Self, Why> {
        let postgres = bin_dir.join("postgres");
        if !postgres.is_file() || !bin_dir.join("initdb").is_file() {
            return Err(Why::Missing);
        }
        let bin_dir = bin_dir.canonicalize().map_err(|error| Why::Broken(error.to_string()))?;
        if account.blocked_at(&bin_dir.join("postgres")).is_some() {
            return Err(Why::Unreachable { user: account.name.clone() });
        }
        let version = ask(&postgres, "--version").map_err(Why::Broken)?;
        let version = Version::parse(&version).ok_or(Why::Broken(version))?;
        if version.major < OLDEST_MAJOR {
            return Err(Why::TooOld(version.text));
        }
        let has_vector = |share: PathBuf| share.join("extension").join("vector.control").is_file();
        if !share_folders(&bin_dir, &version).into_iter().any(has_vector) {
            return Err(Why::NoVector(version.text));
        }
        Ok(Self { bin_dir, version })
    }
}

/// What `pg_config` on the path names, then Debian's folders, newest first.
fn host_places() -> impl Iterator<Item = PathBuf> {
    let configured = ask(Path::new("pg_config"), "--bindir").ok().map(PathBuf::from);
    let mut debian: Vec<(u32, PathBuf)> = folders_in(Path::new(DEBIAN))
        .filter_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir.join("bin"))))
        .collect();
    debian.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    let first = configured.clone();
    first.into_iter().chain(
        debian.into_iter().map(|(_, dir)| dir).filter(move |dir| Some(dir) != configured.as_ref()),
    )
}

/// The `bin` folders of the trees in `dir`, or of `dir` itself, so that a place where nothing is
/// shows up in the list of places too.
fn trees_in(dir: &Path) -> Vec<PathBuf> {
    let mut trees: Vec<(Vec<u32>, PathBuf)> =
        folders_in(dir).filter_map(|tree| Some((tree_version(&tree)?, tree))).collect();
    trees.sort();
    trees.reverse();
    if trees.is_empty() {
        return vec![dir.join("bin")];
    }
    trees.into_iter().map(|(_, tree)| tree.join("bin")).collect()
}

/// The numbers in `postgres-18.4-…`.
fn tree_version(tree: &Path) -> Option<Vec<u32>> {
    let version = tree.file_name()?.to_str()?.strip_prefix("postgres-")?.split('-').next()?;
    version.split('.').map(|number| number.parse().ok()).collect()
}

fn folders_in(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = dir.read_dir().into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir())
}

/// Where the extensions of this installation may be described.
fn share_folders(bin_dir: &Path, version: &Version) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    if let Ok(share) = ask(&bin_dir.join("pg_config"), "--sharedir") {
        folders.push(PathBuf::from(share));
    }
    if let Some(root) = bin_dir.parent() {
        folders.push(root.join("share").join("postgresql"));
        folders.push(root.join("share"));
    }
    folders.push(Path::new("/usr/share/postgresql").join(version.major.to_string()));
    folders
}

/// The first line that a program prints.
pub(super) fn ask(program: &Path, question: &str) -> Result<String, String> {
    let output = Command::new(program)
        .arg(question)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| error.to_string())?;
    let said = if output.status.success() { &output.stdout } else { &output.stderr };
    let line = String::from_utf8_lossy(said).lines().next().unwrap_or_default().trim().to_owned();
    if output.status.success() { Ok(line) } else { Err(line) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// A folder with programs that state a version, and with pgvector or without.
    fn installation(root: &Path, version: &str, vector: bool) -> PathBuf {
        let (bin, extension) = (root.join("bin"), root.join("share/extension"));
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(&extension).unwrap();
        for program in ["postgres", "initdb"] {
            let script = format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n");
            fs::write(bin.join(program), script).unwrap();
            fs::set_permissions(bin.join(program), fs::Permissions::from_mode(0o755)).unwrap();
        }
        if vector {
            fs::write(extension.join("vector.control"), "").unwrap();
        }
        bin
    }

    #[test]
    fn the_configured_installation_is_used_or_refused_with_a_reason() {
        let root = tempfile::tempdir().unwrap();
        let account = Account::choose(root.path()).unwrap();
        let find = |bin_dir: &Path, data| {
            let places = Places { configured: Some(bin_dir), trees: &[] };
            Binaries::find(&places, data, &account)
                .map(|binaries| binaries.version.text)
                .map_err(|error| error.to_string())
        };
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let old = installation(&root.path().join("old"), "14.9", true);
        let bare = installation(&root.path().join("bare"), "17.2", false);
        let good = installation(&root.path().join("good"), "18.4", true);
        let refused = |bin_dir, words: &str| {
            let error = find(bin_dir, None).unwrap_err();
            assert!(error.contains(words), "{error}");
        };
        refused(&old, "(version 14.9, but 15 or newer is needed)");
        refused(&bare, "(version 17.2, but without pgvector)");
        refused(root.path(), "(no postgres and initdb there)");
        assert_eq!(find(&good, None), Ok("18.4".to_owned()));
        assert_eq!(find(&good, Some((root.path(), 18))), Ok("18.4".to_owned()));
        let error = find(&good, Some((root.path(), 17))).unwrap_err();
        assert!(error.contains("written by Postgres 17, but only Postgres 18.4"), "{error}");
    }

    #[test]
    fn trees_are_found_newest_first_and_an_empty_place_is_named() {
        let root = tempfile::tempdir().unwrap();
        for tree in ["postgres-18.4-aa", "postgres-18.10-bb", "postgres-x", "other"] {
            fs::create_dir(root.path().join(tree)).unwrap();
        }
        let under = |path: &str| root.path().join(path);
        assert_eq!(
            trees_in(root.path()),
            [under("postgres-18.10-bb/bin"), under("postgres-18.4-aa/bin")]
        );
        assert_eq!(trees_in(&under("other")), [under("other/bin")]);
    }
}
