//! Where the plugins of an assistant run: what the configuration says becomes the ports.

use crate::{
    config::{self, MachinePlugins},
    no_sandboxes::{self, NoSandboxes},
    uv::Uv,
};
use anyhow::Context;
use famulus_cluster::{Cluster, ConnectError, Managed};
use famulus_core::{
    Clock,
    agent::Grants,
    plugin::{InstalledPlugins, ManageError, ManagedPlugins, Unmanaged, news::PluginNews},
    runner::{Door, Runners},
    sandbox::Sandboxes,
    tool::Tools,
};
use famulus_lifecycle::Tasks;
use famulus_machine::{Machine as LocalMachine, MachineError, Settings};
use famulus_plugins::{Needs, Reconciler};
use famulus_sandbox::{CallPorts, Timeouts};
use famulus_store::Store;
use std::{path::Path, sync::Arc};
use tokio::sync::mpsc;

/// Where plugins run.
#[derive(Clone)]
pub enum Plugins {
    /// Nowhere: where several processes may share a database, and there is no cluster.
    Disabled,
    /// Each in sandboxes of this machine.
    Machine(Machine),
    /// Each in Pods of its own.
    Cluster(config::Cluster),
    /// Wherever these say.
    Given(Ports),
}

/// What sandboxes of this machine are made of.
#[derive(Clone)]
pub struct Machine {
    pub settings: Settings,
    /// Takes the doors that are opened.
    pub doors: mpsc::Sender<Door>,
    pub allow_hosts: Vec<String>,
}

/// What the configuration says of sandboxes of this machine.
pub(crate) fn machine_settings(
    config: &MachinePlugins,
    data_dir: &Path,
) -> anyhow::Result<Settings> {
    let runner = match config.runner.clone() {
        Some(runner) => runner,
        None => std::env::current_exe()
            .context("this program does not know where it stands; set `plugins.runner`")?
            .with_file_name("famulus-runner"),
    };
    let mut settings = Settings::new(runner, data_dir.to_owned());
    settings.uv = Some(Arc::new(Uv::below(data_dir)));
    settings.packages = config.packages.clone().into();
    settings.repositories.clone_from(&config.repositories.credentials);
    Ok(settings)
}

/// What reaches sandboxes, and who comes from there.
#[derive(Clone)]
pub struct Ports {
    pub sandboxes: Arc<dyn Sandboxes>,
    pub runners: Arc<dyn Runners>,
    /// Who sees to plugins.
    pub managed: Arc<dyn ManagedPlugins>,
    /// The list by which old bundles go; without one they stay.
    pub installed: Option<Installed>,
}

/// What reaches plugins, and what is new of them.
pub(crate) struct Opened {
    pub(crate) ports: Ports,
    /// Who knows how builds ended, where that is told.
    pub(crate) news: Option<Arc<dyn PluginNews>>,
}

/// The plugins that there are, and how many bundles of each are kept.
#[derive(Clone)]
pub struct Installed {
    pub plugins: Arc<dyn InstalledPlugins>,
    pub kept_bundles: u32,
}

/// Revisions of a plugin of this machine that can be gone back to, beside those in use.
const KEPT_BUNDLES: u32 = 5;

/// Plugins are not there.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Cluster(#[from] ConnectError),
    #[error(transparent)]
    Machine(#[from] MachineError),
    #[error(transparent)]
    Manage(#[from] ManageError),
}

impl Plugins {
    /// The tools that can do nothing here.
    pub(crate) fn idle_tools(&self) -> &'static [&'static str] {
        if matches!(self, Self::Disabled) { &TOOLS } else { &[] }
    }

    pub(crate) async fn open(
        self,
        store: &Store,
        clock: &Arc<dyn Clock>,
        tasks: &Tasks,
    ) -> Result<Opened, OpenError> {
        let without_news = |ports| Opened { ports, news: None };
        match self {
            Self::Disabled => Ok(without_news(Ports {
                sandboxes: Arc::new(NoSandboxes),
                runners: Arc::new(NoSandboxes),
                managed: Arc::new(Unmanaged(no_sandboxes::WHY)),
                installed: None,
            })),
            Self::Machine(machine) => machine.open(store, clock, tasks).await,
            Self::Given(ports) => Ok(without_news(ports)),
            Self::Cluster(cluster) => {
                let config::Cluster {
                    sandbox_namespace,
                    root_key_file,
                    keeper_key_file: _,
                    callback_url,
                    token_secret: _,
                    kept_bundles,
                } = cluster;
                let config = famulus_cluster::Config {
                    sandbox_namespace,
                    root_key_file,
                    callback_url: callback_url.to_string(),
                    timeouts: Timeouts::default(),
                };
                let store = Arc::new(store.clone());
                let revisions = store.clone();
                let needed = famulus_sandbox::Ports { blobs: store.clone(), demand: store };
                let (cluster, calls) = Cluster::connect(config, needed, tasks).await?;
                let installed = Some(Installed { plugins: cluster.clone(), kept_bundles });
                let managed = Arc::new(Managed::new(cluster, revisions, Arc::clone(clock)));
                let CallPorts { sandboxes, runners } = calls;
                let ports = Ports { sandboxes, runners, managed: managed.clone(), installed };
                Ok(Opened { ports, news: Some(managed) })
            }
        }
    }
}

