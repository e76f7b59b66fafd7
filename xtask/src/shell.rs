//! Running other programs so that nothing is left behind when we are told to stop.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use famulus_lifecycle::Signals;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long a program gets to end after the signal was passed on.
const GRACE: Duration = Duration::from_secs(10);

/// Runs programs one after the other and passes a signal on to the one that runs.
pub(crate) struct Shell {
    pub(crate) signals: Signals,
}

impl Shell {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self { signals: Signals::install().context("cannot listen for signals")? })
    }

    /// Runs `command` with our output and no input. It fails unless the program succeeds; after a
    /// signal it fails too, once the program and all that it started have ended.
    ///
    /// The program gets a process group of its own, so that it and its children can be ended
    /// together.
    pub(crate) async fn run(&mut self, mut command: Command) -> Result<()> {
        let text = describe(&command);
        eprintln!("$ {text}");
        command.stdin(Stdio::null()).process_group(0);
        let mut child = tokio::process::Command::from(command)
            .spawn()
            .with_context(|| format!("cannot run `{text}`"))?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid as i32));
        tokio::select! {
            status = child.wait() => {
                let status = status.with_context(|| format!("cannot wait for `{text}`"))?;
                if status.success() { Ok(()) } else { bail!("`{text}` failed: {status}") }
            }
            signal = self.signals.wait_for_signal() => {
                for signal in [Signal::TERM, Signal::KILL] {
                    if let Some(group) = group {
                        let _ = kill_process_group(group, signal);
                    }
                    if tokio::time::timeout(GRACE, child.wait()).await.is_ok() {
                        break;
                    }
                }
                bail!("stopped by a signal ({signal:?}) during `{text}`")
            }
        }
    }
}

/// `cargo` with `args`, in the workspace, without what cargo itself put into our environment:
/// left in, it would make build scripts run again.
pub(crate) fn cargo<I, S>(args: I) -> Command
where
    I: IntoIterator<Item = S>,
    S: AsRef<OsStr>,
{
    #[expect(clippy::disallowed_methods, reason = "cargo names itself to the programs it runs")]
    let program = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(program);
    command.current_dir(crate::workspace::root()).args(args);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    command
}

/// What a program prints, or an error that carries what it complained about.
pub(crate) fn output_of(command: &mut Command) -> Result<Vec<u8>> {
    let text = describe(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{text}`"))?;
    if !output.status.success() {
        bail!("`{text}` failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(output.stdout)
}

/// The command as one would type it; of a list of files, the beginning.
fn describe(command: &Command) -> String {
    const SHOWN: usize = 16;
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program());
    let words: Vec<_> = std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect();
    match words.get(SHOWN..) {
        Some(more) if !more.is_empty() => {
            format!("{} and {} more", words[..SHOWN].join(" "), more.len())
        }
        _ => words.join(" "),
    }
}
