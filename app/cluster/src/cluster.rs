//! The sandboxes of a cluster: what they are made of, and the port.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use famulus_core::blob::Blobs;
use famulus_core::ids::PersonId;
use famulus_core::runner::RunnerDemand;
use famulus_core::sandbox::{
    PluginState, Progress, SandboxAnswer, SandboxCall, SandboxError, Sandboxes,
};
use famulus_crds::bearer;
use famulus_errors::chain;
use famulus_lifecycle::{OnExit, Tasks};
use famulus_protocol::CallId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, Client};
use tokio::time::timeout;
use tracing::Instrument;

use crate::acks::PendingAcks;
use crate::activation::{ScaleUp, unreachable};
use crate::execute::{PendingCall, WaitOutcome, lost};
use crate::idle::Usage;
use crate::plugin::CachedPlugin;
use crate::runner::Runner;
use crate::stages::StageTimer;
use crate::table::Table;
use crate::watches;
use crate::wire::{self, RunnerClient};

/// Bytes without which a root key could be guessed.
const KEY_BYTES: usize = 32;

/// A Pod that says when it was made says it in whole seconds, by another clock.
const CLOCKS: SignedDuration = SignedDuration::from_secs(5);

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

/// How long things may take before they are given up.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// The cluster's first answer.
    pub first: Duration,
    /// A runner that starts: an image may have to be fetched.
    pub start: Duration,
    /// Attempts of which none reached a runner.
    pub reach: Duration,
    /// A runner that has a call and does not answer.
    pub lost: Duration,
    /// Why a runner ended: the kubelet tells it up to some seconds after the successor serves, and
    /// later on a busy node.
    pub cause: Duration,
    /// The end of a call that was stopped: a tool is asked, and then killed.
    pub stop: Duration,
    /// The list of all Plugins, whose files may be in it.
    pub list: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(5),
            start: Duration::from_mins(2),
            reach: Duration::from_secs(20),
            lost: Duration::from_mins(1),
            cause: Duration::from_secs(10),
            stop: Duration::from_secs(10),
            list: Duration::from_mins(1),
        }
    }
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

/// Sandboxes in Pods.
pub struct Cluster {
    pub(crate) kube: Client,
    pub(crate) http: reqwest::Client,
    pub(crate) namespace: String,
    pub(crate) root_key: Vec<u8>,
    pub(crate) callback_url: String,
    pub(crate) timeouts: Timeouts,
    pub(crate) blobs: Arc<dyn Blobs>,
    pub(crate) demand: Arc<dyn RunnerDemand>,
    pub(crate) table: Arc<Table>,
    pub(crate) used: Usage,
    pub(crate) acks: PendingAcks,
    pub(crate) tasks: Tasks,
    /// Itself, for tasks that outlive a borrow.
    pub(crate) own: Weak<Self>,
}

/// What proves a request to the runners of one plugin.
pub(crate) struct Credentials {
    bearer: String,
    rendered: i64,
}

