//! `cargo xtask soak`: what is large only for certainty, whole.
//!
//! The daily run has a part of each: fewer fresh Pods, deaths, seeds. What stands in a module `soak` of
//! any test runs here, and properties are tried with many more cases.

use anyhow::{Context, Result};
use xtask_postgres::scratch::Scratch;
use xtask_shell::report::Report;
use xtask_shell::{Shell, cargo, programs, space};

use crate::binaries::{Binaries, Way};
use crate::test::{SOAK, clusters, look_at, prepare, start_images};

/// Of each property; without this they have 256.
const CASES: (&str, &str) = ("PROPTEST_CASES", "20000");

pub(crate) async fn run(shell: &mut Shell) -> Result<()> {
    let mut report = Report::begin();
    space::say()?;
    programs::ensure(shell, &programs::BUILD).await?;
    let binaries = prepare(shell, &mut report).await?;
    // Two builds from nothing, which must give the same.
    let images = start_images(&["--twice"])?;
    let scratch = Scratch::start(shell).await?;
    let url = scratch.url();
    let outcome = async {
        let way = Way { programs: 1, threads: 2, database: Some(&url), ..Way::of(&[SOAK]) };
        binaries.run(shell, Binaries::is_local, &way).await?;
        report.done("long runs of the workspace, beside images and their proofs");
        let way = Way { variables: &[CASES], database: None, ..Way::of(&["--skip", SOAK]) };
        binaries.run(shell, Binaries::is_unit, &way).await?;
        report.done("properties with many cases");
        Ok(())
    };
    let outcome: Result<()> = outcome.await;
    scratch.stop().await.context("cannot clean up after the tests")?;
    outcome?;
    images.finish(shell).await?;
    // As the images that users get have it: see `Profile::Release` of `cargo xtask images`.
    shell
        .run(cargo(["build", "--release", "--package", "famulus-server", "--bin", "famulus"]))
        .await?;
    look_at(shell, &binaries, "release").await?;
    report.done("a look at the program that is shipped");
    clusters(shell, &["--soak"], &mut report).await?;
    println!("{}\nok", report.table());
    Ok(())
}
