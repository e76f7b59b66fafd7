//! `uv`, by which Python plugins have their packages: found on this machine, or fetched when it is needed.
//!
//! ```text
//! FOLDER/uv-0.13.9-d7f459fe/bin/uv    fetched: pinned, checked, under this name only when it is whole
//! FOLDER/.fetching                    one that is being fetched
//! ```
//!
//! Nothing is fetched before somebody asks for it, and what cannot be fetched is said to whoever asked.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use famulus_lifecycle::boxed;
use parking_lot::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::wheel::{UNPACKED, Wheel, WheelError};

const PACKAGE: &str = "uv==0.13.9";

static WHEELS: [Wheel; 2] = [
    Wheel {
        package: PACKAGE,
        arch: "x86_64",
        platform: "manylinux_2_17_x86_64",
        sha256: "d7f459fe4fd247d830351c75686d3996ace3c6f3f728eb0e85a30b7ada0cef19",
    },
    Wheel {
        package: PACKAGE,
        arch: "aarch64",
        platform: "manylinux_2_28_aarch64",
        sha256: "ecb6028d79dc96fbeafffe5c8af62a7099487ebc05a701e76714eebcffd06375",
    },
];

/// It knows `uv sync --script`.
const OLDEST: (u32, u32) = (0, 8);

const PROGRAMS: [&str; 2] = ["uv", "uvx"];

/// How long fetching may take, and unpacking; and how long one may take to say its version.
const PATIENCE: Duration = Duration::from_mins(5);
const ANSWER: Duration = Duration::from_secs(10);

/// Letters of what pip said that are passed on.
const SAID: usize = 400;

/// Why there is no `uv`.
#[derive(Debug, thiserror::Error)]
pub enum UvError {
    #[error(
        "uv is not ready-made for {arch}; install uv {}.{} or newer on this machine, on the PATH of famulus",
        OLDEST.0, OLDEST.1
    )]
    NoWheel { arch: &'static str },
    #[error(
        "uv cannot be fetched: {program} {how}; see whether this machine reaches the Python registry and has \
         pip (on Debian: `apt-get install python3-pip`), or install uv {}.{} or newer on the PATH of famulus",
        OLDEST.0, OLDEST.1
    )]
    Program { program: &'static str, how: String },
    #[error("uv cannot be fetched")]
    Wheel(#[from] WheelError),
    #[error("uv cannot be kept in {path}; see whether there is room, and who owns the folder")]
    Folder { path: PathBuf, source: io::Error },
}

/// What is known of where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Looked {
    NotYet,
    Nowhere,
    Found(PathBuf),
}

/// The `uv` of this machine.
#[derive(Debug)]
pub struct Uv {
    /// Where it is kept once it was fetched.
    folder: PathBuf,
    /// Folders that may hold trees named `uv-*`.
    trees: Vec<PathBuf>,
    /// Where programs are searched for.
    path: OsString,
    /// Held for single operations, never across an await.
    looked: Mutex<Looked>,
    fetching: tokio::sync::Mutex<()>,
}

/// The package that is fetched on this machine, if there is one.
pub fn wheel() -> Option<&'static Wheel> {
    Wheel::of_this_machine(&WHEELS)
}

impl Uv {
    pub fn new(folder: PathBuf, trees: Vec<PathBuf>, path: OsString) -> Self {
        let (looked, fetching) = (Mutex::new(Looked::NotYet), tokio::sync::Mutex::default());
        Self { folder, trees, path, looked, fetching }
    }

    /// The program, where it is here already.
    #[boxed]
    pub async fn at_hand(&self) -> Option<PathBuf> {
        let looked = self.looked.lock().clone();
        match looked {
            Looked::Found(path) if path.is_file() => Some(path),
            Looked::Nowhere => None,
            Looked::Found(_) | Looked::NotYet => self.look().await,
        }
    }

    /// The program. Where it is not here, it is fetched.
    ///
    /// # Errors
    /// It cannot be fetched: why, and what to do about it.
    #[boxed]
    pub async fn obtain(&self) -> Result<PathBuf, UvError> {
        let _one = self.fetching.lock().await;
        if let Some(found) = self.look().await {
            return Ok(found);
        }
        let fetched = self.fetch().await?;
        *self.looked.lock() = Looked::Found(fetched.clone());
        Ok(fetched)
    }

