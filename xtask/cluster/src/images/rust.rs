//! The programs of the workspace that go into images.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use xtask_shell::workspace::{FEATURES, root};
use xtask_shell::{Shell, cargo};

use super::catalogue::{Image, Program};

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Profile {
    /// Small and fast, as users get it
    Release,
    /// Those that tests run, which are built already
    Dev,
}

/// Builds the programs of `images`.
pub(super) async fn build(shell: &mut Shell, profile: Profile, images: &[&Image]) -> Result<()> {
    let programs = images.iter().filter_map(|image| image.program.as_ref());
    let named: BTreeSet<(&str, &str)> =
        programs.map(|program| (program.package, program.name)).collect();
    if named.is_empty() {
        return Ok(());
    }
    let mut command = cargo(["build"]);
    match profile {
        Profile::Release => {
            command.arg("--release");
            command.args(
                named.iter().flat_map(|(package, name)| ["--package", package, "--bin", name]),
            );
        }
        // With other features, or without the tests' own dependencies, all would be compiled once more.
        Profile::Dev => {
            command.args(["--workspace", "--bins", "--tests", "--features", FEATURES]);
        }
    }
    shell.run(command).await
}

/// Where cargo puts a program.
pub(super) fn path(program: &Program, profile: Profile) -> PathBuf {
    let folder = match profile {
        Profile::Release => "release",
        Profile::Dev => "debug",
    };
    root().join("target").join(folder).join(program.name)
}
