//! A runner for a plugin that has none.
//!
//! ```text
//! nobody there ─► let by RunnerDemand? ─ yes ─► plugins/scale = 1 ─► operator ─► Pod
//!                       └ no: another process asked                    │
//! wait for the Pod to be Ready, or for its liveness path ◄─────────────┘
//! up and silent ─► poll for a while: its container may be starting again
//! ```

use std::sync::Arc;
use std::time::Duration;

use famulus_core::sandbox::{Progress, SandboxError, Stage};
use famulus_crds::plugin::Plugin;
use famulus_errors::chain;
use futures::future::{pending, select_all};
use kube::api::{Patch, PatchParams};
use kube::{Api, Error};
use serde_json::json;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::cluster::Cluster;
use crate::plugin::CachedPlugin;
use crate::runner::Runner;
use crate::table::Pick;
use crate::wire;

/// After so long another one asks: who was let may have died.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Between polls of the liveness path of a Pod that is about to serve. A Pod is called ready up to a
/// second after it is.
const POLL: Duration = Duration::from_millis(20);

/// The same of a runner that did not answer before: everybody who waits for it polls.
const POLL_SILENT: Duration = Duration::from_millis(200);

/// A write of one number.
const SCALE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum ScaleError {
    #[error("the Plugin changed meanwhile, or is gone")]
    Changed,
    #[error(
        "the scale of the Plugin could not be written; see the rights of the app's ServiceAccount"
    )]
    Refused(#[source] Error),
    #[error("the scale of the Plugin could not be written: the API server is silent")]
    Silent,
}

/// What was done so that a runner starts.
#[derive(Default)]
pub(crate) struct ScaleUp {
    asked: Option<Instant>,
    /// This process is the one that writes, and did not yet.
    may_write: bool,
    trouble: Option<String>,
}

impl Cluster {
    /// The runner that takes the call: one that is up, or one that is started for it.
    pub(crate) async fn runner(
        &self,
        plugin: &str,
        progress: &Progress,
    ) -> Result<(Arc<CachedPlugin>, Arc<Runner>), SandboxError> {
        let deadline = Instant::now() + self.timeouts.start;
        let mut changes = self.table.subscribe();
        let mut request = ScaleUp::default();
        let mut silent_until = None;
        loop {
            changes.borrow_and_update();
            let known = self.callable(plugin)?;
            let starting = match self.table.pick(&known) {
                Pick::Runner(runner) => return Ok((known, runner)),
                Pick::Silent(silent) => {
                    // Its container may be about to start again.
                    let until =
                        *silent_until.get_or_insert_with(|| Instant::now() + self.timeouts.reach);
                    tokio::select! {
                        biased;
                        runner = self.poll_liveness(&silent, POLL_SILENT) => {
                            runner.answered();
                            return Ok((known, runner));
                        }
                        () = sleep_until(until) => {
                            return Err(unreachable(plugin, "its runner does not answer"));
                        }
                        _ = changes.changed() => continue,
                    }
                }
                Pick::Nobody(starting) => starting,
            };
            if request.asked.is_none() {
                progress.tell(Stage::Starting);
            }
            self.request_runner(&known, &mut request).await;
            tokio::select! {
                biased;
                _ = changes.changed() => {}
                runner = self.poll_liveness(&starting, POLL) => return Ok((known, runner)),
                () = sleep(ASK_AGAIN) => {}
                () = sleep_until(deadline) => {
                    return Err(self.did_not_start(&known, request.trouble));
                }
            }
        }
    }

    /// Writes the scale, if this process is the one that does, as soon as the Plugin is seen to
    /// want none: a moment ago another one may have let its runner end.
    pub(crate) async fn request_runner(&self, known: &CachedPlugin, request: &mut ScaleUp) {
        if request.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) {
            let may = self.demand.may_start(&known.uid, ASK_AGAIN).await;
            request.asked = Some(Instant::now());
            request.trouble = may.as_ref().err().map(|error| chain(error));
            request.may_write = may.unwrap_or_default();
        }
        if !request.may_write || known.replicas > 0 {
            return;
        }
        request.may_write = false;
        tracing::info!(plugin.name = known.name, "scaling a plugin from zero to one runner");
        if let Err(error) = self.scale(known, 1, None).await {
            let error = chain(&error);
            tracing::warn!(
                plugin.name = known.name,
                error,
                "a plugin could not be scaled to one runner"
            );
            request.trouble = Some(error);
        }
    }

    /// Writes how many runners are wanted; with a version only if the Plugin is still of that one.
    pub(crate) async fn scale(
        &self,
        known: &CachedPlugin,
        replicas: i32,
        version: Option<&str>,
    ) -> Result<(), ScaleError> {
        let mut patch = json!({"spec": {"replicas": replicas}});
        if let Some(version) = version {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        let plugins: Api<Plugin> = Api::namespaced(self.kube.clone(), &self.namespace);
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let scaled = plugins.patch_scale(&known.object, &parameters, &patch);
        match timeout(SCALE, scaled).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(Error::Api(status))) if matches!(status.code, 404 | 409) => {
                Err(ScaleError::Changed)
            }
            Ok(Err(error)) => Err(ScaleError::Refused(error)),
            Err(_elapsed) => Err(ScaleError::Silent),
        }
    }

    /// The first of these that serves.
    async fn poll_liveness(&self, runners: &[Arc<Runner>], pause: Duration) -> Arc<Runner> {
        if runners.is_empty() {
            return pending().await;
        }
        let polls = runners.iter().map(|runner| {
            Box::pin(async move {
                while !wire::is_alive(&self.http, runner).await {
                    sleep(pause).await;
                }
                Arc::clone(runner)
            })
        });
        select_all(polls).await.0
    }

    fn did_not_start(&self, known: &CachedPlugin, trouble: Option<String>) -> SandboxError {
        let seconds = self.timeouts.start.as_secs();
        let says = self.table.by_uid(&known.uid).map_or_else(|| known.says(), |now| now.says());
        let why = trouble.unwrap_or(says.message);
        SandboxError::NotReady {
            plugin: known.name.clone(),
            reason: says.reason,
            message: format!("its runner did not start within {seconds} s: {why}"),
        }
    }
}

pub(crate) fn unreachable(plugin: &str, why: impl Into<String>) -> SandboxError {
    SandboxError::Unreachable { plugin: plugin.to_owned(), why: why.into() }
}
