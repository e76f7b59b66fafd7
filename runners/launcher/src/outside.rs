//! The process outside: makes the namespaces, starts the process inside, and ends with who started it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use famulus_protocol::launch::{Launch, LaunchLimits, LaunchNetwork};
use famulus_runner_harness::namespaces::leave;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, Signal, getgid, getuid, kill_process};
use rustix::thread::UnshareFlags;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;
use tokio::process::{Child, ChildStdin, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::time::timeout;

use crate::error::LaunchError;
use crate::groups::Groups;
use crate::{ENTER, NETWORK, privileges, proof};

/// How long the process inside has to end by itself when its network did.
const SAYS: Duration = Duration::from_millis(300);

/// What a shell adds to the number of the signal that ended a process.
const SIGNALLED: u8 = 128;

/// Makes a sandbox and waits for its end. Standard input is a pipe whose other end is held by who started
/// this: its end is the sandbox's.
pub(crate) fn launch(
    order: &Launch,
    limits: &LaunchLimits,
    texts: [&OsString; 2],
) -> Result<ExitCode, LaunchError> {
    check(order)?;
    let outside = proof::namespaces().map_err(LaunchError::Namespaces)?;
    if !getuid().is_root() {
        own_users().map_err(LaunchError::UserNamespace)?;
        privileges::lend().map_err(LaunchError::privileges("rights to make it"))?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(LaunchError::Process)?.block_on(async {
        // From here on it ends only behind the sandbox, so that it removes what it makes.
        let terminated = signal(SignalKind::terminate()).map_err(LaunchError::Process)?;
        let _groups = Groups::make(limits)?;
        let network = match order.network {
            LaunchNetwork::None => None,
            LaunchNetwork::Internet { .. } => Some(Network::start(texts)?),
        };
        own_namespaces().map_err(LaunchError::Namespaces)?;
        attend(texts, &outside, network, terminated).await
    })
}

/// The process that serves the network of the sandbox, in that of the machine.
struct Network {
    child: Child,
    /// It sees by its end that this process is gone.
    _held: Option<ChildStdin>,
    /// For the process inside.
    socket: OwnedFd,
}

impl Network {
    fn start(texts: [&OsString; 2]) -> Result<Self, LaunchError> {
        let flags = SocketFlags::CLOEXEC;
        let ends = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (own, socket) = ends.map_err(|error| LaunchError::Network(error.into()))?;
        let mut child = again(NETWORK, texts)
            .stdin(Stdio::piped())
            .stdout(own)
            .spawn()
            .map_err(LaunchError::Process)?;
        Ok(Self { _held: child.stdin.take(), child, socket })
    }
}

/// This program as another process, which ends with this one.
fn again(word: &str, texts: [&OsString; 2]) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg(word).args(texts).env_clear().kill_on_drop(true);
    command
}

fn check(order: &Launch) -> Result<(), LaunchError> {
    let wrong = |what: &str| Err(LaunchError::Wrong(what.to_owned()));
    match (getuid().is_root(), order.user) {
        (true, None | Some(0)) => wrong("it names no user, and nothing in a sandbox is root's"),
        (false, Some(_)) => wrong("it names a user, and only root may become another"),
        (true, Some(_)) | (false, None) => Ok(()),
    }
}

/// A user namespace in which this user is itself and there is nobody else.
fn own_users() -> io::Result<()> {
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    leave(UnshareFlags::NEWUSER)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))
}

/// The processes that are started from now on are alone.
fn own_namespaces() -> io::Result<()> {
    leave(
        UnshareFlags::NEWNS
            | UnshareFlags::NEWPID
            | UnshareFlags::NEWNET
            | UnshareFlags::NEWIPC
            | UnshareFlags::NEWUTS,
    )
}

async fn attend(
    texts: [&OsString; 2],
    outside: &str,
    network: Option<Network>,
    mut terminated: Signals,
) -> Result<ExitCode, LaunchError> {
    // Whoever has namespaces for its children starts no thread.
    let starter = io::stdin().as_fd().try_clone_to_owned().and_then(Receiver::from_owned_fd);
    let mut starter = starter.map_err(LaunchError::Starter)?;
    // It sees by its end that this process is gone, or who serves its network, who goes with this one.
    let (stdin, mut network) = match network {
        Some(Network { child, _held: held, socket }) => (socket.into(), Some((child, held))),
        None => (Stdio::piped(), None),
    };
    let mut child =
        again(ENTER, texts).arg(outside).stdin(stdin).spawn().map_err(LaunchError::Process)?;
    // Who waits for a child would close it.
    let _held = child.stdin.take();
    let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let mut nothing = [0; 64];
    loop {
        let network_ended = async {
            match &mut network {
                Some((child, _held)) => child.wait().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = child.wait() => return ended.map(code).map_err(LaunchError::Process),
            _asked = terminated.recv() => {
                if let Some(pid) = pid {
                    // It may end in this moment.
                    let _gone = kill_process(pid, Signal::TERM);
                }
            }
            read = starter.read(&mut nothing) => if !matches!(read, Ok(1..)) {
                return end(child).await;
            },
            ended = network_ended => {
                // The process inside says itself why it never began.
                if let Ok(Ok(inside)) = timeout(SAYS, child.wait()).await {
                    return Ok(code(inside));
                }
                child.kill().await.map_err(LaunchError::Process)?;
                let how = ended.map_err(LaunchError::Process)?.to_string();
                return Err(LaunchError::NetworkEnded(how));
            }
        }
    }
}

/// Ends the process inside, and with it every other one.
async fn end(mut child: Child) -> Result<ExitCode, LaunchError> {
    child.kill().await.map_err(LaunchError::Process)?;
    Err(LaunchError::Alone)
}

fn code(status: ExitStatus) -> ExitCode {
    let signalled = || status.signal().and_then(|signal| u8::try_from(signal).ok());
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => ExitCode::from(code),
        None => ExitCode::from(SIGNALLED.saturating_add(signalled().unwrap_or(0))),
    }
}