    /// What was fetched comes first: of that nothing has to be asked.
    async fn look(&self) -> Option<PathBuf> {
        let fetched = wheel().map(|wheel| program(&self.tree(wheel)));
        let mut found = fetched.filter(|fetched| fetched.is_file());
        if found.is_none() {
            for place in self.places() {
                if is_new_enough(&place).await {
                    found = Some(place);
                    break;
                }
            }
        }
        let looked = found.clone().map_or(Looked::Nowhere, Looked::Found);
        *self.looked.lock() = looked;
        found
    }

    /// The programs that might do, without what leads to another one: a sandbox is shown the program itself.
    fn places(&self) -> Vec<PathBuf> {
        let on_path = std::env::split_paths(&self.path).map(|folder| folder.join("uv"));
        let trees = self.trees.iter().chain([&self.folder]).flat_map(|folder| trees_in(folder));
        let places = on_path.chain(trees.map(|tree| program(&tree)));
        places
            .filter_map(|place| place.canonicalize().ok())
            .filter(|place| is_binary(place))
            .collect()
    }

    fn tree(&self, wheel: &Wheel) -> PathBuf {
        self.folder.join(format!("{}-{}", wheel.stem(), &wheel.sha256[..8]))
    }

    async fn fetch(&self) -> Result<PathBuf, UvError> {
        let Some(wheel) = wheel() else {
            return Err(UvError::NoWheel { arch: std::env::consts::ARCH });
        };
        tracing::info!(package = wheel.package, "uv is fetched, once");
        let (tree, work) = (self.tree(wheel), self.folder.join(".fetching"));
        let (emptied, made) = (work.clone(), work.join("tree"));
        blocking(&work, move || {
            remove(&emptied)?;
            DirBuilder::new().recursive(true).mode(0o755).create(&emptied)
        })
        .await?;
        let mut pip = wheel.download(&work);
        // Somebody waits for it.
        pip.args(["--quiet", "--retries", "1", "--timeout", "20"]);
        run("pip", pip).await?;
        let from = work.clone();
        let file = spawn_blocking(move || wheel.downloaded(&from)).await;
        let file = file.map_err(|error| folder(&work)(io::Error::other(error)))??;
        run("python3", Wheel::unpack(&file)).await?;
        let (from, to) = (work.clone(), tree.clone());
        blocking(&tree, move || {
            arrange(wheel, &from.join(UNPACKED), &made)?;
            fs::rename(&made, &to)?;
            remove(&from)
        })
        .await?;
        Ok(program(&tree))
    }
}

/// Moves what is kept of an unpacked wheel to `tree`, and gives it its permissions, which an archive of this
/// kind does not carry.
///
/// # Errors
/// It does not look as expected, or cannot be moved.
pub fn arrange(wheel: &Wheel, unpacked: &Path, tree: &Path) -> io::Result<()> {
    let (bin, doc) = (tree.join("bin"), tree.join("share/doc"));
    for folder in [&bin, &doc] {
        DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    }
    let scripts = unpacked.join(format!("{}.data/scripts", wheel.stem()));
    for name in PROGRAMS {
        fs::set_permissions(scripts.join(name), Permissions::from_mode(0o755))?;
        fs::rename(scripts.join(name), bin.join(name))?;
    }
    fs::rename(unpacked.join(format!("{}.dist-info/licenses", wheel.stem())), doc.join("uv"))
}

fn program(tree: &Path) -> PathBuf {
    tree.join("bin").join("uv")
}

/// Trees of `uv` in a folder.
fn trees_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let named = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("uv-"));
    named.map(|entry| entry.path()).collect()
}

