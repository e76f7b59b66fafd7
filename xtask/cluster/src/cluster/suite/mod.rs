//! `cargo xtask cluster suite`: the tests of a whole installation, on a real cluster.
//!
//! ```text
//! images of this tree ─┬─► cluster ─► helm install ─► its targets, one after another ─► cluster is removed
//!                      ├─► another, beside it
//!                      └─────────────────────► the late ones, one after another
//! ```
//!
//! Two clusters at a time while they take all of two cores: a third makes neither faster, and its parts wait
//! so long for a processor that leases run out. It begins when the first has come to what mostly waits. What
//! runs beside is the work of another process.
//!
//! With KUBECONFIG set they run against that cluster and the release that is installed there, as far as they
//! need nothing of a node of ours; what is left out is named.

mod homes;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::mem;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use tempfile::NamedTempFile;
use xtask_shell::beside::{Beside, Share};
use xtask_shell::report::Report;
use xtask_shell::workspace::FEATURES;
use xtask_shell::{Shell, Stopped, cargo, output_of, own_program, space};

use crate::images;

use super::namespace::Namespaces;
use super::network::Network;
use super::place::Place;
use super::{build, down, kubectl, load, packages, pins, processes, release, up};
use homes::{HOMES, Home, Needs, Target, UNINSTALL};

/// What the clusters beside the first are called together, and those that begin late.
const OTHERS: &str = "clusters";
const LATE: &str = "late-clusters";

#[derive(clap::Args)]
pub(super) struct Wanted {
    /// Leave the cluster as it is when the tests have run, for a look at it
    #[arg(long)]
    keep: bool,
    /// Only this target of tests/cluster, `chaos` for one
    #[arg(long = "test")]
    target: Option<String>,
    /// What is left out day by day because it is large only for certainty, and nothing else
    #[arg(long)]
    soak: bool,
    /// Only these clusters of them, one after another
    #[arg(long, hide = true)]
    home: Vec<String>,
    /// As a part of `cargo xtask test`, which has built the images: no table is printed, the stages go
    /// into this file
    #[arg(long, hide = true, value_name = "FILE")]
    part_of: Option<PathBuf>,
    /// Only tests whose name contains this
    filter: Option<String>,
}

impl Wanted {
    fn targets_of(&self, home: &'static Home) -> Vec<&'static Target> {
        let is_here = self.home.is_empty() || self.home.iter().any(|it| it == home.name);
        let is_wanted =
            |target: &&Target| is_here && self.names(target) && (target.soaks || !self.soak);
        home.targets.iter().filter(is_wanted).collect()
    }

    fn names(&self, target: &Target) -> bool {
        self.target.as_ref().is_none_or(|it| it == target.name)
    }

    /// Whether a target can run on a cluster that is not ours.
    fn runs_elsewhere(&self, target: &Target) -> bool {
        match target.needs {
            Needs::Nothing => true,
            Needs::OpenNetwork => self.target.is_some(),
            Needs::Node => false,
        }
    }

    fn homes(&self) -> Vec<&'static Home> {
        HOMES.iter().filter(|home| !self.targets_of(home).is_empty()).collect()
    }

    fn is_all(&self) -> bool {
        self.target.is_none() && self.filter.is_none() && !self.soak
    }

    /// Which tests of a target.
    fn words(&self) -> Vec<&str> {
        let soak: &[&str] = if self.soak { &["soak::"] } else { &["--skip", "soak::"] };
        soak.iter().copied().chain(self.filter.as_deref()).collect()
    }

