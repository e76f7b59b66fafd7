//! `cargo xtask cluster suite`: the tests of a whole installation, on a real cluster.
//!
//! ```text
//! images of this tree ─► cluster ─► helm install ─► its targets, one after another ─► cluster is removed
//! ```
//!
//! With KUBECONFIG set they run against that cluster and the release that is installed there; what
//! needs the node itself is then left out, and named.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use xtask_shell::report::Report;
use xtask_shell::{Shell, cargo, output_of, space};

use crate::images;

use super::namespace::Namespaces;
use super::place::Place;
use super::variant::Variant;
use super::{down, kubectl, processes, release, up};

/// Tests of `tests/cluster` that share what they do to a cluster, in the order in which they run.
struct Target {
    name: &'static str,
    /// How many tests run at once; what breaks the node or measures others runs alone.
    threads: &'static str,
}

/// A cluster, the release on it, and the tests that want it so.
struct Home {
    /// Behind the name of the cluster.
    suffix: &'static str,
    variant: Variant,
    /// Further words of `helm install`.
    values: &'static [&'static str],
    targets: &'static [Target],
}

/// What runs on any cluster.
const ANYWHERE: Target = Target { name: "cluster", threads: "3" };

/// Nothing is installed afterwards, so the chart's own tests come before it.
const UNINSTALL: Target = Target { name: "uninstall", threads: "1" };

const HOMES: [Home; 2] = [
    Home {
        suffix: "",
        variant: Variant::WHOLE,
        values: &[],
        targets: &[
            ANYWHERE,
            Target { name: "node", threads: "3" },
            Target { name: "hostile", threads: "2" },
            Target { name: "network", threads: "1" },
            // It reads what the others had app and operator do.
            Target { name: "rights", threads: "1" },
            Target { name: "chaos", threads: "1" },
            UNINSTALL,
        ],
    },
    // Nothing enforces policies there, and nothing makes volumes.
    Home {
        suffix: "-open",
        variant: Variant::PLAIN,
        values: &["--set", "postgres.persistence.enabled=false"],
        targets: &[Target { name: "open", threads: "1" }],
    },
];

#[derive(clap::Args)]
pub(super) struct Wanted {
    /// Leave the cluster as it is when the tests have run, for a look at it
    #[arg(long)]
    keep: bool,
    /// Only this target of tests/cluster, `chaos` for one
    #[arg(long = "test")]
    target: Option<String>,
    /// As a part of `cargo xtask test`, which has built the images: no table is printed, the stages go
    /// into this file
    #[arg(long, hide = true, value_name = "FILE")]
    part_of: Option<PathBuf>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

impl Wanted {
    fn targets_of(&self, home: &'static Home) -> Vec<&'static Target> {
        let is_wanted = |target: &&Target| self.target.as_ref().is_none_or(|it| it == target.name);
        home.targets.iter().filter(is_wanted).collect()
    }

    fn is_all(&self) -> bool {
        self.target.is_none() && self.filter.is_none()
    }
}

pub(super) async fn run(shell: &mut Shell, name: &str, wanted: &Wanted) -> Result<()> {
    let known = || HOMES.iter().flat_map(|home| home.targets).map(|target| target.name);
    if let Some(target) = &wanted.target {
        ensure!(
            known().any(|name| name == target),
            "there are no tests `{target}` in tests/cluster; there are: {}",
            known().collect::<Vec<_>>().join(", ")
        );
    }
    if std::env::var_os("KUBECONFIG").is_some() {
        let others: Vec<_> = known().filter(|name| *name != ANYWHERE.name).collect();
        println!(
            "KUBECONFIG is set: tests that need a node of ours are left out ({})",
            others.join(", ")
        );
        return shell.run(tests(&ANYWHERE, wanted.filter.as_deref())).await;
    }
    if wanted.part_of.is_none() {
        images::for_tests(shell, &release::IMAGES).await?;
    }
    let mut report = Report::begin();
    with_images(shell, name, wanted, &release::IMAGES.map(images::archive_of), &mut report).await?;
    if let Some(file) = &wanted.part_of {
        return report.write(file);
    }
    println!("{}", report.table());
    Ok(())
}

async fn with_images(
    shell: &mut Shell,
    name: &str,
    wanted: &Wanted,
    archives: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    for home in HOMES.iter().filter(|home| !wanted.targets_of(home).is_empty()) {
        let place = Place::new(&format!("{name}{}", home.suffix))?;
        up::run(shell, &place, home.variant).await?;
        report.done(&format!("a cluster, `{}`", place.name));
        let outcome = on_the_node(shell, &place, home, wanted, archives, report).await;
        if outcome.is_err() {
            say_what_is_there(&place);
        }
        if !wanted.keep {
            down::run(shell, &place).await?;
        }
        outcome?;
    }
    Ok(())
}

async fn on_the_node(
    shell: &mut Shell,
    place: &Place,
    home: &'static Home,
    wanted: &Wanted,
    archives: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    release::install(shell, place, archives, home.values).await?;
    report.done("helm install");
    for target in wanted.targets_of(home) {
        if target.name == UNINSTALL.name && wanted.is_all() {
            release::test(shell, place).await?;
            report.done("helm test");
        }
        let tests = tests(target, wanted.filter.as_deref());
        let tests = release::looked_at(shell, place, &tests).await?;
        shell.run(tests).await?;
        report.done(&format!("tests/cluster: {}", target.name));
    }
    Ok(())
}

fn tests(target: &Target, filter: Option<&str>) -> Command {
    let mut command =
        cargo(["test", "--workspace", "--features", "famulus-cluster-tests/installed"]);
    command.args(["--test", target.name, "--", "--test-threads", target.threads]).args(filter);
    command
}

/// What one would look at first.
fn say_what_is_there(place: &Place) {
    let nodes = Namespaces::running(place).and_then(|it| processes::all_run(&it, place));
    for complaint in [nodes.err(), space::say().err()].into_iter().flatten() {
        eprintln!("{complaint:#}");
    }
    for what in ["pods", "plugins", "events"] {
        let mut command = kubectl::Kubectl::of(place).command();
        command.args(["get", what, "-A", "-o", "wide"]);
        if let Ok(said) = output_of(&mut command) {
            eprintln!("{}", String::from_utf8_lossy(&said));
        }
    }
    for part in ["deployment/famulus", "deployment/famulus-operator"] {
        let mut command = kubectl::Kubectl::of(place).command();
        command.args(["-n", release::NAME, "logs", "--all-containers", "--tail=100", part]);
        if let Ok(said) = output_of(&mut command) {
            eprintln!("{part}:\n{}", String::from_utf8_lossy(&said));
        }
    }
}
