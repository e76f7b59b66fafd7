//! Ends a call that its caller does not want any more.
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
use crate::conduct::{AGAIN, UNKNOWN_TWICE};
use crate::plugin::Known;
use crate::runner::Runner;
use crate::wire::WireError;

/// How long after the one who waited is gone the token still counts.
const INSTANT: Duration = Duration::from_secs(1);

/// Where a call may have been sent to.
#[derive(Debug, Default)]
pub(crate) struct Trail(Mutex<Whereabouts>);

#[derive(Clone, Debug, Default)]
enum Whereabouts {
    #[default]
    Here,
    Sent(Arc<Known>, Arc<Runner>),
    /// Its answer was given.
    Over,
}

impl Trail {
    pub(crate) fn sent(&self, known: &Arc<Known>, runner: &Arc<Runner>) {
        *self.0.lock() = Whereabouts::Sent(Arc::clone(known), Arc::clone(runner));
    }

    pub(crate) fn not_sent(&self) {
        *self.0.lock() = Whereabouts::Here;
    }

    pub(crate) fn finish(&self) {
        *self.0.lock() = Whereabouts::Over;
    }

    fn read(&self) -> Whereabouts {
        self.0.lock().clone()
    }
}

/// A call whose token is watched.
pub(crate) struct Ward {
    pub(crate) call: Arc<SandboxCall>,
    pub(crate) id: CallId,
    pub(crate) trail: Arc<Trail>,
    /// What came of stopping it.
    pub(crate) stopped: oneshot::Receiver<Result<SandboxAnswer, SandboxError>>,
    /// Says that nobody waits any more.
    _waiting: DropGuard,
}

impl Cluster {
    pub(crate) fn guard(&self, call: SandboxCall, id: CallId) -> Ward {
        let (call, trail) = (Arc::new(call), Arc::new(Trail::default()));
        let gone = CancellationToken::new();
        let (tell, stopped) = oneshot::channel();
        if let Some(cluster) = self.own.upgrade() {
            let (call, id, trail) = (Arc::clone(&call), id.clone(), Arc::clone(&trail));
            let gone = gone.clone();
            self.tasks.spawn("cluster.stop", OnExit::Log, async move {
                let cancelled = tokio::select! {
                    biased;
                    () = call.cancel.cancelled() => true,
                    () = gone.cancelled() => match trail.read() {
                        Whereabouts::Over | Whereabouts::Here => false,
                        Whereabouts::Sent(..) => timeout(INSTANT, call.cancel.cancelled()).await.is_ok(),
                    },
                };
                if cancelled {
                    // Nobody may be waiting for it.
                    let _unheard = tell.send(cluster.stop(&call, &id, &trail).await);
                }
            });
        }
        Ward { call, id, trail, stopped, _waiting: gone.drop_guard() }
    }

    /// What ended by itself first counts.
    async fn stop(
        &self,
        call: &SandboxCall,
        id: &CallId,
        trail: &Trail,
    ) -> Result<SandboxAnswer, SandboxError> {
        let (known, runner) = match trail.read() {
            Whereabouts::Sent(known, runner) => (known, runner),
            Whereabouts::Here | Whereabouts::Over => return Err(SandboxError::Stopped),
        };
        let until = Instant::now() + self.patience.stop;
        let (mut told, mut unknown) = (false, 0);
        while Instant::now() < until {
            let voice = self.voice(&known);
            let caller = self.caller(&runner, &voice);
            told = told || caller.cancel(id).await.is_ok();
            match caller.state(id).await {
                Ok(CallState::Ended { result }) if was_cancelled(&result) => {
                    // It is told to nobody, so nobody else will let it go.
                    self.let_go(&known, id.clone()).await;
                    return Err(SandboxError::Stopped);
                }
                Ok(CallState::Ended { result }) => {
                    let result =
                        answer::store(result, Some(caller), &self.blobs, call.person).await;
                    return Ok(SandboxAnswer::Ended(result));
                }
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
        tracing::warn!(plugin.name = known.name, call.id = %id, "a call that was stopped goes on");
        self.owed.add(id.clone(), &known.uid);
        Err(SandboxError::Stopped)
    }
}

fn was_cancelled(result: &CallResult) -> bool {
    result.runs.iter().any(|run| match &run.outcome {
        Outcome::Failed(failure) => failure.reason == Reason::Cancelled,
        Outcome::Json { .. } | Outcome::Text { .. } => false,
    })
}
