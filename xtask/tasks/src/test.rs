//! `cargo xtask test`: everything that must hold, from a clean clone, in one command.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use xtask_postgres::scratch::Scratch;
use xtask_shell::report::Report;
use xtask_shell::{Shell, cargo, programs, space};

use crate::elsewhere::{Other, path_of};
use crate::{check, tidy};

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

pub(crate) async fn run(shell: &mut Shell, args: Args) -> Result<()> {
    let Args { quick, no_cluster, filter } = args;
    let filter = filter.as_deref();
    let mut report = Report::begin();
    space::say()?;
    programs::ensure(shell, &programs::BUILD).await?;
    if filter.is_none() && !quick {
        check::format(shell).await?;
        tidy::run()?;
        report.done("format and tidiness");
    }
    // Tests of the chart render it.
    path_of(shell, "helm").await?;
    shell.run(tests(&["--lib", "--bins"], filter)).await?;
    report.done("unit tests");
    if !quick {
        let scratch = Scratch::start(shell).await?;
        let outcome = with_database(shell, &scratch, filter, &mut report).await;
        scratch.stop().await.context("cannot clean up after the tests")?;
        outcome?;
    }
    if no_cluster {
        for one in check::beside()? {
            one.finish(shell).await?;
        }
        report.done("lints and a look at .sqlx");
    } else if filter.is_none() && !quick {
        let mut images = Other::Cluster.command()?;
        images.args(["images", "--profile", "dev", "--prove"]);
        shell.run_ours(images).await?;
        report.done("images and their proofs");
        // Tests of a cluster mostly wait for it.
        let beside = check::beside()?;
        clusters(shell, &mut report).await?;
        for one in beside {
            one.finish(shell).await?;
        }
        report.done("the rest of the lints and of a look at .sqlx, begun with the clusters");
    }
    println!("{}\n{}", report.table(), closing(quick, no_cluster, filter));
    Ok(())
}

/// The tests of a whole installation, with the images that were just built.
async fn clusters(shell: &mut Shell, report: &mut Report) -> Result<()> {
    let stages = tempfile::NamedTempFile::new()?;
    let mut suite = Other::Cluster.command()?;
    suite.args(["cluster", "suite", "--part-of"]).arg(stages.path());
    // A cluster that somebody has at hand is not the one that is tested.
    suite.env_remove("KUBECONFIG");
    shell.run_ours(suite).await?;
    report.read(stages.path())
}

async fn with_database(
    shell: &mut Shell,
    scratch: &Scratch,
    filter: Option<&str>,
    report: &mut Report,
) -> Result<()> {
    // The unit tests run again with them, in seconds: `--test '*'` would also demand the targets
    // that need the harness.
    programs::ensure(shell, &programs::PLUGINS).await?;
    let uv = path_of(shell, "uv").await?;
    let mut integration = tests(&["--tests"], filter);
    integration.env("FAMULUS_TEST_UV", uv);
    integration.env("FAMULUS_TEST_DATABASE_URL", scratch.url());
    shell.run(integration).await?;
    report.done("integration tests with Postgres");
    let mut crashes = cargo(["test", "--workspace", "--features", "famulus-server/harness"]);
    crashes.args(["--no-fail-fast", "--test", "crash", "--test", "release_is_clean"]);
    if let Some(filter) = filter {
        crashes.args(["--", filter]);
    }
    crashes.env("FAMULUS_TEST_DATABASE_URL", scratch.url());
    shell.run(crashes).await?;
    report.done("crash harness");
    if filter.is_none() {
        shell.run(cargo(["test", "--workspace", "--doc"])).await?;
        report.done("examples in the documentation");
    }
    Ok(())
}

fn tests(targets: &[&str], filter: Option<&str>) -> std::process::Command {
    // Always the whole workspace: of a part of it, other features of the same crates would be built.
    // Tests of a whole installation are behind a feature: see `xtask/cluster/src/cluster/suite.rs`.
    let mut command = cargo(["test", "--workspace", "--no-fail-fast"]);
    command.args(targets);
    if let Some(filter) = filter {
        command.args(["--", filter]);
    }
    command
}

/// A run that left something out says so in its last line.
fn closing(quick: bool, no_cluster: bool, filter: Option<&str>) -> String {
    let mut line = "ok".to_owned();
    if let Some(filter) = filter {
        let _ = write!(line, "; only tests whose name contains {filter:?}");
    }
    if quick {
        line.push_str("; left out: everything that needs Postgres, and the checks");
    }
    if no_cluster {
        line.push_str("; left out: the images, and everything that needs a cluster");
    }
    line
}
