//! What plugins keep, asked of their runners for a backup, and given back by a restore.
//!
//! ```text
//! Plugin ─► wants no runner? plugins/scale = 1 ─► a Pod with an address ─► /v1/own-files
//! ```
//!
//! A runner that is starting, or about to end, is asked again; one that says no for good is not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use famulus_crds::labels::runners_of;
use famulus_crds::{bearer, plugin::Plugin};
use famulus_errors::chain;
use famulus_lifecycle::boxed;
use famulus_protocol::{Kind, Problem, RENDERED_HEADER, paths};
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client};
use reqwest::{Body, Method, RequestBuilder, Response};
use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::kept::KeptError;
use crate::runner::{PORT, PodState};

/// Between two attempts.
const AGAIN: Duration = Duration::from_secs(1);

/// A scale that was written is not written again for so long.
const SCALE_AGAIN: Duration = Duration::from_secs(10);

/// What a refusal has at most, and a configuration, which a Secret of a mebibyte holds.
const PROBLEM_BYTES: usize = 16 * 1024;
const CONFIGURATION_BYTES: usize = 4 * 1024 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error(
        "the key of backups cannot be read from {path}; mount the Secret that the installation made, \
         or correct `cluster.keeper_key_file`"
    )]
    Key { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Cluster(Box<KeptError>),
    #[error("no client for runners can be made")]
    Http(#[source] reqwest::Error),
    #[error("the Plugin {plugin} is gone")]
    Gone { plugin: String },
    #[error(
        "the Plugin {plugin} is suspended, so that nothing of it runs; set its spec.suspend to false"
    )]
    Suspended { plugin: String },
    #[error(
        "the API server does not answer for {what} of the Plugin {plugin}; see the rights of this ServiceAccount"
    )]
    Api { what: &'static str, plugin: String, source: kube::Error },
    #[error("no runner of the Plugin {plugin} answered within {seconds} s: {why}")]
    Silent { plugin: String, seconds: u64, why: String },
    #[error("the runner of the Plugin {plugin} refuses: {problem}")]
    Refused { plugin: String, problem: Problem },
    #[error(
        "the configuration of the Plugin {plugin} did not come whole, or is more than a Secret can hold"
    )]
    Configuration { plugin: String },
}

/// How long is waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a runner that is asked for the first time, or to be asked again.
    pub runner: Duration,
    /// For what one says to a question: a call may run, and files have to be taken before the answer to
    /// them. Not for files that it gives.
    pub answer: Duration,
}

/// Bytes in order.
pub type Pieces = BoxStream<'static, io::Result<Bytes>>;

/// Who may ask runners for what their plugins keep.
#[derive(Clone)]
pub struct Keeper {
    kube: Client,
    namespace: String,
    http: reqwest::Client,
    key: Arc<[u8]>,
    patience: Patience,
}

impl std::fmt::Debug for Keeper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Keeper({})", self.namespace)
    }
}

/// Where a runner may be, and how it is spoken to.
struct Door {
    addresses: Vec<std::net::SocketAddr>,
    bearer: String,
    rendered: i64,
    /// What stands in the way, as far as it is seen.
    why: String,
}

impl Keeper {
    /// # Errors
    /// The key cannot be read, or no cluster is configured here.
    #[boxed]
    pub async fn connect(
        namespace: &str,
        key_file: &Path,
        patience: Patience,
    ) -> Result<Self, KeeperError> {
        let kube = crate::kept::client().await;
        let kube = kube.map_err(|error| KeeperError::Cluster(Box::new(error)))?;
        Self::with(kube, namespace, key_file, patience)
    }

    /// # Errors
    /// The key cannot be read.
    pub fn with(
        kube: Client,
        namespace: &str,
        key_file: &Path,
        patience: Patience,
    ) -> Result<Self, KeeperError> {
        let key = fs::read(key_file);
        let key = key.map_err(|source| KeeperError::Key { path: key_file.to_owned(), source })?;
        let http = famulus_sandbox::client().map_err(KeeperError::Http)?;
        Ok(Self { kube, namespace: namespace.to_owned(), http, key: key.into(), patience })
    }

    /// The files of a plugin, as a tar. No call of it runs while they are read.
    ///
    /// # Errors
    /// No runner gives them.
    #[boxed]
    pub async fn files(&self, plugin: &str) -> Result<Pieces, KeeperError> {
        let none = async || Ok::<_, KeeperError>(Body::default());
        let response = self.ask(Method::GET, paths::OWN_FILES, plugin, none).await?;
        Ok(response.bytes_stream().map_err(io::Error::other).boxed())
    }

    /// What the owner of a plugin configured, as the JSON of an object.
    ///
    /// # Errors
    /// No runner gives it.
    #[boxed]
    pub async fn configuration(&self, plugin: &str) -> Result<Vec<u8>, KeeperError> {
        let none = async || Ok::<_, KeeperError>(Body::default());
        let response = self.ask(Method::GET, paths::CONFIGURATION, plugin, none).await?;
        let read = timeout(self.patience.answer, whole(response, CONFIGURATION_BYTES)).await;
        read.ok().flatten().ok_or_else(|| KeeperError::Configuration { plugin: plugin.to_owned() })
    }

