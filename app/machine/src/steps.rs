//! The steps by which a plugin becomes one that serves, each in a sandbox of its own that ends with a report.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use famulus_core::crash;
use famulus_core::plugin::Egress;
use famulus_lifecycle::boxed;
use famulus_protocol::launch::LaunchNetwork;
use famulus_protocol::revision::{BuildOrder, BuildSource, Built, Bundled, Copied};
use famulus_protocol::{Landlock, SelfTest};
use famulus_sandbox::{KnownPlugin as _, NotReady};
use rustix::fs::OFlags;
use serde::de::DeserializeOwned;
use tokio::net::lookup_host;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::cgroups::words;
use crate::error::{MachineError, StepError};
use crate::folders::{own, remove};
use crate::launcher::Launcher;
use crate::lent::{PACKAGES, REPOSITORIES};
use crate::machine::{Machine, bearer};
use crate::mounted::{exchange, give};
use crate::order::{APP, Of, Purpose, REPORT, launch, network};
use crate::plugin::{LocalPlugin, not_ready};

/// How long a step may take: an init script has five minutes, packages come before.
const BUNDLE: Duration = Duration::from_mins(5);
const BUILD: Duration = Duration::from_mins(12);
const CHECK: Duration = Duration::from_secs(30);
const COPY: Duration = Duration::from_mins(20);

/// Lines of what a step said that are shown where it reported nothing.
const SAID: usize = 5;

/// Bytes of a report.
const LONGEST: u64 = 16 * 1024;

/// The plugin for which sandboxes are tried before there is any.
const NOBODY: &str = "check";

impl Machine {
    /// Makes a revision of a plugin's source, which the app keeps. Nothing of the plugin is executed.
    ///
    /// # Errors
    /// In words for the owner; the plugin is as it was.
    #[boxed]
    pub async fn bundle(
        &self,
        uid: &str,
        source: BuildSource,
        allow_hosts: Vec<String>,
    ) -> Result<Bundled, StepError> {
        let upkeep = self.upkeep(uid);
        let _one = upkeep.stepping.lock().await;
        let plugin = self.held(uid)?;
        let (purpose, network, credentials) = match &source {
            BuildSource::Inline { .. } | BuildSource::Revision(_) => {
                (Purpose::Bundle, LaunchNetwork::None, None)
            }
            BuildSource::Git { .. } => {
                if let Some(why) = &self.no_internet {
                    return Err(MachineError::Refused(why.message.clone()).into());
                }
                let network = network(Egress::Internet, addresses(&allow_hosts).await);
                (Purpose::Fetch, network, self.settings.repositories.as_deref())
            }
        };
        let order = BuildOrder {
            plugin: plugin.name().to_owned(),
            uid: uid.to_owned(),
            rendered: plugin.rendered(),
            callback: APP.to_owned(),
            source,
            allow_hosts,
        };
        let order = serde_json::to_vec(&order).map_err(io::Error::from);
        let folders = self.folders.of(uid);
        let order = order.map_err(MachineError::folder(&folders.order()))?;
        crash::before("plugin.prepare");
        let user = self.folders.take(&folders, purpose).await?;
        crash::after("plugin.prepare");
        self.open_door(uid, &folders, user).await?;
        let files = [("build.json", &order[..]), ("bearer", plugin.bearer.as_bytes())];
        exchange(&folders.order(), &files, user)?;
        let of = self.of(plugin.name(), &folders, user);
        REPOSITORIES.give(credentials, &folders, user)?;
        crash::before("plugin.bundle");
        let bundled = self.step(purpose, &of, network, &upkeep.removed).await;
        REPOSITORIES.take_back(credentials, &folders)?;
        let bundled = bundled?;
        crash::after("plugin.bundle");
        match bundled {
            Bundled::Failed(failure) => Err(StepError::Failed(failure)),
            done @ Bundled::Done { .. } => Ok(done),
        }
    }

    /// Makes a tree of what was bundled last, and gives what its init script said. Here code of the plugin
    /// runs for the first time.
    ///
    /// # Errors
    /// In words for the owner; what serves goes on serving.
    #[boxed]
    pub async fn build(&self, uid: &str) -> Result<Built, StepError> {
        let built = self.make(uid).await;
        self.note(uid, None);
        built
    }

    async fn make(&self, uid: &str) -> Result<Built, StepError> {
        let upkeep = self.upkeep(uid);
        let _one = upkeep.stepping.lock().await;
        self.held(uid)?;
        let folders = self.folders.of(uid);
        self.provide(uid, &folders, &upkeep.removed).await?;
        self.note(uid, Some("its packages are fetched, and its init script runs"));
        let plugin = self.held(uid)?;
        let user = self.folders.take(&folders, Purpose::Build).await?;
        self.open_door(uid, &folders, user).await?;
        give(&plugin, &folders, user)?;
        let of = self.of(plugin.name(), &folders, user);
        let missing = self.no_internet.as_ref();
        let missing = missing.filter(|_| plugin.record.init_egress == Egress::Internet);
        let egress = if missing.is_some() { Egress::None } else { plugin.record.init_egress };
        let packages = &self.settings.packages;
        let network = network(egress, addresses(&packages.hosts).await);
        PACKAGES.give(packages.credentials.as_deref(), &folders, user)?;
        let awaits_files = folders.files().exists();
        if awaits_files {
            // What is there is not what was backed up.
            folders.empty_state(user).await?;
        }
        crash::before("plugin.build");
        let built = self.step(Purpose::Build, &of, network, &upkeep.removed).await;
        PACKAGES.take_back(packages.credentials.as_deref(), &folders)?;
        let built = built?;
        crash::after("plugin.build");
        match built {
            Built::Failed(mut failure) => {
                if let Some(NotReady { message: why, .. }) = missing {
                    failure.message =
                        format!("{}; it was built without the internet: {why}", failure.message);
                }
                Err(StepError::Failed(failure))
            }
            done @ Built::Done { .. } => {
                if awaits_files {
                    self.take_back(&of, &upkeep.removed).await?;
                }
                Ok(done)
            }
        }
    }

