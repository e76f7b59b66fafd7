//! The part of a cluster that makes volumes: looks at all claims and volumes whenever one of them
//! changes, and from time to time.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use xtask_shell::Shell;

use crate::cluster::kubectl::Kubectl;
use crate::cluster::place::Place;

use super::{disk, plan};

/// Finds what no hint told of.
const EVERY: Duration = Duration::from_secs(10);

/// Hints come in swarms; one look serves them all.
const SETTLE: Duration = Duration::from_millis(50);

/// How long to wait before a watch that ended is begun anew.
const AGAIN: Duration = Duration::from_secs(1);

/// Runs until the cluster ends.
pub(in crate::cluster) async fn run(
    shell: &mut Shell,
    place: &Place,
    kubectl: &Kubectl,
) -> Result<()> {
    place.make_folder(disk::VOLUMES)?;
    let mut claims = Hints::of(kubectl, &["pvc", "--all-namespaces"]);
    let mut volumes = Hints::of(kubectl, &["pv"]);
    loop {
        if let Err(error) = sweep(place, kubectl) {
            eprintln!("{error:#}");
        }
        tokio::select! {
            hint = claims.next() => hint?,
            hint = volumes.next() => hint?,
            () = tokio::time::sleep(EVERY) => {}
            _ = shell.signals.wait_for_signal() => return Ok(()),
        }
        tokio::time::sleep(SETTLE).await;
        claims.forget().await;
        volumes.forget().await;
    }
}

fn sweep(place: &Place, kubectl: &Kubectl) -> Result<()> {
    let plan = plan::plan(&kubectl.list("pvc,pv")?);
    for refused in &plan.refused {
        eprintln!("{refused}");
    }
    for volume in &plan.make {
        let path = disk::make(place, volume)
            .with_context(|| format!("cannot make the volume {}", volume.name))?;
        kubectl.apply(&[volume.object(&path)])?;
        println!("made {} with {} bytes", volume.name, volume.bytes);
    }
    for name in &plan.remove {
        disk::remove(place, name).with_context(|| format!("cannot remove the volume {name}"))?;
        kubectl.call(&["delete", "pv", name, "--wait=false"])?;
        println!("removed {name}");
    }
    Ok(())
}

/// A line for every change of a kind of object.
struct Hints<'a> {
    kubectl: &'a Kubectl,
    what: &'a [&'a str],
    watch: Option<(Child, Lines<BufReader<ChildStdout>>)>,
}

impl<'a> Hints<'a> {
    fn of(kubectl: &'a Kubectl, what: &'a [&'a str]) -> Self {
        Self { kubectl, what, watch: None }
    }

    /// Waits for the next one. A watch ends now and then, and is begun anew.
    async fn next(&mut self) -> Result<()> {
        let watch = self.watch.take();
        let (_, lines) = self.watch.insert(watch.map_or_else(|| self.begin(), Ok)?);
        if lines.next_line().await?.is_none() {
            self.watch = None;
            tokio::time::sleep(AGAIN).await;
        }
        Ok(())
    }

    /// Drops those that have come.
    async fn forget(&mut self) {
        let Some((_, lines)) = &mut self.watch else { return };
        while let Ok(Ok(Some(_))) = tokio::time::timeout(Duration::ZERO, lines.next_line()).await {}
    }

    fn begin(&self) -> Result<(Child, Lines<BufReader<ChildStdout>>)> {
        let mut watch = Command::from(self.kubectl.command());
        watch.arg("get").args(self.what).args(["--watch", "--output", "name"]);
        watch.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = watch.spawn().context("cannot run kubectl")?;
        let lines = child.stdout.take().context("kubectl has no output")?;
        Ok((child, BufReader::new(lines).lines()))
    }
}
