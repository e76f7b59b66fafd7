//! A runner for a plugin that has none.
//!
//! ```text
//! nobody there ─► let by RunnerDemand? ─ yes ─► Home::start ─► a runner
//!                       └ no: another process asked              │
//! wait for it to be ready, or for its liveness path ◄────────────┘
//! up and silent ─► poll for a while: it may be starting again
//! ```

use std::sync::Arc;
use std::time::Duration;

use famulus_core::sandbox::{Progress, SandboxError, Stage};
use famulus_errors::chain;
use futures::future::{pending, select_all};
use tokio::time::{Instant, sleep, sleep_until};

use crate::calls::Calls;
use crate::home::{Home, KnownPlugin, KnownRunner};
use crate::pick::{Pick, pick};
use crate::wire;

/// After so long another one asks: who was let may have died.
pub(crate) const ASK_AGAIN: Duration = Duration::from_secs(5);

/// Between polls of the liveness path of a runner that is about to serve. A Pod is called ready up to a
/// second after it is.
const POLL: Duration = Duration::from_millis(20);

/// The same of a runner that did not answer before: everybody who waits for it polls.
const POLL_SILENT: Duration = Duration::from_millis(200);

/// What was done so that a runner starts.
#[derive(Default)]
pub(crate) struct StartRequest {
    asked: Option<Instant>,
    /// This process is the one that starts it, and did not yet.
    may_start: bool,
    trouble: Option<String>,
}

impl<H: Home> Calls<H> {
    /// The runner that takes the call: one that is up, or one that is started for it.
    pub(crate) async fn runner(
        &self,
        plugin: &str,
        progress: &Progress,
    ) -> Result<(Arc<H::Plugin>, Arc<H::Runner>), SandboxError> {
        let deadline = Instant::now() + self.timeouts.start;
        let mut changes = self.home.changes();
        let mut request = StartRequest::default();
        let mut silent_until = None;
        loop {
            changes.borrow_and_update();
            let known = self.callable(plugin)?;
            let starting = match pick(&*self.home, &known) {
                Pick::Runner(runner) => return Ok((known, runner)),
                Pick::Silent(silent) => {
                    // It may be about to start again.
                    let until =
                        *silent_until.get_or_insert_with(|| Instant::now() + self.timeouts.reach);
                    tokio::select! {
                        biased;
                        runner = self.poll_liveness(&silent, POLL_SILENT) => {
                            runner.conduct().answered();
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

    /// Has a runner started, if this process is the one that does, as soon as the plugin is seen to
    /// want none: a moment ago another one may have let its runner end.
    pub(crate) async fn request_runner(&self, known: &H::Plugin, request: &mut StartRequest) {
        if request.asked.is_none_or(|asked| asked.elapsed() >= ASK_AGAIN) {
            let may = self.demand.may_start(known.uid(), ASK_AGAIN).await;
            request.asked = Some(Instant::now());
            request.trouble = may.as_ref().err().map(|error| chain(error));
            request.may_start = may.unwrap_or_default();
        }
        if !request.may_start || known.wants_runner() {
            return;
        }
        request.may_start = false;
        tracing::info!(plugin.name = known.name(), "scaling a plugin from zero to one runner");
        if let Err(error) = self.home.start(known).await {
            let error = chain(&error);
            tracing::warn!(
                plugin.name = known.name(),
                error,
                "a plugin could not be scaled to one runner"
            );
            request.trouble = Some(error);
        }
    }

    /// The first of these that serves.
    async fn poll_liveness(&self, runners: &[Arc<H::Runner>], pause: Duration) -> Arc<H::Runner> {
        if runners.is_empty() {
            return pending().await;
        }
        let polls = runners.iter().map(|runner| {
            Box::pin(async move {
                while !wire::is_alive(&self.http, &**runner).await {
                    sleep(pause).await;
                }
                Arc::clone(runner)
            })
        });
        select_all(polls).await.0
    }

    fn did_not_start(&self, known: &H::Plugin, trouble: Option<String>) -> SandboxError {
        let seconds = self.timeouts.start.as_secs();
        let now = self.home.plugin_by_uid(known.uid());
        let says = now.map_or_else(|| known.says(), |now| now.says());
        let why = trouble.unwrap_or(says.message);
        SandboxError::NotReady {
            plugin: known.name().to_owned(),
            reason: says.reason,
            message: format!("its runner did not start within {seconds} s: {why}"),
        }
    }
}

pub(crate) fn unreachable(plugin: &str, why: impl Into<String>) -> SandboxError {
    SandboxError::Unreachable { plugin: plugin.to_owned(), why: why.into() }
}
