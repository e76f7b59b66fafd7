//! `cargo xtask cluster up`: from nothing to a node that is Ready.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use xtask_shell::{Shell, lock, output_of};

use super::build::Programs;
use super::internet::{self, Internet};
use super::kubectl::Kubectl;
use super::namespace::Namespaces;
use super::network::{self, Network};
use super::node::{self, Nodes};
use super::place::{NODE, Place};
use super::processes::{self, Process, start};
use super::storage::{self, Storage};
use super::variant::{self, Variant};
use super::{cgroups, control_plane, dns, down, images, keys, packages};

/// What was done and how long each part took.
pub(super) struct Stages {
    done: Vec<(&'static str, Duration)>,
    begun: Instant,
}

pub(super) async fn run(shell: &mut Shell, place: &Place, variant: Variant) -> Result<()> {
    let _lock = lock::take(shell, &place.lock(), "changes this cluster").await?;
    if is_up(place, variant)? {
        println!("cluster {} runs already; nothing was changed", place.name);
        say_how(place);
        return Ok(());
    }
    packages::ensure(shell, variant.network).await?;
    let programs = Programs::obtain(shell, &variant.modules()).await?;
    let stages = start_clean(shell, place, variant, &programs).await?;
    println!("cluster {} is up: {}", place.name, stages.told());
    say_how(place);
    Ok(())
}

/// Starts a cluster where none is. What a crash left is removed before, and after a failure nothing
/// but the work folder with its logs stays.
pub(super) async fn start_clean(
    shell: &mut Shell,
    place: &Place,
    variant: Variant,
    programs: &Programs,
) -> Result<Stages> {
    if down::is_there(place)? {
        eprintln!("removing what is left of cluster {}", place.name);
        down::remove(place).await?;
    }
    let outcome = tokio::select! {
        outcome = bring_up(place, variant, programs) => outcome,
        signal = shell.signals.wait_for_signal() => {
            Err(anyhow::anyhow!("stopped by a signal ({signal:?})"))
        }
    };
    if outcome.is_err() {
        down::end(place).await?;
    }
    outcome.with_context(|| {
        format!("cluster {} did not come up; its logs: {}", place.name, place.text("log"))
    })
}

/// Whether the cluster runs, in the wanted variant and with all its programs.
fn is_up(place: &Place, wanted: Variant) -> Result<bool> {
    let Some(namespaces) = Namespaces::find(place)? else { return Ok(false) };
    let Some(variant) = variant::kept(place) else { return Ok(false) };
    if variant != wanted.told() {
        bail!(
            "cluster {} runs with {variant}; take it down first, or choose another name",
            place.name
        );
    }
    processes::all_run(&namespaces, place).context("take the cluster down first")?;
    Ok(true)
}

async fn bring_up(place: &Place, variant: Variant, programs: &Programs) -> Result<Stages> {
    let mut stages = Stages { done: Vec::new(), begun: Instant::now() };
    prepare(place, variant, programs)?;
    stages.done("keys, images, configuration");
    let namespaces = Namespaces::create(place).await?;
    let kubectl = Kubectl::install(place, &namespaces, &programs.path("kubectl")?)?;
    let launch = Launch { place, namespaces: &namespaces, programs, kubectl: &kubectl };
    stages.done("namespaces");
    launch.start_all([
        control_plane::etcd(place, programs)?,
        control_plane::apiserver(place, programs)?,
    ])?;
    match variant.nodes {
        Nodes::One => launch.start_node(variant, &mut stages).await?,
        Nodes::None => {
            launch.until_served().await?;
            stages.done("API server");
        }
    }
    variant.keep(place)?;
    Ok(stages)
}
/// Writes everything that can be written before anything runs.
fn prepare(place: &Place, variant: Variant, programs: &Programs) -> Result<()> {
    keys::create(place)?;
    keys::publish(place)?;
    control_plane::write_audit_policy(place)?;
    node::write_configuration(place)?;
    variant.network.prepare(place, programs)?;
    match variant.internet {
        Internet::Beside => internet::prepare(place)?,
        Internet::None => {}
    }
    images::create(place, programs)?;
    cgroups::create(place)
}

/// A node on its way up.
struct Launch<'a> {
    place: &'a Place,
    namespaces: &'a Namespaces,
    programs: &'a Programs,
    kubectl: &'a Kubectl,
}

