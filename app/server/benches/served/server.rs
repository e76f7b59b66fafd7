//! The shipped program as a process of its own.

use crate::{caller::Caller, memory::Memory, request::Request};
use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use std::{net::SocketAddr, path::Path, process::Stdio, time::Duration};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};
use url::Url;

/// A loaded machine starts a process that migrates an empty database in less.
const READY: Duration = Duration::from_mins(1);
/// What drains has done so after less.
const ENDED: Duration = Duration::from_secs(30);

pub(crate) struct Server {
    process: Child,
    pub(crate) pid: Pid,
    /// Read until it serves; kept open, because it goes on speaking.
    _said: Lines<BufReader<ChildStdout>>,
    pub(crate) owner: Caller,
    /// With the first token.
    folder: Option<TempDir>,
}

/// The settings of all measurements: no limit on a caller, and ports of the system's choice.
pub(crate) fn command(request: &Request, data_dir: &Path) -> Command {
    let mut command = Command::new(&request.famulus);
    command
        .arg("serve")
        .env_clear()
        .env("DATABASE_URL", &request.url)
        .env("FAMULUS_DATA_DIR", data_dir)
        .env("FAMULUS_API__LISTEN", "127.0.0.1:0")
        .env("FAMULUS_API__INTERNAL_LISTEN", "127.0.0.1:0")
        .env("FAMULUS_API__REQUESTS_PER_SECOND", "1000000")
        .env("FAMULUS_API__REQUESTS_BURST", "1000000")
        .env("FAMULUS_TELEMETRY__LOG", "error")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Server {
    /// The first process on the database.
    pub(crate) async fn start(request: &Request, model: &Url) -> Result<Self> {
        Self::start_with(request, model, &[]).await
    }

    /// The first process, with further settings.
    pub(crate) async fn start_with(
        request: &Request,
        model: &Url,
        settings: &[(&str, &str)],
    ) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut process = command(request, folder.path());
        process.envs(settings.iter().copied());
        process.env("FAMULUS_MODEL__BASE_URL", model.as_str()).env("FAMULUS_MODEL__NAME", "first");
        let (process, said, address) = spawn(process).await?;
        let token = std::fs::read_to_string(folder.path().join("token"))?;
        let owner = Caller::new(address, token.trim())?;
        Self::of(process, said, owner, Some(folder))
    }

    /// Another process on the same database, whose owner is the same. It asks for the model by
    /// another name, so that the model knows who asks.
    pub(crate) async fn another(&self, request: &Request, model: &Url) -> Result<Self> {
        let folder = self.folder.as_ref().context("only the first process has a folder")?;
        let mut process = command(request, folder.path());
        process.env("FAMULUS_MODEL__BASE_URL", model.as_str()).env("FAMULUS_MODEL__NAME", "second");
        let (process, said, address) = spawn(process).await?;
        let owner = self.owner.at(address);
        Self::of(process, said, owner, None)
    }

    fn of(
        process: Child,
        said: Lines<BufReader<ChildStdout>>,
        owner: Caller,
        folder: Option<TempDir>,
    ) -> Result<Self> {
        let pid = pid_of(&process)?;
        Ok(Self { process, pid, _said: said, owner, folder })
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::of(self.pid.as_raw_nonzero().get())
    }

    pub(crate) fn raw_pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Asks it to end, and waits until it has drained.
    pub(crate) async fn end(self) -> Result<()> {
        let Self { process, pid, .. } = self;
        end(process, pid).await
    }
}

pub(crate) fn pid_of(process: &Child) -> Result<Pid> {
    process.id().and_then(|pid| Pid::from_raw(pid as i32)).context("the server has no pid")
}

pub(crate) async fn end(mut process: Child, pid: Pid) -> Result<()> {
    kill_process(pid, Signal::TERM)?;
    let status = timeout(ENDED, process.wait()).await.context("the server did not end")??;
    ensure!(status.success(), "the server ended with {status}");
    Ok(())
}

pub(crate) async fn spawn(
    mut command: Command,
) -> Result<(Child, Lines<BufReader<ChildStdout>>, SocketAddr)> {
    let mut process = command.spawn().context("the server cannot be started")?;
    let output = process.stdout.take().context("the server has no standard output")?;
    let mut lines = BufReader::new(output).lines();
    let serving = async {
        let mut address: Option<SocketAddr> = None;
        while let Some(line) = lines.next_line().await? {
            let rest = line.strip_prefix("Famulus listens on http://");
            if let Some(listens) = rest.and_then(|rest| rest.split(' ').next()) {
                address = Some(listens.parse()?);
            }
            if line.contains("Ctrl-C") {
                return address.context("the server did not say where it listens");
            }
        }
        bail!("the server did not start; see its error above")
    };
    let address = timeout(READY, serving).await.context("the server was not ready in time")??;
    Ok((process, lines, address))
}

/// Lets this process and those that it starts hold so many descriptors.
pub(crate) fn allow_descriptors(count: u64) -> Result<()> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(count), maximum };
    setrlimit(Resource::Nofile, raised).with_context(|| {
        format!("{count} descriptors are needed; raise the hard limit with `ulimit -Hn {count}`")
    })
}