impl Machine {
    async fn open(
        self,
        store: &Store,
        clock: &Arc<dyn Clock>,
        tasks: &Tasks,
    ) -> Result<Opened, OpenError> {
        let Self { settings, doors, allow_hosts } = self;
        let machine = LocalMachine::open(settings, doors, tasks).await?;
        let store = Arc::new(store.clone());
        let needed = famulus_sandbox::Ports { blobs: store.clone(), demand: store.clone() };
        let CallPorts { sandboxes, runners } = machine.clone().calls(needed, tasks)?;
        let (rows, revisions) = (store.clone(), store);
        let (clock, tasks) = (Arc::clone(clock), tasks.clone());
        let needs = Needs { machine, rows, revisions, allow_hosts, clock, tasks };
        let reconciler = Reconciler::open(needs).await?;
        let installed = Some(Installed { plugins: reconciler.clone(), kept_bundles: KEPT_BUNDLES });
        let ports = Ports { sandboxes, runners, managed: reconciler.clone(), installed };
        Ok(Opened { ports, news: Some(reconciler) })
    }
}

/// The tools through which a model meets plugins.
const TOOLS: [&str; 2] = ["manage_plugins", "run_plugin_tool"];
/// Bytes that stand for one token.
const BYTES: usize = 4;

/// What plugins cost a model in every call, in tokens: they are shown when it asks, so that their
/// number does not matter.
pub(crate) fn fixed_tokens(tools: &dyn Tools) -> usize {
    let specs = tools.catalogue(&Grants::all());
    let of_plugins = specs.iter().filter(|spec| TOOLS.contains(&spec.name.as_str()));
    let bytes: usize = of_plugins
        .map(|spec| spec.name.len() + spec.description.len() + spec.schema.to_string().len())
        .sum();
    bytes.div_ceil(BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::clock::SystemClock;
    use famulus_tools::fake::plugins::{FakeBlobs, FakeRevisions, FakeSandboxes, Play, plugin};
    use famulus_tools::fake::{FakeKnowledge, FakePost, FakeSchedules, ways};
    use famulus_tools::{Catalogue, PluginPorts};

    /// What twenty plugins may cost at most, in tokens.
    const MOST: usize = 2_500;

    #[test]
    fn plugins_cost_a_model_little() {
        let cost = |plugins: usize| {
            let names: Vec<String> = (0..plugins).map(|number| format!("plugin{number}")).collect();
            let states = names.iter().map(|name| plugin(name, &["one", "two"])).collect();
            let clock = Arc::new(SystemClock);
            let revisions = Arc::<FakeRevisions>::default();
            let ports = famulus_tools::Ports {
                knowledge: FakeKnowledge::new(clock.clone()),
                schedules: FakeSchedules::new(clock.clone()),
                post: Arc::<FakePost>::default(),
                ways: ways(),
                speaker: None,
                plugins: PluginPorts {
                    sandboxes: FakeSandboxes::new(states, |_| Play::Later),
                    revisions: revisions.clone(),
                    late: revisions,
                    blobs: Arc::<FakeBlobs>::default(),
                    managed: Arc::new(Unmanaged(no_sandboxes::WHY)),
                },
                clock,
            };
            fixed_tokens(&Catalogue::new(&ports).unwrap())
        };
        assert_eq!(cost(20), cost(0));
        assert!((100..=MOST).contains(&cost(20)), "{}", cost(20));
    }
}
