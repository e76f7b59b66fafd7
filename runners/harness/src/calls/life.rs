//! The life of one call: its turn, its work, its result on disk, and whoever is told.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use famulus_lifecycle::OnExit;
use famulus_protocol::{CallId, CallResult, Failure, Outcome, Reason, Run};
use futures::FutureExt;
use tokio::time::sleep;

use super::{Calls, cannot_write};
use crate::call_store::StoredCall;
use crate::callback::Delivered;
use crate::live::{Live, Phase, ProgressSender};
use crate::wait_queue::Ticket;
use crate::work::{Admitted, Context};

/// How often a result that could not be written is tried again, and the pause between.
const KEEP_ATTEMPTS: u32 = 20;
const KEEP_AGAIN: Duration = Duration::from_millis(500);

impl Calls {
    /// From the queue to the store, and on to whoever wants the result.
    pub(super) async fn live_through(
        self: Arc<Self>,
        id: CallId,
        live: Arc<Live>,
        mut ticket: Ticket,
        admitted: Admitted,
        taken: StoredCall,
    ) {
        let Admitted { each, run, queue: _, answer: _ } = admitted;
        let noted = self.call_store.take(&id, &taken).await;
        live.noted.cancel();
        let runs = if let Err(error) = noted {
            vec![failed(Reason::Runner, &cannot_write(&error).to_string())]
        } else if wait_for_turn(&live, &mut ticket).await {
            live.phase.send_replace(Phase::Running);
            let context = Context {
                call: id.clone(),
                uploads: self.call_store.uploads(&id),
                outputs: self.call_store.outputs(&id),
                progress: ProgressSender::of(&live),
                supervisor: self.supervisor.clone(),
                cancel: live.cancel.clone(),
            };
            let runs = AssertUnwindSafe(run(context)).catch_unwind().await;
            runs.unwrap_or_else(|_panic| {
                vec![failed(
                    Reason::Runner,
                    "the runner failed; see its log. The call may have happened or not",
                )]
            })
        } else {
            vec![failed(Reason::Cancelled, "the call was cancelled before it began")]
        };
        let result = CallResult { call: id.clone(), tool: taken.tool, each, runs };
        self.keep(&result).await;
        // The place is free when the result is there, so that two calls of one queue never overlap.
        drop(ticket);
        live.phase.send_replace(Phase::Ended);
        self.deliver(id, live);
    }

    async fn keep(&self, result: &CallResult) {
        for _attempt in 0..KEEP_ATTEMPTS {
            match self.call_store.keep(result).await {
                Ok(()) => return,
                Err(error) => {
                    tracing::error!(%error, call.id = %result.call, "a result cannot be written");
                    sleep(KEEP_AGAIN).await;
                }
            }
        }
        tracing::error!(call.id = %result.call, "a result is lost: it could not be written to disk");
    }

    /// Calls back, if the call wants that, until it is accepted or not needed any more.
    pub(super) fn deliver(self: &Arc<Self>, id: CallId, live: Arc<Live>) {
        let Some(callback) = live.callback.clone() else { return };
        let calls = Arc::clone(self);
        let shutdown = self.tasks.token();
        self.tasks.spawn("runner.callback", OnExit::Log, async move {
            let plugin = calls.work.health().plugin.unwrap_or_default();
            let delivered = async {
                match calls.call_store.result(&id).await {
                    Ok(result) => calls.callbacks.deliver(&callback, plugin, result).await,
                    Err(error) => {
                        tracing::error!(%error, call.id = %id, "a result cannot be read");
                        Delivered::Undeliverable
                    }
                }
            };
            let delivered = tokio::select! {
                delivered = delivered => delivered,
                () = live.acknowledged.cancelled() => return,
                () = shutdown.cancelled() => return,
            };
            match delivered {
                Delivered::Accepted | Delivered::Undeliverable => {}
                // It would stay for good, in the way of calls.
                Delivered::Unwanted => {
                    if let Err(problem) = calls.acknowledge(&id).await {
                        tracing::warn!(%problem, call.id = %id, "a result that nobody wants stays");
                    }
                }
            }
        });
    }
}

/// Whether the call may run; not, when it was cancelled first.
async fn wait_for_turn(live: &Live, ticket: &mut Ticket) -> bool {
    while ticket.position() > 0 {
        tokio::select! {
            () = live.cancel.cancelled() => return false,
            () = ticket.changed() => {
                live.phase.send_replace(Phase::Queued(ticket.position() as u32));
            }
        }
    }
    !live.cancel.is_cancelled()
}

fn failed(reason: Reason, message: &str) -> Run {
    let outcome = Outcome::Failed(Failure { reason, message: message.to_owned() });
    Run { outcome, files: Vec::new(), notes: Vec::new(), millis: 0 }
}
