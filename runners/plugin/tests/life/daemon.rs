//! Repositories, and a git daemon that serves them on the loopback address.

use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

/// The daemon, ended with the test.
pub(crate) struct Daemon {
    folder: TempDir,
    port: u16,
    process: Child,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // It leads a group of its own, with whoever serves a request.
        let group = rustix::process::Pid::from_child(&self.process);
        let _gone = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _reaped = self.process.wait();
    }
}

impl Daemon {
    pub(crate) fn start() -> Self {
        use std::os::unix::process::CommandExt;
        let folder = tempfile::tempdir().unwrap();
        // It cannot be told to choose, so that somebody may be faster.
        for _attempt in 0..5 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = port.local_addr().unwrap().port();
            let mut command = git(folder.path());
            command.args(["daemon", "--export-all", "--informative-errors", "--reuseaddr"]);
            command.arg("--listen=127.0.0.1").arg(format!("--port={port}"));
            command.arg(format!("--base-path={}", folder.path().display()));
            let mut process = command.process_group(0).stdin(Stdio::null()).spawn().unwrap();
            for _look in 0..200 {
                if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                    return Self { folder, port, process };
                }
                if process.try_wait().unwrap().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(25));
            }
            let _gone = process.kill();
        }
        panic!("git daemon does not start; is it installed?");
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
            for at in (0..object.len()).step_by(2) {
                raw.push(u8::from_str_radix(&object[at..at + 2], 16).unwrap());
            }
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