impl Launch<'_> {
    /// Everything that runs Pods, beside an API server that was started.
    async fn start_node(&self, variant: Variant, stages: &mut Stages) -> Result<()> {
        let Self { place, programs, kubectl, .. } = *self;
        match variant.internet {
            Internet::Beside => self.open_internet()?,
            Internet::None => {}
        }
        self.start_all([node::containerd(place, programs, &search_path())?])?;
        self.import_images().await?;
        stages.done("containerd, images");
        self.until_served().await?;
        stages.done("API server");
        self.start_all([
            control_plane::controller_manager(place, programs)?,
            control_plane::scheduler(place, programs)?,
            node::kubelet(place, programs)?,
            node::proxy(place, programs)?,
        ])?;
        kubectl.apply(&[vec![node::runtime_class()], dns::objects(variant.internet)].concat())?;
        match variant.storage {
            Storage::Standard => self.provide()?,
            Storage::None => {}
        }
        match variant.network {
            Network::Cilium => self.enforce().await?,
            Network::None => {}
        }
        stages.done("controllers, kubelet, network");
        self.until("the node", || node::ready(kubectl).is_some()).await?;
        stages.done("node Ready");
        self.until("the names of Services", || dns::is_ready(kubectl)).await?;
        stages.done("names");
        Ok(())
    }

    async fn until_served(&self) -> Result<()> {
        let is_ready = || self.kubectl.call(&["get", "--raw", "/readyz"]).is_ok();
        self.until("the API server", is_ready).await
    }

    fn start_all(&self, all: impl IntoIterator<Item = Process>) -> Result<()> {
        all.into_iter().try_for_each(|process| start(self.namespaces, self.place, &process))
    }

    async fn import_images(&self) -> Result<()> {
        let ctr = self.programs.path("ctr")?;
        let socket = self.place.text("containerd/containerd.sock");
        self.until("containerd", || {
            let mut version = self.namespaces.enter(&ctr);
            output_of(version.args(["--address", &socket, "version"])).is_ok()
        })
        .await?;
        images::import(self.place, &ctr)
    }

    /// Starts the enforcer once the node is known, and waits for it.
    async fn enforce(&self) -> Result<()> {
        network::apply_kinds(self.kubectl, self.programs)?;
        let is_known = || self.kubectl.get("", "node", NODE).is_ok_and(|node| node.is_some());
        self.until("the node's registration", is_known).await?;
        self.start_all([network::cilium(self.place, self.programs, &search_path())?])?;
        self.until("the policy enforcer", || network::is_ready(self.place).unwrap_or(false)).await
    }

    fn open_internet(&self) -> Result<()> {
        internet::connect(self.namespaces)?;
        self.start_all(internet::servers(self.place, self.programs)?)
    }

    /// Starts what makes volumes.
    fn provide(&self) -> Result<()> {
        self.kubectl.apply(&[storage::class()])?;
        self.start_all([storage::process(self.place, self.programs)?])
    }

    /// Waits, but not for something that has ended.
    async fn until(&self, what: &str, is_so: impl FnMut() -> bool) -> Result<()> {
        processes::until(self.namespaces, self.place, what, is_so).await
    }
}

fn search_path() -> String {
    std::env::var_os("PATH").unwrap_or_default().to_string_lossy().into_owned()
}

fn say_how(place: &Place) {
    let Place { name, folder } = place;
    println!("  use it:     cargo xtask cluster kubectl --name {name} -- get pods -A");
    println!("  remove it:  cargo xtask cluster down --name {name}");
    println!("  its folder: {} (log, kubeconfig, internet)", folder.display());
}

impl Stages {
    fn done(&mut self, what: &'static str) {
        let before: Duration = self.done.iter().map(|(_, took)| *took).sum();
        self.done.push((what, self.begun.elapsed().saturating_sub(before)));
    }

    /// All of them in a line.
    pub(super) fn told(&self) -> String {
        let told = |what: &str, took: Duration| format!("{what} {:.1} s", took.as_secs_f64());
        let all: Duration = self.done.iter().map(|(_, took)| *took).sum();
        let parts = self.done.iter().map(|(what, took)| told(what, *took));
        format!("{}; {}", parts.collect::<Vec<_>>().join(", "), told("in all", all))
    }
}
