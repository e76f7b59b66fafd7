//! The cluster as a home of runners.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use famulus_core::runner::Origin;
use famulus_core::sandbox::SandboxError;
use famulus_crds::bearer;
use famulus_errors::chain;
use famulus_lifecycle::{Tasks, boxed};
use famulus_sandbox::{CallPorts, Calls, Home, KnownPlugin as _, Ports, ScaleError, Timeouts};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::plugin::CachedPlugin;
use crate::runner::Runner;
use crate::table::Table;
use crate::watches;

/// Bytes without which a root key could be guessed.
const KEY_BYTES: usize = 32;

/// Of a log that is shown.
const LOG_LINES: i64 = 200;
const LOG_BYTES: i64 = 256 * 1024;
const LOG: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Config {
    /// Where Plugins and their Pods are.
    pub sandbox_namespace: String,
    /// The installation's root key, mounted by app and operator.
    pub root_key_file: PathBuf,
    /// Where runners find any process of the app, as `http://famulus-callback:3002`.
    pub callback_url: String,
    pub timeouts: Timeouts,
}

#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "the root key cannot be read from {path}; mount the Secret that the installation made, or \
         correct `cluster.root_key_file`"
    )]
    RootKey { path: PathBuf, source: io::Error },
    #[error(
        "the root key in {path} has {bytes} bytes and needs {KEY_BYTES}; delete its Secret and let \
         the installation make it anew"
    )]
    ShortKey { path: PathBuf, bytes: usize },
    #[error(
        "no cluster is configured here; run in a Pod with a ServiceAccount, set KUBECONFIG, or \
         remove section [cluster]"
    )]
    Kubernetes(#[source] kube::Error),
    #[error("no client for runners can be made")]
    Http(#[source] reqwest::Error),
}

/// Where runners are Pods.
pub struct Cluster {
    pub(crate) kube: Client,
    pub(crate) namespace: String,
    root_key: Vec<u8>,
    table: Arc<Table>,
}

impl Cluster {
    /// With the cluster that this process is in, or that its environment names. That need not
    /// answer now: it is asked again and again.
    #[boxed]
    pub async fn connect(
        config: Config,
        ports: Ports,
        tasks: &Tasks,
    ) -> Result<(Arc<Self>, CallPorts), ConnectError> {
        let kube = Client::try_default().await.map_err(ConnectError::Kubernetes)?;
        let calls = Self::start(kube, config, ports, tasks)?;
        Ok((Arc::clone(calls.home()), calls.into()))
    }

    /// With a client that is there already.
    pub fn start(
        kube: Client,
        config: Config,
        ports: Ports,
        tasks: &Tasks,
    ) -> Result<Arc<Calls<Self>>, ConnectError> {
        let Config { sandbox_namespace, root_key_file: path, callback_url, timeouts } = config;
        let root_key = std::fs::read(&path)
            .map_err(|source| ConnectError::RootKey { path: path.clone(), source })?;
        if root_key.len() < KEY_BYTES {
            return Err(ConnectError::ShortKey { path, bytes: root_key.len() });
        }
        let table = Arc::<Table>::default();
        let cluster = Self { kube, namespace: sandbox_namespace, root_key, table };
        watches::spawn(&cluster.kube, &cluster.namespace, &cluster.table, tasks);
        Calls::start(Arc::new(cluster), callback_url, timeouts, ports, tasks)
            .map_err(ConnectError::Http)
    }
}

#[async_trait]
impl Home for Cluster {
    type Plugin = CachedPlugin;
    type Runner = Runner;

    /// Once the API server has answered, it is known.
    async fn known(&self, patience: Duration) -> Result<(), SandboxError> {
        let mut changes = self.table.subscribe();
        let listed = async {
            while !self.table.is_known() {
                // The sender lives as long as the table.
                let _changed = changes.changed().await;
            }
        };
        timeout(patience, listed).await.map_err(|_elapsed| {
            let why = self.table.trouble().unwrap_or_else(|| "it did not answer".to_owned());
            SandboxError::Away(format!("the cluster's API server cannot be read: {why}"))
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.table.subscribe()
    }

    fn plugins(&self) -> BTreeMap<String, Arc<CachedPlugin>> {
        self.table.plugins()
    }

    fn plugin(&self, name: &str) -> Option<Arc<CachedPlugin>> {
        self.table.plugin(name)
    }

    fn plugin_by_uid(&self, uid: &str) -> Option<Arc<CachedPlugin>> {
        self.table.by_uid(uid)
    }

    fn runners(&self, plugin: &CachedPlugin) -> Vec<Arc<Runner>> {
        self.table.runners(&plugin.stem)
    }

    fn has(&self, runner: &Runner) -> bool {
        self.table.has(runner)
    }

    fn lets(&self, plugin: &CachedPlugin, runner: &Runner) -> bool {
        plugin.lets(runner.egress)
    }

    /// Nobody has a door of its own here.
    fn owns(&self, plugin: &CachedPlugin, from: &Origin) -> bool {
        match from {
            Origin::Address(address) => self.table.owns(&plugin.stem, *address),
            Origin::Door(_) => false,
        }
    }

    fn bearer(&self, plugin: &CachedPlugin, rendered: i64) -> String {
        bearer::runner(&self.root_key, plugin.uid(), rendered)
    }

    async fn start(&self, plugin: &CachedPlugin) -> Result<(), ScaleError> {
        self.scale(plugin, 1, None).await
    }

    /// The version says that nobody asked for it since it was looked at.
    async fn end(&self, plugin: &CachedPlugin) -> Result<(), ScaleError> {
        self.scale(plugin, 0, Some(&plugin.resource_version)).await
    }

    async fn logs(&self, runner: &Runner) -> Result<Vec<String>, String> {
        let pods: Api<Pod> = Api::namespaced(self.kube.clone(), &self.namespace);
        let wanted = LogParams {
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let log = timeout(LOG, pods.logs(&runner.pod, &wanted)).await;
        let log = log.map_err(|_elapsed| "the API server is silent".to_owned())?;
        let log = log.map_err(|error| chain(&error))?;
        Ok(log.lines().map(str::to_owned).collect())
    }
}
