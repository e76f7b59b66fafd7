//! `cargo xtask test`: everything that must hold, from a clean clone, in one command.
//!
//! ```text
//! format ─► build ─► lints ─► tests, the crash harness with them ─► examples ─► clusters, one beside the other
//!           programs of others ·· images ·······················      .sqlx
//! ```

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use xtask_postgres::scratch::Scratch;
use xtask_shell::beside::{Beside, Share};
use xtask_shell::report::Report;
use xtask_shell::workspace::FEATURES;
use xtask_shell::{Shell, cargo, programs, space};

use crate::binaries::{Binaries, Way};
use crate::elsewhere::{Other, path_of};
use crate::{check, kept, schemathesis, tidy};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the tests that need no database
    #[arg(long)]
    quick: bool,
    /// Everything but the images and what needs a cluster
    #[arg(long, conflicts_with_all = ["quick", "filter"])]
    no_cluster: bool,
    /// Only tests whose name contains this; leaves out the checks that are not tests
    filter: Option<String>,
}

/// What is large for certainty alone stands in modules of this name: see `cargo xtask soak`.
pub(crate) const SOAK: &str = "soak::";

/// How much of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Extent {
    All,
    NoCluster,
    /// Tests of a certain name, and no checks.
    Filtered,
    Quick,
}

impl Args {
    fn extent(&self) -> Extent {
        match (self.quick, self.no_cluster, &self.filter) {
            (true, _, _) => Extent::Quick,
            (_, _, Some(_)) => Extent::Filtered,
            (_, true, _) => Extent::NoCluster,
            (false, false, None) => Extent::All,
        }
    }
}

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let extent = args.extent();
    let checks = matches!(extent, Extent::All | Extent::NoCluster);
    let mut report = Report::begin();
    space::say()?;
    programs::ensure(shell, &programs::BUILD).await?;
    if checks {
        check::format(shell).await?;
        tidy::run()?;
        report.done("format and tidiness");
    }
    let others = begin(shell, extent == Extent::All, &mut report).await?;
    let binaries = build(shell, &mut report).await?;
    if checks {
        check::lints(shell).await?;
        kept::keep()?;
        report.done("lints");
    }
    let binaries = binaries.with(tools(shell, &mut report).await?);
    let words: Vec<&str> = ["--skip", SOAK].into_iter().chain(args.filter.as_deref()).collect();
    if extent == Extent::Quick {
        binaries.run(shell, Binaries::is_unit, &Way::of(&words)).await?;
        report.done("unit tests");
    } else {
        let scratch = Scratch::for_tests(shell).await?;
        let outcome = local(shell, &binaries, &words, &scratch, extent, &mut report).await;
        scratch.stop().await.context("cannot clean up after the tests")?;
        outcome?;
    }
    if checks {
        let failed = shell.test(cargo(["test", "--workspace", "--doc", "--features", FEATURES]));
        if let Some(failed) = failed.await? {
            bail!(failed);
        }
        report.done("examples in the documentation");
        // It takes what clusters leave.
        let beside = check::beside()?;
        others.finish(shell).await?;
        report.done("what was left of the programs of a cluster, begun with the build");
        if extent == Extent::All {
            clusters(shell, &[], &mut report).await?;
        }
        beside.finish(shell).await?;
        report.done("what was left of a look at .sqlx");
        kept::keep()?;
    }
    println!("{}\n{}", report.table(), closing(&args));
    Ok(())
}

/// Begins with what is kept of builds, and has what others wrote fetched and compiled beside ours: on a new machine
/// that takes a quarter of an hour, much of which it waits for somebody's network.
pub(crate) async fn begin(
    shell: &mut Shell,
    of_clusters: bool,
    report: &mut Report,
) -> Result<Beside> {
    kept::restore()?;
    programs::ensure(shell, &programs::PLUGINS).await?;
    let mut others = Other::Cluster.command()?;
    others.arg("programs").args(of_clusters.then_some("--of-clusters"));
    let others = Beside::start("programs", &others, Share::Rest)?;
    report.done("what the build needs");
    Ok(others)
}

/// Builds all tests.
pub(crate) async fn build(shell: &mut Shell, report: &mut Report) -> Result<Binaries> {
    let binaries = Binaries::build(shell).await?;
    report.done("build of all tests");
    Ok(binaries)
}

/// What tests need of others; who has it built beside is waited for.
pub(crate) async fn tools(
    shell: &mut Shell,
    report: &mut Report,
) -> Result<Vec<(&'static str, PathBuf)>> {
    // Tests of the chart render it, and those of plugins run some that are of Python.
    path_of(shell, "helm").await?;
    let tools = vec![
        ("FAMULUS_TEST_UV", path_of(shell, "uv").await?),
        ("FAMULUS_TEST_S3", path_of(shell, "s3").await?),
        ("FAMULUS_TEST_SCHEMATHESIS", schemathesis::obtain(shell).await?),
    ];
    report.done("what was left of what tests need");
    Ok(tools)
}

/// What needs no cluster.
async fn local(
    shell: &mut Shell,
    binaries: &Binaries,
    words: &[&str],
    scratch: &Scratch,
    extent: Extent,
    report: &mut Report,
) -> Result<()> {
    let url = scratch.url();
    // Tests mostly wait, and what they kill is not what images are made of.
    let images = if extent == Extent::All { Some(start_images(&[])?) } else { None };
    let way = Way { database: Some(&url), ..Way::of(words) };
    binaries.run(shell, Binaries::is_local, &way).await?;
    report.done("tests of the workspace, with the crash harness");
    if let Some(images) = images {
        images.finish(shell).await?;
        report.done("what was left of images and their proofs, begun with the tests");
    }
    Ok(())
}

/// Begins to build the images for tests, of the programs that the tests were built with.
pub(crate) fn start_images(words: &[&str]) -> Result<Beside> {
    let mut images = Other::Cluster.command()?;
    images.args(["images", "--profile", "dev", "--prove"]).args(words);
    Beside::start("images", &images, Share::Equal)
}

/// The tests of a whole installation, with the images that were just built.
pub(crate) async fn clusters(shell: &mut Shell, words: &[&str], report: &mut Report) -> Result<()> {
    let stages = tempfile::NamedTempFile::new()?;
    let mut suite = Other::Cluster.command()?;
    suite.args(["cluster", "suite", "--part-of"]).arg(stages.path()).args(words);
    // A cluster that somebody has at hand is not the one that is tested.
    suite.env_remove("KUBECONFIG");
    shell.run_ours(suite).await?;
    report.read(stages.path())
}

/// A run that left something out says so in its last line.
fn closing(args: &Args) -> String {
    let mut line = "ok".to_owned();
    if let Some(filter) = &args.filter {
        let _ = write!(
            line,
            "; only tests whose name contains {filter:?}, without the checks, what needs a cluster and \
             the look at the program that is shipped"
        );
    }
    if args.quick {
        line.push_str("; left out: everything that needs Postgres, and the checks");
    }
    if args.no_cluster {
        line.push_str("; left out: the images, and everything that needs a cluster");
    }
    line
}