impl Cluster {
    /// With the cluster that this process is in, or that its environment names. That need not
    /// answer now: it is asked again and again.
    pub async fn connect(
        config: Config,
        blobs: Arc<dyn Blobs>,
        demand: Arc<dyn RunnerDemand>,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, ConnectError> {
        let kube = Client::try_default().await.map_err(ConnectError::Kubernetes)?;
        Self::start(kube, config, blobs, demand, tasks)
    }

    /// With a client that is there already.
    pub fn start(
        kube: Client,
        config: Config,
        blobs: Arc<dyn Blobs>,
        demand: Arc<dyn RunnerDemand>,
        tasks: &Tasks,
    ) -> Result<Arc<Self>, ConnectError> {
        let Config { sandbox_namespace, root_key_file: path, callback_url, timeouts } = config;
        let root_key = std::fs::read(&path)
            .map_err(|source| ConnectError::RootKey { path: path.clone(), source })?;
        if root_key.len() < KEY_BYTES {
            return Err(ConnectError::ShortKey { path, bytes: root_key.len() });
        }
        let http = wire::client().map_err(ConnectError::Http)?;
        let cluster = Arc::new_cyclic(|own| Self {
            kube,
            http,
            namespace: sandbox_namespace,
            root_key,
            callback_url,
            timeouts,
            blobs,
            demand,
            table: Arc::default(),
            used: Usage::default(),
            acks: PendingAcks::default(),
            tasks: tasks.clone(),
            own: Weak::clone(own),
        });
        watches::spawn(&cluster.kube, &cluster.namespace, &cluster.table, tasks);
        let (tended, token) = (Arc::clone(&cluster), tasks.token());
        tasks.spawn_loop("cluster.idle", OnExit::Restart, move || {
            let (cluster, token) = (Arc::clone(&tended), token.clone());
            async move {
                tokio::select! {
                    () = cluster.run_idle() => {}
                    () = token.cancelled() => {}
                }
            }
        });
        Ok(cluster)
    }

    /// What proves a request now: it is read anew for each, since it changes.
    pub(crate) fn credentials(&self, known: &CachedPlugin) -> Credentials {
        let now = self.table.by_uid(&known.uid);
        let rendered = now.map_or(known.status.rendered, |now| now.status.rendered);
        Credentials { bearer: bearer::runner(&self.root_key, &known.uid, rendered), rendered }
    }

    pub(crate) fn client<'a>(
        &'a self,
        runner: &'a Runner,
        credentials: &'a Credentials,
    ) -> RunnerClient<'a> {
        let Credentials { bearer, rendered } = credentials;
        RunnerClient { client: &self.http, runner, bearer, rendered: *rendered }
    }

    pub(crate) fn named(&self, plugin: &str) -> Result<Arc<CachedPlugin>, SandboxError> {
        self.table.plugin(plugin).ok_or_else(|| {
            let names: Vec<String> = self.table.plugins().into_keys().collect();
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            SandboxError::NoPlugin { plugin: plugin.to_owned(), known }
        })
    }

    /// The plugin, unless it takes no calls.
    pub(crate) fn callable(&self, plugin: &str) -> Result<Arc<CachedPlugin>, SandboxError> {
        let known = self.named(plugin)?;
        match known.refuses() {
            None => Ok(known),
            Some(why) => Err(SandboxError::NotReady {
                plugin: known.name.clone(),
                reason: why.reason,
                message: why.message,
            }),
        }
    }

    /// Waits until the cluster has answered once.
    async fn known(&self) -> Result<(), SandboxError> {
        let mut changes = self.table.subscribe();
        let listed = async {
            while !self.table.is_known() {
                // The sender lives as long as the table.
                let _changed = changes.changed().await;
            }
        };
        timeout(self.timeouts.first, listed).await.map_err(|_elapsed| {
            let why = self.table.trouble().unwrap_or_else(|| "it did not answer".to_owned());
            SandboxError::Away(format!("the cluster's API server cannot be read: {why}"))
        })
    }

    /// Asks one runner for a call, until it answers or is lost.
    async fn ask_one(
        &self,
        known: &Arc<CachedPlugin>,
        runner: &Arc<Runner>,
        id: &CallId,
        person: PersonId,
    ) -> Result<WaitOutcome, SandboxError> {
        let progress = Progress::none();
        let awaited = PendingCall { id, person, progress: &progress, later: false, before: None };
        let _there = runner.begin_call();
        self.wait_for(awaited, known, runner, None, &mut StageTimer::begin()).await
    }
}

#[async_trait]
impl Sandboxes for Cluster {
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError> {
        self.known().await?;
        Ok(self.table.plugins().values().map(|known| known.state()).collect())
    }