/// Whether the file is a program of the ELF format: what is none would need programs that a sandbox lacks.
fn is_binary(path: &Path) -> bool {
    let mut magic = [0; 4];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

async fn is_new_enough(program: &Path) -> bool {
    let mut ask = tokio::process::Command::new(program);
    ask.arg("--version").current_dir("/").stdin(Stdio::null()).kill_on_drop(true);
    let answer = timeout(ANSWER, ask.output()).await;
    let said = answer.ok().and_then(Result::ok).filter(|said| said.status.success());
    said.and_then(|said| version(&String::from_utf8_lossy(&said.stdout)))
        .is_some_and(|version| version >= OLDEST)
}

/// The first two numbers of `uv 0.13.9 (…)`.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.strip_prefix("uv ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Runs a program of this machine, and gives the end of what it said where it fails.
async fn run(name: &'static str, command: Command) -> Result<(), UvError> {
    let failed = |how: String| UvError::Program { program: name, how };
    let mut command = tokio::process::Command::from(command);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
    let output = match timeout(PATIENCE, command.output()).await {
        Ok(output) => output.map_err(|error| failed(format!("cannot be started ({error})")))?,
        Err(_late) => return Err(failed(format!("was not done after {} s", PATIENCE.as_secs()))),
    };
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim();
    let from = said.ceil_char_boundary(said.len().saturating_sub(SAID));
    Err(failed(format!("ended with {} and said: {}", output.status, &said[from..])))
}

async fn blocking(
    path: &Path,
    work: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> Result<(), UvError> {
    let done = spawn_blocking(work).await.map_err(io::Error::other);
    done.flatten().map_err(folder(path))
}

fn folder(path: &Path) -> impl FnOnce(io::Error) -> UvError {
    let path = path.to_owned();
    move |source| UvError::Folder { path, source }
}

/// Removes a folder, if it is there.
fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a program at a place: a script, or one that is executed by itself.
    fn put(place: &Path, what: &[u8]) {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, what).unwrap();
        fs::set_permissions(place, Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn versions_are_told_apart() {
        assert_eq!(version("uv 0.13.9 (abc 2026-01-01)\n"), Some((0, 13)));
        assert!(version("uv 0.7.22").unwrap() < OLDEST);
        assert!(version("uv 1.0.0").unwrap() > OLDEST);
        assert_eq!(version("true (GNU coreutils) 9.7"), None);
    }

    #[tokio::test]
    async fn what_was_fetched_is_found_and_what_is_no_uv_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (kept, bin) = (folder.path().join("programs"), folder.path().join("bin"));
        let find = || Uv::new(kept.clone(), Vec::new(), bin.clone().into_os_string());
        assert_eq!(find().at_hand().await, None);
        // A script that would lead elsewhere, and a program that is another one.
        put(&bin.join("uv"), b"#!/bin/sh\necho uv 0.13.9\n");
        assert_eq!(find().at_hand().await, None);
        put(&bin.join("uv"), &fs::read("/bin/true").unwrap());
        assert_eq!(find().at_hand().await, None);

        let Some(wheel) = wheel() else { return };
        let uv = find();
        let fetched = program(&uv.tree(wheel));
        put(&fetched, b"any");
        assert_eq!(uv.at_hand().await, Some(fetched.clone()));
        // Nothing is fetched where it is there already.
        assert_eq!(uv.obtain().await.unwrap(), fetched);
        fs::remove_file(&fetched).unwrap();
        assert_eq!(uv.at_hand().await, None, "one that is gone is shown to nobody");
    }

    #[test]
    fn of_a_wheel_the_programs_and_their_licences_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let Some(wheel) = wheel() else { return };
        let (unpacked, tree) = (folder.path().join("unpacked"), folder.path().join("tree"));
        for name in PROGRAMS {
            put(&unpacked.join(format!("{}.data/scripts/{name}", wheel.stem())), b"x");
        }
        fs::create_dir_all(unpacked.join(format!("{}.dist-info/licenses", wheel.stem()))).unwrap();
        arrange(wheel, &unpacked, &tree).unwrap();
        let mode = fs::metadata(program(&tree)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        assert!(tree.join("bin/uvx").is_file() && tree.join("share/doc/uv").is_dir());
    }

    #[tokio::test]
    async fn a_program_that_fails_is_named_with_what_it_said_and_the_remedy() {
        let mut fails = Command::new("sh");
        fails.args(["-c", "echo no route to the registry >&2; exit 2"]);
        let said = run("pip", fails).await.unwrap_err().to_string();
        for part in ["pip ended with", "no route to the registry", "python3-pip", "0.8"] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
}
