//! The real binary as a process of its own, where its memory matters.

use super::{Client, soon};
use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child as Process, Command},
    time::{Instant, sleep},
};

pub(crate) struct Child {
    process: Process,
    pub(crate) owner: Client,
    _folder: Option<tempfile::TempDir>,
}

impl Child {
    /// Starts `famulus serve` on a database, with more settings, from a shell that allows few open
    /// files.
    pub(crate) async fn start(database: &str, settings: &[(&str, String)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let child = Self::start_in(folder.path(), database, settings).await;
        Self { _folder: Some(folder), ..child }
    }

    /// The same in a folder that is there, with the token in it if there is one.
    pub(crate) async fn start_in(
        folder: &Path,
        database: &str,
        settings: &[(&str, String)],
    ) -> Self {
        let mut process = Command::new("sh")
            .args(["-c", "ulimit -Sn 256 && exec \"$0\" serve", env!("CARGO_BIN_EXE_famulus")])
            .env_remove("FAMULUS_CONFIG")
            .env("DATABASE_URL", database)
            .env("FAMULUS_DATA_DIR", folder)
            .env("FAMULUS_API__LISTEN", "127.0.0.1:0")
            .env("FAMULUS_API__INTERNAL_LISTEN", "127.0.0.1:0")
            .env("FAMULUS_TELEMETRY__LOG", "error")
            .envs(settings.iter().map(|(name, value)| (*name, value)))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let announced = async {
            let mut address: Option<SocketAddr> = None;
            while let Some(line) = lines.next_line().await.unwrap() {
                let rest = line.strip_prefix("Famulus listens on http://");
                if let Some(listens) = rest.and_then(|rest| rest.split(' ').next()) {
                    address = Some(listens.parse().unwrap());
                }
                if line.contains("Ctrl-C") {
                    break;
                }
            }
            address.unwrap_or_else(|| panic!("`famulus serve` did not start; see its error above"))
        };
        let address = soon("`famulus serve` starts", announced).await;
        // Of several in one folder, the one that makes it may not be the first that serves.
        let token = async {
            loop {
                if let Ok(token) = std::fs::read_to_string(folder.join("token")) {
                    return token;
                }
                sleep(Duration::from_millis(10)).await;
            }
        };
        let token = soon("the token is in its file", token).await;
        let owner = Client::new(address, token.trim());
        Self { process, owner, _folder: None }
    }

    /// The most memory that the process ever had, in MiB.
    pub(crate) fn peak(&self) -> u64 {
        self.read("status", "VmHWM:")
    }

    /// Waits until the process has given back what it does not use, and needs less than `limit` MiB.
    ///
    /// # Panics
    /// When it needs more for so long.
    pub(crate) async fn settles(&self, limit: u64, patience: Duration) {
        let until = Instant::now() + patience;
        while self.memory() >= limit {
            let now = self.memory();
            assert!(Instant::now() < until, "{now} MiB after {patience:?}, {limit} are allowed");
            sleep(Duration::from_millis(250)).await;
        }
    }

    /// Memory that would be free if the process ended, in MiB.
    pub(crate) fn memory(&self) -> u64 {
        self.read("smaps_rollup", "Pss:")
    }

    /// A line of a file under `/proc` that counts kB, in MiB.
    fn read(&self, file: &str, name: &str) -> u64 {
        let id = self.process.id().unwrap();
        let text = std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() / 1024
    }
}
