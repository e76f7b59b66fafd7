//! The other programs of `xtask`: the test cluster with the images, and the benchmarks.
//!
//! They are built when somebody asks for them, so that format, lints and tidiness wait for neither.

use std::ffi::OsString;
use std::fmt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use xtask_shell::{Shell, cargo, own_program};

#[derive(Clone, Copy)]
pub(crate) enum Other {
    Bench,
    Cluster,
}

impl fmt::Display for Other {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Bench => "xtask-bench",
            Self::Cluster => "xtask-cluster",
        })
    }
}

impl Other {
    /// Becomes the program, so that it has our terminal, gets our signals and says how it ended.
    pub(crate) fn become_it(self, words: &[OsString]) -> Result<()> {
        Err(self.command()?.args(words).exec()).with_context(|| format!("cannot run {self}"))
    }

    /// The program, built from this tree, where cargo has put us.
    pub(crate) fn command(self) -> Result<Command> {
        let mut build = cargo(["build", "--quiet", "--package"]);
        let status = build.arg(self.to_string()).status().context("cannot run cargo")?;
        ensure!(status.success(), "{self} cannot be built");
        Ok(Command::new(own_program()?.with_file_name(self.to_string())))
    }
}

/// Where a program is that clusters and images bring. It is built or fetched if it is missing.
pub(crate) async fn path_of(shell: &mut Shell, name: &str) -> Result<PathBuf> {
    let mut asked = Other::Cluster.command()?;
    asked.args(["path", name]);
    Ok(shell.answer_of(asked).await?.into())
}
