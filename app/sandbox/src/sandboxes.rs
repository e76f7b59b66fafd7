//! Core's port of sandboxes.

use async_trait::async_trait;
use std::sync::Arc;

use famulus_core::ids::PersonId;
use famulus_core::sandbox::{
    PluginState, Progress, SandboxAnswer, SandboxCall, SandboxError, Sandboxes,
};
use famulus_protocol::CallId;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use jiff::{SignedDuration, Timestamp};
use tracing::Instrument;

use crate::activation::{StartRequest, unreachable};
use crate::calls::{Calls, call_id};
use crate::conduct::begin_call;
use crate::execute::{PendingCall, WaitOutcome, lost};
use crate::home::{Home, KnownPlugin, KnownRunner};
use crate::stages::StageTimer;

/// A runner that says when it was made says it in whole seconds, by another clock.
const CLOCKS: SignedDuration = SignedDuration::from_secs(5);

const GONE: &str = "the runner to which it may have been sent is gone";

#[async_trait]
impl<H: Home> Sandboxes for Calls<H> {
    async fn plugins(&self) -> Result<Vec<PluginState>, SandboxError> {
        self.known().await?;
        Ok(self.home.plugins().values().map(|known| known.state()).collect())
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
            self.request_runner(&known, &mut StartRequest::default()).await;
        }
        self.callable(&call.plugin)?;
        let span = tracing::info_span!("sandbox.call", plugin.name = known.name(), call.id = %id);
        let watched = self.watch_cancel(call, id);
        let executed = self.execute(&watched.call, &watched.id, &watched.dispatch).instrument(span);
        tokio::select! {
            biased;
            () = watched.call.cancel.cancelled() => {}
            answer = Box::pin(executed) => {
                watched.dispatch.forget();
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
        let runners = self.home.runners(&known);
        let mut asked: FuturesUnordered<_> = runners
            .iter()
            .map(async |runner| (runner, self.ask_one(&known, runner, &id, person).await))
            .collect();
        let (mut there, mut unheard) = (false, None);
        while let Some((runner, answer)) = asked.next().await {
            let before = runner.created().saturating_add(CLOCKS).is_ok_and(|made| made <= sent);
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
        if there && known.has_one_runner() { Ok(None) } else { Err(lost(known.name(), GONE)) }
    }

    async fn acknowledge(&self, plugin: &str, id: &str) {
        let (Some(known), Ok(id)) = (self.home.plugin(plugin), call_id(id)) else { return };
        self.used.result_came(&id);
        self.acknowledge_result(&known, id).await;
    }

    async fn logs(&self, plugin: &str) -> Result<Vec<String>, SandboxError> {
        self.known().await?;
        let known = self.named(plugin)?;
        let Some(runner) = self.home.runners(&known).pop() else {
            return Err(SandboxError::NotReady {
                plugin: known.name().to_owned(),
                reason: known.says().reason,
                message: "no runner is up, and its log ends with it; a call starts one".to_owned(),
            });
        };
        self.home.logs(&runner).await.map_err(|why| unreachable(plugin, why))
    }
}

impl<H: Home> Calls<H> {
    async fn known(&self) -> Result<(), SandboxError> {
        self.home.known(self.timeouts.first).await
    }

    /// Asks one runner for a call, until it answers or is lost.
    async fn ask_one(
        &self,
        known: &Arc<H::Plugin>,
        runner: &Arc<H::Runner>,
        id: &CallId,
        person: PersonId,
    ) -> Result<WaitOutcome, SandboxError> {
        let progress = Progress::none();
        let awaited = PendingCall { id, person, progress: &progress, later: false, before: None };
        let _there = begin_call(runner);
        self.wait_for(awaited, known, runner, None, &mut StageTimer::begin()).await
    }
}
