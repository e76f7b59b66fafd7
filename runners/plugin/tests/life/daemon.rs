//! Repositories, and a git daemon that serves them on the loopback address.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The daemon, one process for each connection, until the test ends.
pub(crate) struct Daemon {
    folder: TempDir,
    port: u16,
    ended: Arc<AtomicBool>,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        // Wakes whoever waits for the next connection.
        let _woken = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
    }
}

impl Daemon {
    /// The daemon cannot be told to choose a port by itself, so that the test listens for it.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let ended = Arc::new(AtomicBool::new(false));
        let (base, over) = (folder.path().to_owned(), Arc::clone(&ended));
        thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let base = base.clone();
                thread::spawn(move || serve(&base, &socket));
            }
        });
        Self { folder, port, ended }
    }

    pub(crate) fn url(&self, name: &str) -> String {
        format!("git://127.0.0.1:{}/{name}", self.port)
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// The folder of a repository.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn source(&self, name: &str, reference: &str) -> Value {
        json!({"git": {"url": self.url(name), "ref": reference}})
    }

    /// A new, empty repository.
    pub(crate) fn repository(&self, name: &str) -> Repository {
        let path = self.folder.path().join(name);
        fs::create_dir(&path).unwrap();
        let repository = Repository { path };
        repository.git(&["init", "--quiet", "--initial-branch=main"]);
        repository
    }
}

fn serve(base: &Path, socket: &TcpStream) {
    let copy = || Stdio::from(OwnedFd::from(socket.try_clone().unwrap()));
    let mut command = git(base);
    command.args(["daemon", "--inetd", "--export-all", "--informative-errors"]);
    command.arg(format!("--base-path={}", base.display()));
    let mut child = command.stdin(copy()).stdout(copy()).spawn().unwrap();
    child.wait().unwrap();
}

/// Git without anybody's configuration.
fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin").env("HOME", "/nonexistent");
    command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
    for who in ["AUTHOR", "COMMITTER"] {
        command.env(format!("GIT_{who}_NAME"), "Test").env(format!("GIT_{who}_EMAIL"), "t@t");
        command.env(format!("GIT_{who}_DATE"), "2026-01-01T00:00:00Z");
    }
    command.current_dir(folder);
    command
}

pub(crate) struct Repository {
    pub(crate) path: PathBuf,
}

impl Repository {
    pub(crate) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    /// With something on its input.
    pub(crate) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let mut command = git(&self.path);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        use std::os::unix::fs::PermissionsExt;
        let place = self.path.join(path);
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&place, content.as_ref()).unwrap();
        let mode = if content.as_ref().starts_with(b"#!") { 0o755 } else { 0o644 };
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Takes over a folder with all that is in it.
    pub(crate) fn copy(&self, from: &Path) {
        let mut command = Command::new("cp");
        command.arg("-a").arg(from.join(".")).arg(&self.path);
        assert!(command.status().unwrap().success());
    }

    /// Commits everything, and gives the commit.
    pub(crate) fn commit(&self) -> String {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--allow-empty", "--message=m"]);
        self.git(&["rev-parse", "HEAD"])
    }

    /// Makes a tree object of raw entries, whatever git thinks of them: mode, name, object.
    pub(crate) fn tree(&self, entries: &[(&str, &[u8], &str)]) -> String {
        let mut raw = Vec::new();
        for (mode, name, object) in entries {
            raw.extend_from_slice(mode.as_bytes());
            raw.push(b' ');
            raw.extend_from_slice(name);
            raw.push(0);
            raw.extend(hex::decode(object).unwrap());
        }
        self.git_with(&["hash-object", "-t", "tree", "-w", "--literally", "--stdin"], &raw)
    }

    pub(crate) fn blob(&self, content: &[u8]) -> String {
        self.git_with(&["hash-object", "-w", "--stdin"], content)
    }

    /// Lets the main branch be a commit of this tree.
    pub(crate) fn commit_tree(&self, tree: &str) -> String {
        let commit = self.git(&["commit-tree", "-m", "m", tree]);
        self.git(&["update-ref", "refs/heads/main", &commit]);
        commit
    }
}
