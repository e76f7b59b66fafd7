//! `cargo xtask up`: from a fresh checkout to a running assistant.

use std::collections::BTreeSet;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use xtask_postgres::tree;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo, output_of, programs};

const PACKAGE: &str = "famulus-server";

/// In which plugins run.
const RUNNER: &str = "famulus-runner";

/// Where cargo puts the program that is built for trying.
const PROGRAM: &str = "target/trying/famulus";

/// What would be written twice is written once, and what the loader has to relocate is packed: a sixth of
/// the program, and some 8 MiB of what it holds in memory. For other targets the linker may not be LLD.
const LINKED_SMALL: &str = "target.x86_64-unknown-linux-gnu.rustflags = \
     ['-Clink-arg=-Wl,--icf=all,-z,pack-relative-relocs']";

/// The first whose loader unpacks relocations.
const UNPACKS: (u32, u32) = (2, 36);

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Arguments for `famulus up`
    #[arg(last = true)]
    args: Vec<String>,
}

/// Becomes `famulus up`; returns only when something failed before.
pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    programs::ensure(shell, &programs::BUILD).await?;
    tree::obtain(shell).await?;
    let program = root().join(PROGRAM);
    if !program.exists() {
        eprintln!(
            "compiling famulus, {} crates: 4 to 6 minutes on two cores, and only the first time",
            crates()?
        );
    }
    let mut build =
        cargo(["build", "--profile", "trying", "--package", PACKAGE, "--bin", "famulus"]);
    // It is looked for beside the program.
    build.args(["--package", RUNNER, "--bin", RUNNER]);
    if packs_relocations() {
        build.args(["--config", LINKED_SMALL]);
    }
    shell.run(build).await?;
    let error =
        Command::new(&program).arg("up").args(args.args).env_remove("LD_LIBRARY_PATH").exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}

/// Whether programs with packed relocations run here. Where nobody can tell they are taken not to.
fn packs_relocations() -> bool {
    match output_of(Command::new("getconf").arg("GNU_LIBC_VERSION")) {
        Ok(said) => glibc(&String::from_utf8_lossy(&said)).is_some_and(|found| found >= UNPACKS),
        Err(error) => {
            eprintln!("famulus is linked larger than it need be: {error:#}");
            false
        }
    }
}

/// The version that `getconf` tells, such as `glibc 2.36`.
fn glibc(said: &str) -> Option<(u32, u32)> {
    let (major, minor) = said.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// How many crates the program is made of. Those that have to be fetched are fetched, and named.
fn crates() -> Result<usize> {
    let mut tree =
        cargo(["tree", "--package", PACKAGE, "--package", RUNNER, "--edges", "normal,build"]);
    tree.args(["--prefix", "none", "--format", "{p} "]).stderr(Stdio::inherit());
    let listed = String::from_utf8(output_of(&mut tree)?).context("cargo tree is not text")?;
    Ok(listed
        .lines()
        .map(|line| line.trim_end_matches("(*)").trim_end())
        .collect::<BTreeSet<_>>()
        .len())
}

#[cfg(test)]
mod tests {
    use super::{UNPACKS, glibc};

    #[test]
    fn a_version_of_glibc_is_read() {
        assert_eq!(glibc("glibc 2.36\n"), Some(UNPACKS));
        assert!(glibc("glibc 2.35\n") < Some(UNPACKS));
        assert_eq!(glibc("musl 1.2.5\n"), None);
        assert_eq!(glibc(""), None);
    }
}
