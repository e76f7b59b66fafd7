//! How a program of `xtask` starts and ends.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

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

/// Where the program is that runs. A build may put it there anew meanwhile, of the same tree.
pub fn own_program() -> Result<PathBuf> {
    let path = std::env::current_exe().context("it is not known which program runs")?;
    Ok(there_now(path))
}

/// The kernel says of a file that was replaced that it is gone.
fn there_now(path: PathBuf) -> PathBuf {
    let name = path.file_name().and_then(|name| name.to_str());
    match name.and_then(|name| name.strip_suffix(" (deleted)")) {
        Some(name) => path.with_file_name(name),
        None => path,
    }
}

fn run(task: impl AsyncFnOnce(&mut Shell) -> Result<()>) -> Result<()> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async { task(&mut Shell::new()?).await })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_replaced_is_where_it_was() {
        let check = |path: &str, expected: &str| {
            assert_eq!(there_now(path.into()), PathBuf::from(expected));
        };
        check("/target/debug/xtask", "/target/debug/xtask");
        check("/target/debug/xtask (deleted)", "/target/debug/xtask");
    }
}
