//! How a program of `xtask` starts and ends.

use std::process::ExitCode;

use anyhow::Result;

use crate::shell::Shell;

/// Runs `task`, and says what failed.
pub fn start(task: impl AsyncFnOnce(&mut Shell) -> Result<()>) -> ExitCode {
    match run(task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: impl AsyncFnOnce(&mut Shell) -> Result<()>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async { task(&mut Shell::new()?).await })
}
