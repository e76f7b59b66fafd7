//! `cargo xtask cluster test`: that a cluster is what it claims to be.
//!
//! Two clusters stand side by side, one with a policy enforcer and one without. Each check says what
//! holds, or why it does not; nothing is skipped. At the end the machine must look as before.

mod cells;
mod machine;
mod outside;
mod pods;
mod report;
mod volumes;

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use xtask_shell::workspace::cache;
use xtask_shell::{Shell, lock};

use super::kubectl::Kubectl;
use super::namespace::Namespaces;
use super::place::Place;
use super::variant::Variant;
use super::{cgroups, down, processes, status, up};

use report::Report;

pub(super) async fn run(shell: &mut Shell) -> Result<()> {
    let (enforced, plain) = (Place::new("test-cilium")?, Place::new("test-plain")?);
    let file = cache().join("clusters/test.lock");
    let _lock = lock::take(shell, &file, "tests clusters").await?;
    for place in [&enforced, &plain] {
        down::run(shell, place).await?;
    }
    let before = machine::facts(&[&enforced, &plain])?;
    let mut report = Report::default();
    let outcome = check(shell, &mut report, &enforced, &plain).await;
    for place in [&enforced, &plain] {
        let what = format!("{} goes without residue", place.name);
        report.note(&what, down::run(shell, place).await.map(|()| String::new()));
    }
    let compared = machine::compare(&before, &[&enforced, &plain]);
    report.note("the machine looks as before", compared);
    outcome?;
    report.finish()
}

/// A cluster that does not come up ends it; every other failure is noted, and the rest goes on.
async fn check(
    shell: &mut Shell,
    report: &mut Report,
    enforced: &Place,
    plain: &Place,
) -> Result<()> {
    up::run(shell, enforced, Variant::WHOLE).await?;
    up::run(shell, plain, Variant::PLAIN).await?;
    report.note("two clusters run side by side", apart(enforced, plain));
    report.note("a second `up` changes nothing", again(shell, enforced).await);
    let kubectl = Kubectl::of(enforced);
    pods::check(report, &kubectl).await;
    volumes::check(report, &kubectl, enforced).await;
    outside::check(report, &kubectl, enforced).await;
    report.note("without a class there is no storage", volumes::absent(&Kubectl::of(plain)));
    report.note("the audit log tells who made what", audited(enforced));
    report.note("policies are enforced", cells::enforced(&kubectl).await);
    report.note(
        "without an enforcer policies are ignored",
        cells::ignored(&Kubectl::of(plain)).await,
    );
    status::run(enforced)?;
    report.note("an ended program is named", ended(shell, plain).await);
    report.note("`up` cleans up after a crash", crashed(shell, plain).await);
    report
        .note("without an internet only Services have names", outside::absent(&Kubectl::of(plain)));
    Ok(())
}

fn apart(one: &Place, other: &Place) -> Result<String> {
    let id = |place: &Place| {
        Kubectl::of(place).call(&[
            "get",
            "namespace",
            "kube-system",
            "-o",
            "jsonpath={.metadata.uid}",
        ])
    };
    ensure!(id(one)? != id(other)?, "both kubectl speak to the same cluster");
    ensure!(!cgroups::left(one)?.is_empty(), "there is no control group");
    Ok(String::new())
}

async fn again(shell: &mut Shell, place: &Place) -> Result<String> {
    let first = || Ok::<_, anyhow::Error>(Namespaces::find(place)?.map(|one| one.first));
    let before = first()?;
    up::run(shell, place, Variant::WHOLE).await?;
    ensure!(before.is_some() && before == first()?, "the cluster was started anew");
    let other = up::run(shell, place, Variant::PLAIN).await;
    ensure!(other.is_err(), "another network was accepted");
    Ok(String::new())
}

fn audited(place: &Place) -> Result<String> {
    let log = fs::read_to_string(place.at("audit.log")).context("there is no audit log")?;
    let events =
        log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let mut made = events.filter(|event| {
        // What is applied is a patch, also where it makes something.
        event["verb"] == "patch"
            && event["objectRef"]["resource"] == "pods"
            && event["objectRef"]["subresource"].is_null()
            && event["objectRef"]["namespace"] == pods::NAMESPACE
    });
    let event = made.next().context("the log does not know of a Pod that was made")?;
    ensure!(event["user"]["username"] == "admin", "it names {}", event["user"]["username"]);
    ensure!(event["level"] == "Metadata" && event["requestObject"].is_null(), "it holds content");
    Ok(format!("{} lines", log.lines().count()))
}

/// Ends the scheduler: `up` must not take the cluster for whole.
async fn ended(shell: &mut Shell, place: &Place) -> Result<String> {
    let namespaces = Namespaces::running(place)?;
    let inside = namespaces.processes()?;
    let scheduler = processes::find(place, &inside, "kube-scheduler");
    kill(scheduler.context("there is no scheduler")?.pid)?;
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;
    let Err(error) = up::run(shell, place, Variant::PLAIN).await else {
        bail!("`up` took a cluster without a scheduler for whole");
    };
    ensure!(format!("{error:#}").contains("kube-scheduler ended"), "`up` says: {error:#}");
    Ok(String::new())
}

/// Ends the first process, as a crash of the machine would.
async fn crashed(shell: &mut Shell, place: &Place) -> Result<String> {
    let namespaces = Namespaces::running(place)?;
    kill(namespaces.first)?;
    up::run(shell, place, Variant::PLAIN).await?;
    pods::becomes_ready(&Kubectl::of(place)).await
}

fn kill(pid: u32) -> Result<()> {
    let pid = Pid::from_raw(pid as i32).context("no process")?;
    Ok(kill_process(pid, Signal::KILL)?)
}
