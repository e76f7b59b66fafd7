//! `cargo xtask soak`: what is large only for certainty, whole.
//!
//! The daily run has a part of each: fewer fresh Pods, deaths, seeds. What stands in a module `soak` of
//! any test runs here, and properties are tried with many more cases.

use anyhow::{Context, Result, ensure};
use xtask_postgres::scratch::Scratch;
use xtask_shell::report::Report;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, cargo, programs, space};

use crate::binaries::{Binaries, Way};
use crate::test::{SOAK, begin, build, clusters, start_images, tools};

/// Of each property; without this they have 256.
const CASES: (&str, &str) = ("PROPTEST_CASES", "20000");

#[derive(clap::Args)]
pub(crate) struct Args {
    /// One half of it, for who has no hours in one piece
    #[arg(long, value_name = "HALF")]
    only: Option<Half>,
    /// One long run of the workspace by the beginning of its test's name, and nothing else
    #[arg(long, value_name = "NAME", conflicts_with = "only")]
    run: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Half {
    /// The long runs of the workspace, and properties with many cases
    Workspace,
    /// Images built twice, the program that is shipped, and whole installations
    Installation,
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let only = args.only.or_else(|| args.run.as_ref().map(|_| Half::Workspace));
    let wants = |half| only.is_none_or(|only| only == half);
    let mut report = Report::begin();
    space::say()?;
    programs::ensure(shell, &programs::BUILD).await?;
    let others = begin(shell, wants(Half::Installation), &mut report).await?;
    let binaries = build(shell, &mut report).await?;
    let binaries = binaries.with(tools(shell, &mut report).await?);
    // Two builds from nothing, which must give the same; beside what mostly waits.
    let images = if wants(Half::Installation) { Some(start_images(&["--twice"])?) } else { None };
    if wants(Half::Workspace) {
        workspace(shell, &binaries, args.run.as_deref(), &mut report).await?;
    }
    if let Some(images) = images {
        images.finish(shell).await?;
        report.done("what was left of images and their proofs");
        others.finish(shell).await?;
        report.done("what was left of the programs of a cluster");
        installation(shell, &binaries, &mut report).await?;
    }
    println!("{}\nok", report.table());
    Ok(())
}

/// All long runs, and properties with many cases; or the long runs whose names begin so.
async fn workspace(
    shell: &mut Shell,
    binaries: &Binaries,
    name: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    let scratch = Scratch::for_tests(shell).await?;
    let url = scratch.url();
    let outcome = async {
        if let Some(name) = name {
            let (begins, seen) = (format!("{SOAK}{name}"), "--nocapture");
            let words = [begins.as_str(), seen];
            let way = Way { programs: 1, threads: 2, database: Some(&url), ..Way::of(&words) };
            let ran = binaries.run(shell, Binaries::is_local, &way).await?;
            ensure!(ran > 0, "no long run of the workspace has a name that begins with `{name}`");
            report.done("what was asked for");
            return Ok(());
        }
        // The longest takes its tests by turns, and begins first: all others fit beside it.
        let way = Way { programs: 2, threads: 2, database: Some(&url), ..Way::of(&[SOAK]) };
        binaries.run(shell, Binaries::is_local, &way).await?;
        report.done("long runs of the workspace");
        let way = Way { variables: &[CASES], database: None, ..Way::of(&["--skip", SOAK]) };
        binaries.run(shell, Binaries::is_unit, &way).await?;
        report.done("properties with many cases");
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    scratch.stop().await.context("cannot clean up after the tests")?;
    outcome
}

async fn installation(shell: &mut Shell, binaries: &Binaries, report: &mut Report) -> Result<()> {
    // As the images that users get have it: see `Profile::Release` of `cargo xtask images`.
    shell
        .run(cargo(["build", "--release", "--package", "famulus-server", "--bin", "famulus"]))
        .await?;
    look_at(shell, binaries).await?;
    report.done("a look at the program that is shipped");
    clusters(shell, &["--soak"], report).await
}

/// Whether the program that is shipped knows what only the crash harness may know.
async fn look_at(shell: &mut Shell, binaries: &Binaries) -> Result<()> {
    let program = root().join("target/release/famulus").display().to_string();
    let variables = [("FAMULUS_RELEASE_BINARY", program.as_str())];
    let way = Way { variables: &variables, ..Way::of(&[]) };
    binaries.run(shell, Binaries::is_of_release, &way).await.map(drop)
}
