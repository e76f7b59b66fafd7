//! Follows what the operator mounts and what builds leave: configuration, bearer and revision.

use std::path::PathBuf;
use std::time::Duration;

use famulus_errors::chain;
use famulus_protocol::revision::{Built, Network, Probed, digest};
use famulus_runner_harness::supervisor::Supervisor;
use famulus_runner_harness::{Mount, Mounted};
use famulus_telemetry::Redactor;
use tokio::sync::OwnedRwLockWriteGuard;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::bundle::Failure;
use crate::fetch_revision::fetch_revision;
use crate::plugin::Plugin;
use crate::settings::Cluster;
use crate::switch;
use crate::volume::Volume;
use famulus_runner_harness::probe;
use famulus_runner_harness::termination;

/// Between two looks at the mount, and when somebody waits for what it will hold.
const LOOK: Duration = Duration::from_secs(1);
const LOOK_SOON: Duration = Duration::from_millis(100);

/// Between two looks at a network that was not found closed yet.
const PROBE_SOON: Duration = Duration::from_secs(2);

/// A runner in a cluster, apart from its calls.
pub struct Follower {
    plugin: Plugin,
    mount: Mount,
    volume: Volume,
    supervisor: Supervisor,
    redactor: Redactor,
    bundles: Option<String>,
    termination: PathBuf,
    /// What was put in place last.
    seen: Option<Mounted>,
    /// The revision that could not serve, so that it is not tried again and again.
    refused: Option<String>,
}

impl Follower {
    pub fn new(
        plugin: Plugin,
        mount: Mount,
        cluster: &Cluster,
        supervisor: Supervisor,
        redactor: Redactor,
    ) -> Self {
        let volume = Volume::new(cluster.volume.clone());
        plugin.readiness().change(|state| {
            state.in_cluster = true;
            state.accepted = cluster.accept_open_network;
            // What runs before the first look must not pass for all that the plugin has.
            let wanted = mount.read().ok().and_then(|mounted| mounted.wanted.awaits);
            state.awaits = awaited(wanted, &volume);
            state.revision = volume.active().map(|hex| format!("sha256:{hex}"));
        });
        let Cluster { bundles, termination, .. } = cluster.clone();
        Self {
            plugin,
            mount,
            volume,
            supervisor,
            redactor,
            bundles,
            termination,
            seen: None,
            refused: None,
        }
    }

    /// Follows for as long as the runner serves, and ends when it cannot make ready what it is there
    /// for: what the runner leaves then says why to the operator, and the kubelet tries again.
    pub async fn run(mut self, shutdown: CancellationToken) {
        loop {
            let step = tokio::select! {
                step = self.step() => step,
                () = shutdown.cancelled() => return,
            };
            let pause = match step {
                Ok(pause) => pause,
                Err(failure) => return self.give_up(failure),
            };
            tokio::select! {
                () = sleep(pause) => {}
                () = self.mount.asked() => {}
                () = self.plugin.readiness().looked() => {}
                () = shutdown.cancelled() => return,
            }
        }
    }

    async fn step(&mut self) -> Result<Duration, Failure> {
        let mount = self.mount.clone();
        match spawn_blocking(move || mount.read()).await {
            Ok(Ok(mounted)) => self.apply(mounted).await?,
            Ok(Err(error)) => tracing::warn!(%error, "what the operator mounts cannot be read"),
            Err(error) => tracing::error!(%error, "what the operator mounts cannot be read"),
        }
        Ok(if self.mount.is_awaited() { LOOK_SOON } else { LOOK })
    }

    fn give_up(&self, failure: Failure) {
        let failure = failure.report();
        let (reason, why) = (&failure.reason, &failure.message);
        tracing::error!(reason, why, "the revision cannot be made ready");
        if let Err(error) = termination::write(&self.termination, Built::Failed(failure)) {
            tracing::error!(%error, "the termination report of the runner cannot be written");
        }
    }

    async fn apply(&mut self, mounted: Mounted) -> Result<(), Failure> {
        let changed = self.seen.as_ref() != Some(&mounted);
        if changed {
            for bearer in [Some(&mounted.bearer), mounted.keeper.as_ref()].into_iter().flatten() {
                if self.redactor.add(bearer).is_err() {
                    tracing::warn!("a bearer is so short that it cannot be kept out of the log");
                }
            }
            self.refused = None;
            self.configure(&mounted).await;
        }
        let due = match self.due(&mounted) {
            Some(revision) if self.is_there(&revision, &mounted).await? => Some(revision),
            Some(_) | None => None,
        };
        // Who knows of a new revision is served by it; but while calls run, others are not held up for it.
        let at_once = due.as_ref().and_then(|_| self.plugin.gate().clone().try_write_owned().ok());
        let serves_after = at_once.is_some();
        if changed && !serves_after {
            self.serve(&mounted);
        }
        if let Some(revision) = due {
            let calls_ended = match at_once {
                Some(held) => held,
                None => switch::between_calls(&self.plugin).await,
            };
            self.switch(&revision, &mounted, calls_ended).await;
        }
        if changed && serves_after {
            self.serve(&mounted);
        }
        self.seen = Some(mounted);
        Ok(())
    }