    /// Puts what a backup has of a plugin's files beside the tree that was built. It is removed when it is there.
    async fn take_back(&self, of: &Of<'_>, ended: &CancellationToken) -> Result<(), StepError> {
        let files = of.folders.files();
        own(&files, of.user)?;
        match self.step(Purpose::Take, of, LaunchNetwork::None, ended).await? {
            Copied::Done { .. } => Ok(remove(&files)?),
            Copied::Failed(mut failure) => {
                let path = files.display();
                failure.message =
                    format!("{}; remove {path} to go on without them", failure.message);
                Err(StepError::Failed(failure))
            }
        }
    }

    /// The plugin, if anything of one may run here.
    fn held(&self, uid: &str) -> Result<Arc<LocalPlugin>, MachineError> {
        if let Some(why) = &self.refused {
            return Err(MachineError::Refused(why.message.clone()));
        }
        self.table.by_uid(uid).ok_or(MachineError::Gone)
    }

    /// Makes a sandbox and tries from inside what every call relies on. Says how it is held, or why nothing
    /// of a plugin may run.
    pub(crate) async fn check(&self, egress: Egress) -> Result<String, NotReady> {
        let refused = |why: String| not_ready("NoSandbox", why);
        let tried = self.try_sandbox(egress).await.map_err(|error| refused(error.to_string()))?;
        let failed = tried.checks.iter().filter(|check| !check.passed);
        let failed: Vec<&str> = failed.map(|check| check.detail.as_str()).collect();
        if !failed.is_empty() || !tried.passed {
            return Err(refused(format!("a sandbox does not hold: {}", failed.join("; "))));
        }
        let landlock = tried.isolation.map(|isolation| isolation.landlock);
        let files = match landlock {
            Some(Landlock::Full | Landlock::Partial) => "Landlock",
            Some(Landlock::Replaced) => "a root of its own",
            Some(Landlock::None) | None => {
                return Err(refused("files are not confined".to_owned()));
            }
        };
        let users =
            if rustix::process::getuid().is_root() { "a user of its own" } else { "your user" };
        let limits = words(self.settings.cgroups.as_deref());
        Ok(format!("namespaces of its own, {users}, {files}, filtered system calls, {limits}"))
    }

    async fn try_sandbox(&self, egress: Egress) -> Result<SelfTest, StepError> {
        let runner = &self.settings.runner;
        if !runner.is_file() {
            return Err(MachineError::NoRunner { path: runner.clone() }.into());
        }
        self.folders.prepare()?;
        let folders = self.folders.of(NOBODY);
        let user = self.folders.take(&folders, Purpose::Check).await?;
        exchange(&folders.mounted(), &[("bearer", bearer().as_bytes())], user)?;
        let of = self.of(NOBODY, &folders, user);
        let network = network(egress, Vec::new());
        let tried = self.step(Purpose::Check, &of, network, &self.tasks.token()).await;
        folders.remove().await?;
        tried
    }

    async fn step<T: DeserializeOwned>(
        &self,
        purpose: Purpose,
        of: &Of<'_>,
        network: LaunchNetwork,
        ended: &CancellationToken,
    ) -> Result<T, StepError> {
        // The semaphore is never closed.
        let _place = self.steps.acquire().await.ok();
        let patience = match purpose {
            Purpose::Bundle | Purpose::Fetch => BUNDLE,
            Purpose::Build => BUILD,
            Purpose::Give | Purpose::Take => COPY,
            Purpose::Check | Purpose::Serve => CHECK,
        };
        let path = of.folders.work().join(REPORT);
        remove(&path)?;
        let uv = self.shown_uv(purpose).await;
        let order = launch(purpose, of, &self.settings, uv.as_deref(), network);
        let mut launcher = Launcher::start(&self.settings.runner, &order, &self.tasks)?;
        let log = launcher.log();
        let step = tokio::select! {
            step = timeout(patience, launcher.exited()) => step,
            () = ended.cancelled() => {
                launcher.kill().await;
                return Err(MachineError::Gone.into());
            }
        };
        let how = match step {
            Ok(Ok(status)) => match launcher.refusal(status).await {
                Some(why) => return Err(MachineError::NotLaunched(why).into()),
                None => status.to_string(),
            },
            Ok(Err(error)) => return Err(MachineError::Start(error).into()),
            Err(_late) => {
                launcher.kill().await;
                format!("it was not done after {} s", patience.as_secs())
            }
        };
        report(&path).ok_or_else(|| {
            let lines = log.lines();
            let said = lines[lines.len().saturating_sub(SAID)..].join("\n");
            StepError::Silent { how, said }
        })
    }
}

/// Where the hosts are, with their ports, that the owner lets sources and packages be fetched from although they
/// are private. Who cannot be found cannot be fetched from.
async fn addresses(hosts: &[String]) -> Vec<SocketAddr> {
    let mut found = Vec::new();
    for host in hosts {
        let looked_up = lookup_host(host.as_str()).await;
        found.extend(looked_up.into_iter().flatten());
    }
    found
}

/// What the step wrote, which its sandbox's user could have made into anything.
pub(crate) fn report<T: DeserializeOwned>(path: &Path) -> Option<T> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).ok()?;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    file.metadata().ok().filter(fs::Metadata::is_file)?;
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text).ok()?;
    serde_json::from_slice(&text).ok()
}
