//! Famulus on a cluster of ours: its images, its installation, and programs that look at it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use xtask_shell::workspace::root;
use xtask_shell::{Shell, own_program};

use super::place::Place;
use super::{enter, load};

/// The images of a release, with both runners.
pub(super) const IMAGES: [&str; 7] =
    ["app", "operator", "runner-slim", "runner-full", "postgres", "backup", "resolver"];

/// What tests install beside it.
pub(super) const OF_TESTS: [&str; 1] = ["scripted-signal"];

/// The release and its namespace.
pub(super) const NAME: &str = "famulus";

/// Hands over images, and installs or upgrades the chart; `values` are further words of helm.
pub(super) async fn install(
    shell: &mut Shell,
    place: &Place,
    archives: &[PathBuf],
    values: &[&str],
) -> Result<()> {
    load::run(shell, place, archives).await?;
    let path = |path: &str| root().join(path).display().to_string();
    let chart = path("charts/famulus");
    let files = [path("config/trial.yaml"), path("tests/cluster/values.yaml")].join(",");
    let mut words = vec!["upgrade", "--install", "--create-namespace", "--wait", "--timeout", "5m"];
    words.extend(["-n", NAME, NAME, &chart, "-f", &files]);
    words.extend(values);
    helm(shell, place, &words).await
}

/// The chart's own tests.
pub(super) async fn test(shell: &mut Shell, place: &Place) -> Result<()> {
    helm(shell, place, &["test", "--timeout", "5m", "-n", NAME, NAME]).await
}

async fn helm(shell: &mut Shell, place: &Place, words: &[&str]) -> Result<()> {
    let helm = super::helm(shell).await?;
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    shell.run(enter::inside(place, &helm, &words)?).await
}

/// A program of cargo's that looks at the release from inside of the cluster's network, where the
/// port of the app is forwarded to.
pub(super) async fn looked_at(
    shell: &mut Shell,
    place: &Place,
    program: &Command,
) -> Result<Command> {
    let helm = super::helm(shell).await?;
    let mut inside = enter::as_inside(place, program)?;
    inside.env("FAMULUS_TEST_KUBECTL", place.at("kubectl"));
    inside.env("FAMULUS_TEST_HELM", helm);
    inside.env("FAMULUS_TEST_S3", super::s3(shell).await?);
    inside.env("FAMULUS_TEST_NODE", &place.folder);
    inside.env("FAMULUS_TEST_XTASK", own_program()?);
    Ok(inside)
}