    /// Calls that need what is mounted begin.
    fn serve(&self, mounted: &Mounted) {
        let rendered = mounted.wanted.rendered;
        self.mount.serve(rendered);
        let awaits = awaited(mounted.wanted.awaits.clone(), &self.volume);
        self.plugin.readiness().change(|state| {
            state.rendered = Some(rendered);
            state.awaits = awaits;
        });
    }

    /// Puts a new configuration into the tree that serves.
    async fn configure(&self, mounted: &Mounted) {
        let Some(hex) = self.volume.active() else { return };
        let (volume, given) = (self.volume.clone(), mounted.config.clone());
        let done = spawn_blocking(move || switch::configure(&volume, &hex, given.as_deref())).await;
        match done {
            Ok(Ok(config)) => {
                self.plugin.readiness().change(|state| state.missing = config.missing);
            }
            Ok(Err(error)) => tracing::error!(%error, "the configuration was not put in place"),
            Err(error) => tracing::error!(%error, "the configuration was not put in place"),
        }
    }

    /// The revision that is wanted and does not serve yet, once it may.
    fn due(&self, mounted: &Mounted) -> Option<String> {
        let revision = mounted.wanted.revision.as_ref()?;
        let state = self.plugin.readiness().now();
        let settled = state.revision.as_ref() == Some(revision)
            || self.refused.as_ref() == Some(revision)
            || !state.is_isolated();
        (!settled).then(|| revision.clone())
    }

    /// Whether its tree was built to its end. One that no build of another Pod will bring is made.
    async fn is_there(&self, revision: &str, mounted: &Mounted) -> Result<bool, Failure> {
        let (volume, wanted) = (self.volume.clone(), revision.to_owned());
        // What names no revision has no record, and who asks the app for it says so.
        let record = move || digest(&wanted).map_or(Ok(None), |hex| volume.record(hex));
        match spawn_blocking(record).await {
            Ok(Ok(Some(_record))) => return Ok(true),
            Ok(Ok(None)) => {}
            Ok(Err(error)) => {
                tracing::warn!(%error, revision, "the build record of a revision cannot be read");
            }
            Err(error) => {
                tracing::error!(%error, revision, "the build record of a revision cannot be read");
            }
        }
        // Without a volume that stays, each revision comes with a Pod of its own.
        let (Some(from), None) = (&self.bundles, self.volume.active()) else { return Ok(false) };
        let (plugin, supervisor) = (&self.plugin, &self.supervisor);
        fetch_revision(revision, from, mounted, plugin, &self.volume, supervisor).await?;
        Ok(true)
    }

    async fn switch(
        &mut self,
        revision: &str,
        mounted: &Mounted,
        calls_ended: OwnedRwLockWriteGuard<()>,
    ) {
        let given = mounted.config.clone();
        let (volume, supervisor) = (&self.volume, &self.supervisor);
        let done = switch::switch(&self.plugin, volume, supervisor, revision, given).await;
        drop(calls_ended);
        match done {
            Ok(_config) => {
                tracing::info!(revision, "the revision serves");
                self.plugin.readiness().change(|state| state.complaint = None);
                switch::thin(&self.volume).await;
            }
            Err(error) => {
                let why = chain(&error);
                tracing::error!(revision, why, "the revision does not serve");
                self.refused = Some(revision.to_owned());
                let complaint = format!("revision {revision} does not serve: {why}");
                self.plugin.readiness().change(|state| state.complaint = Some(complaint));
            }
        }
    }
}

/// The backup that files are to come from, unless they came.
fn awaited(wanted: Option<String>, volume: &Volume) -> Option<String> {
    wanted.filter(|backup| volume.restored().as_ref() != Some(backup))
}

/// Looks at the network for as long as the runner serves, and ends when something was reached that
/// must not be: what the runner leaves then says so to the operator. What was found closed counts as
/// closed while the app is away.
pub async fn watch_network(plugin: Plugin, cluster: Cluster, shutdown: CancellationToken) {
    let readiness = plugin.readiness();
    let mut first = true;
    loop {
        let look = async {
            let targets = &cluster.probe;
            if first { probe::settle(targets).await } else { probe::look(targets).await }
        };
        let probed = tokio::select! {
            probed = look => probed,
            () = shutdown.cancelled() => return,
        };
        first = false;
        let before = readiness.now().network;
        let stays = before == Some(Network::Closed) && probed.network == Network::Unknown;
        if !stays {
            if before != Some(probed.network) {
                let Probed { network, detail, .. } = &probed;
                tracing::info!(?network, detail, "looked at the network");
            }
            readiness.see(probed.network, &probed.detail);
        }
        if probed.network == Network::Open && !cluster.accept_open_network {
            if let Err(error) = termination::write(&cluster.termination, probed) {
                tracing::error!(%error, "the termination report of an open network cannot be written");
            }
            return;
        }
        let closed = readiness.now().network == Some(Network::Closed);
        tokio::select! {
            () = sleep(if closed { cluster.probe.pause } else { PROBE_SOON }) => {}
            () = shutdown.cancelled() => return,
        }
    }
}
