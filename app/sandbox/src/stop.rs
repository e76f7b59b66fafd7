//! Cancels a call that its caller does not want any more.
//!
//! Whoever waits for a call may go away without a word: then the call goes on, and a successor asks
//! for it. Only the call's token ends it, and that may be cancelled in the same instant in which the
//! one who waits is gone. So the token is watched by a task of its own.

use std::sync::Arc;
use std::time::Duration;

use famulus_core::sandbox::{SandboxAnswer, SandboxCall, SandboxError};
use famulus_lifecycle::OnExit;
use famulus_protocol::{CallId, CallResult, CallState, Kind, Outcome, Reason};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answer;
use crate::calls::Calls;
use crate::dispatch::DispatchState;
use crate::execute::{AGAIN, UNKNOWN_TWICE};
use crate::home::{Home, KnownPlugin};
use crate::wire::WireError;

/// How long after the one who waited is gone the token still counts.
const INSTANT: Duration = Duration::from_secs(1);

/// A call whose token is watched.
pub(crate) struct WatchedCall<H: Home> {
    pub(crate) call: Arc<SandboxCall>,
    pub(crate) id: CallId,
    pub(crate) dispatch: Arc<DispatchState<H>>,
    /// What came of stopping it.
    pub(crate) stopped: oneshot::Receiver<Result<SandboxAnswer, SandboxError>>,
    /// Says that nobody waits any more.
    _waiting: DropGuard,
}

impl<H: Home> Calls<H> {
    pub(crate) fn watch_cancel(&self, call: SandboxCall, id: CallId) -> WatchedCall<H> {
        let (call, dispatch) = (Arc::new(call), Arc::new(DispatchState::new()));
        let gone = CancellationToken::new();
        let (tell, stopped) = oneshot::channel();
        if let Some(calls) = self.own.upgrade() {
            let (call, id, dispatch) = (Arc::clone(&call), id.clone(), Arc::clone(&dispatch));
            let gone = gone.clone();
            self.tasks.spawn("sandbox.stop", OnExit::Log, async move {
                let cancelled = tokio::select! {
                    biased;
                    () = call.cancel.cancelled() => true,
                    () = gone.cancelled() => {
                        dispatch.read().is_some()
                            && timeout(INSTANT, call.cancel.cancelled()).await.is_ok()
                    }
                };
                if cancelled {
                    // Nobody may be waiting for it.
                    let _unheard = tell.send(calls.stop(&call, &id, &dispatch).await);
                }
            });
        }
        WatchedCall { call, id, dispatch, stopped, _waiting: gone.drop_guard() }
    }

    /// What ended by itself first counts.
    async fn stop(
        &self,
        call: &SandboxCall,
        id: &CallId,
        dispatch: &DispatchState<H>,
    ) -> Result<SandboxAnswer, SandboxError> {
        let Some((known, runner)) = dispatch.read() else {
            return Err(SandboxError::Stopped);
        };
        let until = Instant::now() + self.timeouts.stop;
        let (mut told, mut unknown) = (false, 0);
        while Instant::now() < until {
            let credentials = self.credentials(&known);
            let client = self.client(&runner, &credentials);
            told = told || client.cancel(id).await.is_ok();
            match client.state(id).await {
                Ok(CallState::Ended { result }) if was_cancelled(&result) => {
                    // It is told to nobody, so nobody else will let it go.
                    self.acknowledge_result(&known, id.clone()).await;
                    return Err(SandboxError::Stopped);
                }
                Ok(CallState::Ended { result }) => {
                    let result =
                        answer::store(result, Some(client), &self.blobs, call.person).await;
                    return Ok(SandboxAnswer::Ended(result));
                }
                Err(WireError::TooLarge) => return Ok(SandboxAnswer::Ended(answer::too_large())),
                Err(WireError::Refused(problem)) if problem.kind == Kind::NoCall => {
                    unknown += 1;
                    if unknown >= UNKNOWN_TWICE {
                        return Err(SandboxError::Stopped);
                    }
                }
                Ok(CallState::Uploading | CallState::Queued { .. } | CallState::Running)
                | Err(_) => {}
            }
            sleep(AGAIN).await;
        }
        tracing::warn!(
            plugin.name = known.name(),
            call.id = %id,
            "a call that was cancelled did not end in time"
        );
        self.acks.add(id.clone(), known.uid());
        Err(SandboxError::Stopped)
    }
}

fn was_cancelled(result: &CallResult) -> bool {
    result.runs.iter().any(|run| match &run.outcome {
        Outcome::Failed(failure) => failure.reason == Reason::Cancelled,
        Outcome::Json { .. } | Outcome::Text { .. } => false,
    })
}
