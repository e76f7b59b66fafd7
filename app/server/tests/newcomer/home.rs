//! An installation with backups, as those who try them have it.

use crate::{
    said,
    up::{Place, Up, famulus},
};
use age::secrecy::ExposeSecret as _;
use sqlx::{Connection as _, PgConnection};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// An installation whose backups lie beside its data, and the key that they are sealed to.
pub(crate) struct Home {
    pub(crate) place: Place,
    recipient: String,
}

impl Home {
    pub(crate) fn new(name: &str) -> Self {
        let place = Place::new(name);
        let recipient = write_key(&place.0.join("key"));
        Self { place, recipient }
    }

    pub(crate) fn backups(&self) -> PathBuf {
        self.place.0.join("backups")
    }

    pub(crate) fn famulus(&self, arguments: &[&str]) -> Command {
        let mut command = famulus(&self.place.data());
        command
            .args(arguments)
            .env("FAMULUS_BACKUP__FOLDER", self.backups())
            .env("FAMULUS_BACKUP__RECIPIENT", &self.recipient)
            .env("FAMULUS_BACKUP__IDENTITY_FILE", self.place.0.join("key"));
        command
    }

    pub(crate) fn up(&self) -> Up {
        Up::from(&self.place, self.famulus(&["up"]))
    }

    /// Runs a command that is to succeed; what it printed.
    pub(crate) fn good(&self, arguments: &[&str]) -> String {
        said_by(self.famulus(arguments))
    }

    /// Runs a command that is to fail; what it said.
    pub(crate) fn refused(&self, arguments: &[&str]) -> String {
        let mut command = self.famulus(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        // One that is not refused may well go on for ever.
        while child.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let output = child.wait_with_output().unwrap();
        let refused = output.status.code().is_some_and(|code| code != 0);
        assert!(refused, "{arguments:?}: {}{}", printed(&output), said(&output));
        said(&output)
    }

    /// Takes a backup; its name.
    pub(crate) fn backup(&self) -> String {
        self.good(&["backup"]).split(' ').next().unwrap().to_owned()
    }

    pub(crate) fn replace(&self, backup: &str, typed: &str) -> Output {
        let mut command = self.famulus(&["restore", backup, "--replace"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(typed.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    }

    pub(crate) async fn database(&self) -> PgConnection {
        let socket = self.place.data().join("run").display().to_string().replace('/', "%2F");
        let url = format!("postgres://postgres@localhost/famulus?host={socket}");
        PgConnection::connect(&url).await.unwrap()
    }

    /// What is in the folder, without the lock.
    pub(crate) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.backups()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| !name.starts_with(".lock-")).collect();
        names.sort();
        names
    }

    pub(crate) fn dump_of(&self, backup: &str) -> PathBuf {
        self.backups().join(backup).join("database.dump.age")
    }
}

/// Waits until the owner was told this in the main conversation.
pub(crate) async fn hears(up: &Up, words: &str) {
    let began = Instant::now();
    loop {
        let messages = up.get("/v1/conversations/main/messages").await.to_string();
        if messages.contains(words) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{messages}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Runs a command that is to succeed; what it printed.
pub(crate) fn said_by(mut command: Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", said(&output));
    printed(&output)
}

pub(crate) fn write_key(path: &Path) -> String {
    let key = age::x25519::Identity::generate();
    fs::write(path, key.to_string().expose_secret()).unwrap();
    key.to_public().to_string()
}

pub(crate) fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Waits until the assistant says of its backups what begins like this.
pub(crate) async fn stands(up: &Up, words: &str) {
    let began = Instant::now();
    loop {
        let checks = up.get("/v1/status").await["checks"].clone();
        let mut checks = checks.as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == "backups");
        let found =
            |check: &serde_json::Value| check["detail"].as_str().unwrap().starts_with(words);
        if check.is_some_and(|check| check["ok"] == true && found(check)) {
            return;
        }
        assert!(began.elapsed() < PATIENCE, "{words}: {check:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
