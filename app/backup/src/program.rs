//! Postgres's programs as child processes: what they say, and their end.

use crate::{error::BackupError, server::Server};
use std::process::{ExitStatus, Stdio};
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    process::{Child, Command},
};

/// What is kept of the words of a program that fails.
const SAID: usize = 4096;

/// A program for a server, which ends when it is dropped.
pub(crate) fn command(name: &str, server: &Server) -> Command {
    let mut command = Command::new(server.bin_dir.join(name));
    command
        .env_clear()
        .env("LC_ALL", "C.UTF-8")
        .env("PATH", "/usr/bin:/bin")
        .env("PGAPPNAME", "famulus backup")
        .env("PGCONNECT_TIMEOUT", "30")
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    server.tell(&mut command);
    command
}

pub(crate) fn start(command: &mut Command) -> Result<Child, BackupError> {
    command.spawn().map_err(|source| BackupError::NoProgram {
        program: command.as_std().get_program().into(),
        source,
    })
}

/// Waits for the end of a program, and for the thread that feeds or reads it.
///
/// The program's own words come first: when it fails, the thread fails with it, for a reason that
/// explains nothing. Unless it ended because the thread did: then its pipe broke, and it says that.
pub(crate) async fn settle<T>(
    name: &'static str,
    child: &mut Child,
    thread: impl Future<Output = Result<Result<T, BackupError>, tokio::task::JoinError>>,
) -> Result<T, BackupError> {
    let stderr = child.stderr.take();
    let (thread, said, status) = tokio::join!(thread, end_of(stderr), child.wait());
    let thread = thread.map_err(|_| BackupError::Thread)?;
    let status =
        status.map_err(|source| BackupError::NoProgram { program: name.into(), source })?;
    match thread {
        Ok(done) if status.success() => Ok(done),
        Ok(_) => Err(failed(name, &said, status)),
        Err(error @ BackupError::Io { .. }) if is_pipe(&error) => Err(failed(name, &said, status)),
        Err(error) => Err(error),
    }
}

fn is_pipe(error: &BackupError) -> bool {
    let BackupError::Io { source, .. } = error else { return false };
    source.kind() == std::io::ErrorKind::BrokenPipe
}

fn failed(program: &'static str, said: &str, status: ExitStatus) -> BackupError {
    let said = if said.is_empty() { status.to_string() } else { said.to_owned() };
    BackupError::Program { program, said }
}

/// The end of what a program says, on one line.
async fn end_of(output: Option<impl AsyncRead + Unpin>) -> String {
    let Some(mut output) = output else { return String::new() };
    let mut said = Vec::new();
    let mut buffer = [0; SAID];
    while let Ok(read @ 1..) = output.read(&mut buffer).await {
        said.extend_from_slice(&buffer[..read]);
        said.drain(..said.len().saturating_sub(SAID));
    }
    let said = String::from_utf8_lossy(&said);
    said.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ")
}
