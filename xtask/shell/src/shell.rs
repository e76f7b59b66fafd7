//! Running other programs so that nothing is left behind when we are told to stop.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use famulus_lifecycle::Signals;
use rustix::process::{Pid, Signal, kill_process_group};

use crate::failures;

/// How long a program gets to end after the signal was passed on.
const GRACE: Duration = Duration::from_secs(10);

/// The same for a program of ours, which ends its own programs first, and then removes what it made: a
/// cluster for one.
const OURS: Duration = Duration::from_mins(2);

/// Somebody wants us to end.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal ({signal}) during `{program}`")]
pub struct Stopped {
    pub(crate) signal: String,
    pub(crate) program: String,
}

/// Runs programs one after the other and passes a signal on to the one that runs.
pub struct Shell {
    pub signals: Signals,
}

impl Shell {
    pub fn new() -> Result<Self> {
        Ok(Self { signals: Signals::install().context("cannot listen for signals")? })
    }

    /// Runs `command` with our output and no input. It fails unless the program succeeds; after a
    /// signal it fails too, once the program and all that it started have ended.
    ///
    /// The program gets a process group of its own, so that it and its children can be ended
    /// together.
    pub async fn run(&mut self, command: Command) -> Result<()> {
        self.finish(command, GRACE).await.map(drop)
    }

    /// The same for another program of `xtask`.
    pub async fn run_ours(&mut self, command: Command) -> Result<()> {
        self.finish(command, OURS).await.map(drop)
    }

    /// The last line that another program of `xtask` prints; before it stands what was done for it.
    pub async fn answer_of(&mut self, command: Command) -> Result<String> {
        let text = describe(&command);
        let printed = self.read(command).await?;
        let line = printed.lines().last().with_context(|| format!("`{text}` says nothing"))?;
        Ok(line.to_owned())
    }

    /// All that a program prints.
    pub async fn read(&mut self, mut command: Command) -> Result<String> {
        let text = describe(&command);
        command.stdout(Stdio::piped());
        let printed = self.finish(command, OURS).await?;
        String::from_utf8(printed).with_context(|| format!("`{text}` says no text"))
    }

    /// Runs tests, and returns what is told of those that failed. What they print is printed as it
    /// comes.
    pub async fn test(&mut self, mut command: Command) -> Result<Option<String>> {
        let (reader, writer) = std::io::pipe()?;
        command.stdout(writer);
        let heard = std::thread::spawn(move || {
            let mut said = String::new();
            for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
                let line = String::from_utf8_lossy(&line);
                println!("{line}");
                said.push_str(&line);
                said.push('\n');
            }
            said
        });
        // It takes the command, and with it our end of the pipe.
        match self.run(command).await {
            Ok(()) => Ok(None),
            Err(error) if error.is::<Stopped>() => Err(error),
            Err(error) => {
                let said = heard.join().unwrap_or_default();
                Ok(Some(format!("{error:#}\n{}", failures::told(&said))))
            }
        }
    }

    async fn finish(&mut self, mut command: Command, grace: Duration) -> Result<Vec<u8>> {
        let text = describe(&command);
        eprintln!("$ {text}");
        command.stdin(Stdio::null()).process_group(0);
        let child = tokio::process::Command::from(command)
            .spawn()
            .with_context(|| format!("cannot run `{text}`"))?;
        let group = child.id().and_then(|pid| Pid::from_raw(pid as i32));
        let mut ended = std::pin::pin!(child.wait_with_output());
        tokio::select! {
            output = &mut ended => {
                let output = output.with_context(|| format!("cannot wait for `{text}`"))?;
                if !output.status.success() {
                    bail!("`{text}` failed: {}", output.status);
                }
                Ok(output.stdout)
            }
            signal = self.signals.wait_for_signal() => {
                for signal in [Signal::TERM, Signal::KILL] {
                    if let Some(group) = group {
                        let _ = kill_process_group(group, signal);
                    }
                    if tokio::time::timeout(grace, &mut ended).await.is_ok() {
                        break;
                    }
                }
                Err(Stopped { signal: format!("{signal:?}"), program: text }.into())
            }
        }
    }
}

/// `cargo` with `args`, in the workspace, without what cargo itself put into our environment:
/// left in, it would make build scripts run again.
pub fn cargo<I, S>(args: I) -> Command
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
pub fn output_of(command: &mut Command) -> Result<Vec<u8>> {
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
