//! What is measured, built and set aside, so that a build during the benchmark does not change it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask_shell::{Shell, cargo, output_of};

use super::plan::{Bench, FAMULUS, Measurement, Program, Released};

/// How a program is built for whoever installs it.
fn release(Released(package, name): Released) -> [&'static str; 6] {
    ["build", "--release", "--package", package, "--bin", name]
}

/// The programs, each under the name of its target.
pub(super) struct Programs {
    folder: TempDir,
}

impl Programs {
    pub(super) async fn build(shell: &mut Shell, measurements: &[&Measurement]) -> Result<Self> {
        let programs = Self { folder: tempfile::tempdir()? };
        for measurement in measurements {
            let Program::Bench(bench) = measurement.program else { continue };
            let Bench { package, target, features, starts } = bench;
            if !programs.path(target).exists() {
                let arguments = [
                    "bench",
                    "--package",
                    package,
                    "--features",
                    features,
                    "--bench",
                    target,
                    "--no-run",
                ];
                programs.add(shell, &arguments, "bench", target).await?;
            }
            // Built by itself: beside a benchmark it would get what only tests need.
            for released in starts {
                if !programs.path(released.1).exists() {
                    programs.add(shell, &release(*released), "bin", released.1).await?;
                }
            }
        }
        Ok(programs)
    }

    async fn add(
        &self,
        shell: &mut Shell,
        arguments: &[&str],
        kind: &str,
        name: &str,
    ) -> Result<()> {
        shell.run(cargo(arguments)).await?;
        let messages = output_of(cargo(arguments).args(["--message-format", "json"]))?;
        let program = executable(&messages, kind, name)
            .with_context(|| format!("cargo names no program for the {kind} target `{name}`"))?;
        fs::copy(&program, self.path(name))?;
        Ok(())
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program as it is released.
    pub(super) fn famulus(&self) -> PathBuf {
        self.path("famulus")
    }
}

/// The program of a target in what cargo says about a build.
fn executable(messages: &[u8], kind: &str, name: &str) -> Option<PathBuf> {
    let text = String::from_utf8_lossy(messages);
    let built = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut named = built.filter(|message| {
        message["target"]["name"] == name && message["target"]["kind"][0] == kind
    });
    named.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Builds the program in an empty folder, with what cargo has fetched already.
pub(super) async fn clean_build(shell: &mut Shell) -> Result<Value> {
    shell.run(cargo(["fetch", "--locked"])).await?;
    let folder = tempfile::tempdir_in(xtask_shell::workspace::root().join("target"))?;
    let begun = Instant::now();
    shell.run(in_folder(cargo(release(FAMULUS)), folder.path())).await?;
    Ok(json!({ "seconds": begun.elapsed().as_secs_f64() }))
}

fn in_folder(mut command: Command, folder: &Path) -> Command {
    command.arg("--locked").arg("--target-dir").arg(folder);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_names_the_program_of_a_target() {
        let messages = br#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"durable"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"durable"},"executable":"/t/durable-1"}
not json"#;
        let named = |kind, name| executable(messages, kind, name);
        assert_eq!(named("bench", "durable"), Some(PathBuf::from("/t/durable-1")));
        assert_eq!(named("bench", "other"), None);
        assert_eq!(named("bin", "durable"), None);
    }
}
