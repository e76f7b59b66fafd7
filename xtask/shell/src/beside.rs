//! A program that runs beside others.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::Child;

use crate::shell::{Shell, Stopped};
use crate::workspace::root;

/// What it gets of the processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// As much as the others.
    Equal,
    /// What they leave.
    Rest,
}

/// A session of its own at the lowest weight, and in it the policy of idle work: who else wants a
/// processor has it at once.
const LAST_OF_ALL: &str =
    "echo 19 2>/dev/null > /proc/self/autogroup; exec chrt --idle 0 \"$0\" \"$@\"";

pub struct Beside {
    child: Child,
    what: &'static str,
    share: Share,
    said: PathBuf,
}

impl Beside {
    /// Starts `program`, whose words go into `target/WHAT/said`.
    pub fn start(what: &'static str, program: &Command, share: Share) -> Result<Self> {
        let folder = root().join("target").join(what);
        fs::create_dir_all(&folder)?;
        let said = folder.join("said");
        let file = File::create(&said)?;
        let mut command = Command::new("setsid");
        if share == Share::Rest {
            command.args(["sh", "-c", LAST_OF_ALL]);
        }
        command.arg(program.get_program()).args(program.get_args());
        for (name, value) in program.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.current_dir(root());
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let child = tokio::process::Command::from(command).spawn();
        let child = child.with_context(|| format!("cannot start the {what} beside the rest"))?;
        Ok(Self { child, what, share, said })
    }

    /// Waits for its end. What it said is printed if it failed or had as much to do as the others.
    pub async fn finish(mut self, shell: &mut Shell) -> Result<()> {
        let what = self.what;
        tokio::select! {
            status = self.child.wait() => {
                let status = status.with_context(|| format!("cannot wait for the {what}"))?;
                let said = fs::read(&self.said)?;
                let said = String::from_utf8_lossy(&said);
                if !status.success() || self.share == Share::Equal {
                    println!("{what}:\n{said}");
                }
                if status.success() {
                    return Ok(());
                }
                // A program of ours ends with its error.
                let why = said.rsplit_once("\nerror: ").map_or("", |(_, why)| why.trim_end());
                bail!("the {what} failed: {status}; all that it said stands above\n{why}")
            }
            signal = shell.signals.wait_for_signal() => {
                Err(Stopped { signal: format!("{signal:?}"), program: what.to_owned() }.into())
            }
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A child that was waited for has no id any more.
        if let Some(group) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // One that has a server of its own stops it.
            let _ended = kill_process_group(group, Signal::TERM);
        }
    }
}
