//! An installation on one machine: `famulus up`, with a private Postgres of its own.

use crate::{caller::Caller, request::Request, server::spawn};
use anyhow::Result;
use std::{
    ffi::OsString,
    fs,
    net::SocketAddr,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
};
use tokio::{
    io::{BufReader, Lines},
    process::{Child, ChildStdout},
};

/// The folders of an installation, removed with it.
pub(crate) struct Home {
    folder: tempfile::TempDir,
    famulus: PathBuf,
    bin_dir: PathBuf,
    settings: Vec<(&'static str, OsString)>,
}

impl Home {
    pub(crate) fn new(request: &Request) -> Result<Self> {
        let folder = tempfile::tempdir_in(&request.disk)?;
        // The user of the private Postgres goes through.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
        let (famulus, bin_dir) = (request.famulus.clone(), request.bin_dir.clone());
        Ok(Self { folder, famulus, bin_dir, settings: Vec::new() })
    }

    /// With further settings.
    pub(crate) fn with<const N: usize>(mut self, settings: [(&'static str, OsString); N]) -> Self {
        self.settings.extend(settings);
        self
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.famulus);
        command
            .args(arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("FAMULUS_DATA_DIR", self.at("data"))
            .env("FAMULUS_DATABASE__BIN_DIR", &self.bin_dir)
            .env("FAMULUS_API__LISTEN", "127.0.0.1:0")
            .env("FAMULUS_API__INTERNAL_LISTEN", "127.0.0.1:0")
            .env("FAMULUS_API__REQUESTS_PER_SECOND", "1000")
            .env("FAMULUS_BACKUP__EVERY_HOURS", "0")
            .env("FAMULUS_TELEMETRY__LOG", "error")
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null());
        command
    }

    /// Starts it; it ends with the first.
    pub(crate) async fn up(&self) -> Result<(Child, Lines<BufReader<ChildStdout>>, SocketAddr)> {
        let mut up = tokio::process::Command::from(self.command(&["up"]));
        up.stdout(Stdio::piped()).kill_on_drop(true);
        spawn(up).await
    }

    pub(crate) fn owner(&self, address: SocketAddr) -> Result<Caller> {
        Caller::new(address, fs::read_to_string(self.at("data/token"))?.trim())
    }
}