    /// The program that does these homes with images that are there.
    fn others(&self, name: &str, homes: &[&Home], stages: &Path) -> Result<Command> {
        let mut command = Command::new(own_program()?);
        command.args(["cluster", "suite", "--name", name, "--part-of"]).arg(stages);
        command.args(homes.iter().flat_map(|home| ["--home", home.name]));
        let flags = [("--keep", self.keep), ("--soak", self.soak)];
        command.args(flags.into_iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
        command.args(self.target.iter().flat_map(|target| ["--test", target]));
        command.args(&self.filter);
        Ok(command)
    }
}

/// The clusters beside the one of this process.
struct Others<'a> {
    name: &'a str,
    wanted: &'a Wanted,
    late: Vec<&'static Home>,
    running: Vec<(&'static str, Beside, NamedTempFile)>,
}

impl<'a> Others<'a> {
    /// Begins with those that are not late.
    fn begin(name: &'a str, wanted: &'a Wanted, homes: &[&'static Home]) -> Result<Self> {
        let (late, at_once): (Vec<_>, Vec<_>) = homes.iter().partition(|home| home.is_late);
        let mut others = Self { name, wanted, late, running: Vec::new() };
        others.start(OTHERS, &at_once)?;
        Ok(others)
    }

    /// Begins with the late ones, if that was not done.
    fn start_late(&mut self) -> Result<()> {
        let late = mem::take(&mut self.late);
        self.start(LATE, &late)
    }

    fn start(&mut self, what: &'static str, homes: &[&Home]) -> Result<()> {
        if !homes.is_empty() {
            let stages = NamedTempFile::new()?;
            let program = self.wanted.others(self.name, homes, stages.path())?;
            self.running.push((what, Beside::start(what, &program, Share::Equal)?, stages));
        }
        Ok(())
    }

    /// Waits for all of them; what failed.
    async fn finish(mut self, shell: &mut Shell, report: &mut Report) -> Result<Vec<String>> {
        self.start_late()?;
        let mut failed = Vec::new();
        for (what, process, stages) in self.running {
            match process.finish(shell).await {
                Ok(()) => report.read_beside(what, stages.path())?,
                // The others end with this.
                Err(error) if error.is::<Stopped>() => return Err(error),
                Err(error) => failed.push(format!("{error:#}")),
            }
        }
        Ok(failed)
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
        return elsewhere(shell, wanted).await;
    }
    let all = [&release::IMAGES[..], &release::OF_TESTS].concat();
    if wanted.part_of.is_none() {
        images::for_tests(shell, &all).await?;
    }
    let mut report = Report::begin();
    let archives: Vec<_> = all.into_iter().map(images::archive_of).collect();
    with_images(shell, name, wanted, &archives, &mut report).await?;
    if let Some(file) = &wanted.part_of {
        return report.write(file);
    }
    println!("{}", report.table());
    Ok(())
}

/// On the cluster that KUBECONFIG names, with the release that is there.
async fn elsewhere(shell: &mut Shell, wanted: &Wanted) -> Result<()> {
    let targets = HOMES.iter().flat_map(|home| wanted.targets_of(home));
    let (here, others): (Vec<_>, Vec<_>) = targets.partition(|it| wanted.runs_elsewhere(it));
    let reasons = [
        (Needs::Node, "a node of ours"),
        (Needs::OpenNetwork, "a cluster that ignores policies, and to be named by --test"),
    ];
    let mut left_out = String::from("KUBECONFIG is set");
    for (needs, what) in reasons {
        let names: BTreeSet<_> =
            others.iter().filter(|it| it.needs == needs).map(|it| it.name).collect();
        if !names.is_empty() {
            let names = names.into_iter().collect::<Vec<_>>().join(", ");
            let _ = write!(left_out, "; left out is what needs {what}: {names}");
        }
    }
    ensure!(!here.is_empty(), "{left_out}; no other test is wanted");
    println!("{left_out}");
    for target in here {
        if let Some(failed) = shell.test(tests(target, wanted)).await? {
            bail!(failed);
        }
    }
    Ok(())
}

async fn with_images(
    shell: &mut Shell,
    name: &str,
    wanted: &Wanted,
    archives: &[PathBuf],
    report: &mut Report,
) -> Result<()> {
    let homes = wanted.homes();
    ensure!(!homes.is_empty(), "no test is wanted");
    let (ours, others) = homes.split_at(if wanted.home.is_empty() { 1 } else { homes.len() });
    if !others.is_empty() {
        // Once, before several want them.
        packages::ensure(shell, Network::Cilium).await?;
        build::Programs::obtain(shell, &pins::ALL).await?;
        report.done("programs of a cluster");
    }
    let mut others = Others::begin(name, wanted, others)?;
    let mut failed = Vec::new();
    for home in ours {
        match one(shell, home, archives, &mut others, report).await {
            Ok(()) => {}
            Err(error) if error.is::<Stopped>() => return Err(error),
            Err(error) => failed.push(format!("{}: {error:#}", home.name)),
        }
    }
    failed.extend(others.finish(shell, report).await?);
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// A cluster, and what is tested there.
async fn one(
    shell: &mut Shell,
    home: &'static Home,
    archives: &[PathBuf],
    others: &mut Others<'_>,
    report: &mut Report,
) -> Result<()> {
    let place = Place::new(&format!("{}-{}", others.name, home.name))?;
    up::run(shell, &place, home.variant).await?;
    report.done(&format!("a cluster, `{}`", place.name));
    let outcome = on_the_node(shell, &place, home, archives, others, report).await;
    if outcome.is_err() {
        say_what_is_there(&place);
    }
    if !others.wanted.keep {
        down::run(shell, &place).await?;
    }
    outcome
}

async fn on_the_node(
    shell: &mut Shell,
    place: &Place,
    home: &'static Home,
    archives: &[PathBuf],
    others: &mut Others<'_>,
    report: &mut Report,
) -> Result<()> {
    match home.values {
        Some(values) => release::install(shell, place, archives, values).await?,
        None => load::run(shell, place, archives).await?,
    }
    report.done(if home.values.is_some() { "helm install" } else { "images handed over" });
    let (wanted, mut failed) = (others.wanted, Vec::new());
    for target in wanted.targets_of(home) {
        if target.waits {
            others.start_late()?;
        }
        if target.name == UNINSTALL.name && !failed.is_empty() {
            // What is there is looked at.
            break;
        }
        if target.name == UNINSTALL.name && wanted.is_all() {
            release::test(shell, place).await?;
            report.done("helm test");
        }
        let tests = tests(target, wanted);
        let tests = release::looked_at(shell, place, &tests).await?;
        failed.extend(shell.test(tests).await?);
        report.done(&format!("tests/cluster: {}", target.name));
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

fn tests(target: &Target, wanted: &Wanted) -> Command {
    let mut command = cargo(["test", "--workspace", "--features", FEATURES]);
    command.args(["--test", target.name, "--", "--test-threads", target.threads]);
    command.args(wanted.words());
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
