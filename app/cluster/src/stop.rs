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
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::answer;
use crate::cluster::Cluster;
use crate::execute::{AGAIN, UNKNOWN_TWICE};
use crate::plugin::CachedPlugin;
use crate::runner::Runner;
use crate::wire::WireError;

/// How long after the one who waited is gone the token still counts.
const INSTANT: Duration = Duration::from_secs(1);

/// Where a call may have been sent to.
#[derive(Debug, Default)]
pub(crate) struct DispatchState(Mutex<Dispatch>);

#[derive(Clone, Debug, Default)]
enum Dispatch {
    #[default]
    NotSent,
    Sent(Arc<CachedPlugin>, Arc<Runner>),
    /// Its answer was given.
    Answered,
}

impl DispatchState {
    pub(crate) fn sent(&self, known: &Arc<CachedPlugin>, runner: &Arc<Runner>) {
        *self.0.lock() = Dispatch::Sent(Arc::clone(known), Arc::clone(runner));
    }

    pub(crate) fn not_sent(&self) {
        *self.0.lock() = Dispatch::NotSent;
    }

    pub(crate) fn finish(&self) {
        *self.0.lock() = Dispatch::Answered;
    }

    fn read(&self) -> Dispatch {
        self.0.lock().clone()
    }
}

/// A call whose token is watched.
pub(crate) struct WatchedCall {
    pub(crate) call: Arc<SandboxCall>,
    pub(crate) id: CallId,
    pub(crate) dispatch: Arc<DispatchState>,
    /// What came of stopping it.
    pub(crate) stopped: oneshot::Receiver<Result<SandboxAnswer, SandboxError>>,
    /// Says that nobody waits any more.
    _waiting: DropGuard,
}

impl Cluster {
    pub(crate) fn watch_cancel(&self, call: SandboxCall, id: CallId) -> WatchedCall {
        let (call, dispatch) = (Arc::new(call), Arc::new(DispatchState::default()));
        let gone = CancellationToken::new();
        let (tell, stopped) = oneshot::channel();
        if let Some(cluster) = self.own.upgrade() {
            let (call, id, dispatch) = (Arc::clone(&call), id.clone(), Arc::clone(&dispatch));
            let gone = gone.clone();
            self.tasks.spawn("cluster.stop", OnExit::Log, async move {
                let cancelled = tokio::select! {
                    biased;
                    () = call.cancel.cancelled() => true,
                    () = gone.cancelled() => match dispatch.read() {
                        Dispatch::Answered | Dispatch::NotSent => false,
                        Dispatch::Sent(..) => timeout(INSTANT, call.cancel.cancelled()).await.is_ok(),
                    },
                };
                if cancelled {
                    // Nobody may be waiting for it.
                    let _unheard = tell.send(cluster.stop(&call, &id, &dispatch).await);
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
        dispatch: &DispatchState,
    ) -> Result<SandboxAnswer, SandboxError> {
        let (known, runner) = match dispatch.read() {
            Dispatch::Sent(known, runner) => (known, runner),
            Dispatch::NotSent | Dispatch::Answered => return Err(SandboxError::Stopped),
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
            plugin.name = known.name,
            call.id = %id,
            "a call that was cancelled did not end in time"
        );
        self.acks.add(id.clone(), &known.uid);
        Err(SandboxError::Stopped)
    }
}

fn was_cancelled(result: &CallResult) -> bool {
    result.runs.iter().any(|run| match &run.outcome {
        Outcome::Failed(failure) => failure.reason == Reason::Cancelled,
        Outcome::Json { .. } | Outcome::Text { .. } => false,
    })
}