    async fn run(&self, call: SandboxCall) -> Result<SandboxAnswer, SandboxError> {
        let id = call_id(&call.id)?;
        self.known().await?;
        let known = self.named(&call.plugin)?;
        if !known.permits(&call.tool) {
            return Err(SandboxError::Refused(format!(
                "the owner does not permit the tool `{}` of the plugin `{}`; its spec.permissions \
                 has to name it",
                call.tool, call.plugin
            )));
        }
        if known.needs_recheck() {
            self.request_runner(&known, &mut ScaleUp::default()).await;
        }
        self.callable(&call.plugin)?;
        let span = tracing::info_span!("sandbox.call", plugin.name = known.name, call.id = %id);
        let watched = self.watch_cancel(call, id);
        let executed = self.execute(&watched.call, &watched.id, &watched.dispatch).instrument(span);
        tokio::select! {
            biased;
            () = watched.call.cancel.cancelled() => {}
            answer = Box::pin(executed) => {
                watched.dispatch.finish();
                return answer;
            }
        }
        watched.stopped.await.unwrap_or(Err(SandboxError::Stopped))
    }

    async fn ask(
        &self,
        plugin: &str,
        id: &str,
        sent: Timestamp,
        person: PersonId,
    ) -> Result<Option<SandboxAnswer>, SandboxError> {
        let id = call_id(id)?;
        self.known().await?;
        let known = self.named(plugin)?;
        let runners = self.table.runners(&known.stem);
        let mut asked: FuturesUnordered<_> = runners
            .iter()
            .map(async |runner| (runner, self.ask_one(&known, runner, &id, person).await))
            .collect();
        let (mut there, mut unheard) = (false, None);
        while let Some((runner, answer)) = asked.next().await {
            let before = runner.created.saturating_add(CLOCKS).is_ok_and(|made| made <= sent);
            match answer {
                Ok(WaitOutcome::Answer(answer)) => return Ok(Some(answer)),
                Ok(WaitOutcome::NotReceived) => there |= before,
                // It cannot have had it.
                Err(_) if !before && !runner.takes_calls() => {}
                // One that ends says nothing of what another has.
                Err(SandboxError::Lost { plugin, why }) => {
                    unheard = Some(unreachable(&plugin, why));
                }
                Err(error) => unheard = Some(error),
            }
        }
        if let Some(error) = unheard {
            return Err(error);
        }
        // The one runner that a plugin with files of its own has was there, and does not know it.
        if there && known.has_one_runner { Ok(None) } else { Err(lost(&known, GONE)) }
    }

    async fn acknowledge(&self, plugin: &str, id: &str) {
        let (Some(known), Ok(id)) = (self.table.plugin(plugin), call_id(id)) else { return };
        self.used.result_came(&id);
        self.acknowledge_result(&known, id).await;
    }

    async fn logs(&self, plugin: &str) -> Result<Vec<String>, SandboxError> {
        self.known().await?;
        let known = self.named(plugin)?;
        let Some(runner) = self.table.runners(&known.stem).pop() else {
            return Err(SandboxError::NotReady {
                plugin: known.name.clone(),
                reason: known.says().reason,
                message: "no runner is up, and its log ends with it; a call starts one".to_owned(),
            });
        };
        let pods: Api<Pod> = Api::namespaced(self.kube.clone(), &self.namespace);
        let wanted = LogParams {
            tail_lines: Some(LOG_LINES),
            limit_bytes: Some(LOG_BYTES),
            ..LogParams::default()
        };
        let log = timeout(LOG, pods.logs(&runner.pod, &wanted)).await;
        let log = log.map_err(|_elapsed| unreachable(plugin, "the API server is silent"))?;
        let log = log.map_err(|error| unreachable(plugin, chain(&error)))?;
        Ok(log.lines().map(str::to_owned).collect())
    }
}

const GONE: &str = "the runner to which it may have been sent is gone";

pub(crate) fn call_id(id: &str) -> Result<CallId, SandboxError> {
    id.parse().map_err(|error| SandboxError::Refused(format!("`{id}` names no call: {error}")))
}