    /// Gives a plugin its files, which are read anew for each attempt.
    ///
    /// # Errors
    /// No runner takes them, or they cannot be read.
    pub async fn give_back<E: From<KeeperError>>(
        &self,
        plugin: &str,
        files: impl AsyncFn() -> Result<Pieces, E>,
    ) -> Result<(), E> {
        let body = async || files().await.map(Body::wrap_stream);
        self.ask(Method::PUT, paths::OWN_FILES, plugin, body).await?;
        Ok(())
    }

    async fn ask<E: From<KeeperError>>(
        &self,
        method: Method,
        path: &str,
        plugin: &str,
        body: impl AsyncFn() -> Result<Body, E>,
    ) -> Result<Response, E> {
        let Patience { runner, answer } = self.patience;
        let deadline = Instant::now() + runner;
        let mut scaled = None;
        loop {
            let Door { addresses, bearer, rendered, mut why } =
                self.door(plugin, &mut scaled).await?;
            for address in addresses {
                let request = self
                    .http
                    .request(method.clone(), format!("http://{address}{path}"))
                    .bearer_auth(&bearer)
                    .header(RENDERED_HEADER, rendered)
                    .body(body().await?);
                match timeout(answer, answered(request)).await {
                    Ok(Ok(Ok(response))) => return Ok(response),
                    Ok(Ok(Err(problem))) => {
                        // The Plugin may have changed between two looks.
                        if !problem.kind.is_passing() && problem.kind != Kind::Unauthorized {
                            let plugin = plugin.to_owned();
                            return Err(KeeperError::Refused { plugin, problem }.into());
                        }
                        why = problem.to_string();
                    }
                    Ok(Err(error)) => why = chain(&error),
                    Err(_late) => why = format!("it did not answer for {} s", answer.as_secs()),
                }
            }
            if Instant::now() >= deadline {
                let (plugin, seconds) = (plugin.to_owned(), runner.as_secs());
                return Err(KeeperError::Silent { plugin, seconds, why }.into());
            }
            sleep(AGAIN).await;
        }
    }

    /// Finds the runners of a plugin, and has one started where none is wanted.
    async fn door(&self, plugin: &str, scaled: &mut Option<Instant>) -> Result<Door, KeeperError> {
        let failed = |what| {
            let plugin = plugin.to_owned();
            move |source| KeeperError::Api { what, plugin, source }
        };
        let plugins: Api<Plugin> = Api::namespaced(self.kube.clone(), &self.namespace);
        let named = ListParams::default().fields(&format!("metadata.name={plugin}"));
        let found = plugins.list(&named).await.map_err(failed("the state"))?.items.pop();
        let found = found.ok_or_else(|| KeeperError::Gone { plugin: plugin.to_owned() })?;
        if found.spec.suspend {
            return Err(KeeperError::Suspended { plugin: plugin.to_owned() });
        }
        if found.spec.runner.replicas < 1 && scaled.is_none_or(|at| at.elapsed() > SCALE_AGAIN) {
            *scaled = Some(Instant::now());
            let patch = Patch::Merge(json!({"spec": {"replicas": 1}}));
            let done = plugins.patch_scale(plugin, &PatchParams::default(), &patch).await;
            done.map_err(failed("the scale"))?;
        }
        let pods: Api<Pod> = Api::namespaced(self.kube.clone(), &self.namespace);
        let pods = pods.list(&ListParams::default().labels(&runners_of(plugin))).await;
        let states = pods.map_err(failed("the Pods"))?.items;
        let states = states.iter().map(PodState::of).filter(|state| !state.ending);
        let addresses = states.filter_map(|state| Some((state.address?, PORT).into())).collect();
        let uid = found.metadata.uid.unwrap_or_default();
        let status = found.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|condition| condition.kind == "Ready");
        let why = ready.map_or("its runner did not start", |condition| &condition.message);
        Ok(Door {
            addresses,
            bearer: bearer::keeper(&self.key, &uid, status.rendered),
            rendered: status.rendered,
            why: why.to_owned(),
        })
    }
}

/// The answer of a runner, or its refusal, which is believed as far as it can be read.
async fn answered(request: RequestBuilder) -> reqwest::Result<Result<Response, Problem>> {
    let response = request.send().await?;
    let status = response.status();
    if status.is_success() {
        return Ok(Ok(response));
    }
    let problem = whole(response, PROBLEM_BYTES).await;
    Ok(Err(problem.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_else(|| {
        Problem::new(Kind::NotReady, format!("it answers with {status}"), "see its log")
    })))
}

/// A body that comes to its end within a size.
async fn whole(response: Response, most: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut pieces = response.bytes_stream();
    while let Some(piece) = pieces.next().await {
        bytes.extend_from_slice(&piece.ok()?);
        if bytes.len() > most {
            return None;
        }
    }
    Some(bytes)
}
