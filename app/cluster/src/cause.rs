//! Why a runner ended in the middle of a call: it does not know itself, the cluster tells it.

use std::time::Duration;

use famulus_protocol::{CallResult, Failure, Outcome, Reason};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::runner::{EndCause, Ended, Runner};

/// The kubelet tells it up to some seconds after the successor serves, and later on a busy node.
const TOLD: Duration = Duration::from_secs(10);

impl Cluster {
    /// The result; if its call was lost with a runner that took more memory than it may have, or that
    /// most likely did, it says so. `before` is how that runner's container had ended when the call was sent.
    pub(crate) async fn explain(
        &self,
        mut result: CallResult,
        runner: &Runner,
        before: Option<Ended>,
    ) -> CallResult {
        let mut lost: Vec<&mut Failure> = Vec::new();
        for run in &mut result.runs {
            if let Outcome::Failed(failure) = &mut run.outcome
                && failure.reason == Reason::Lost
            {
                lost.push(failure);
            }
        }
        if lost.is_empty() {
            return result;
        }
        let Ok(end) = timeout(TOLD, self.end_of(runner, before)).await else { return result };
        let limit = runner.memory.as_ref().map(|limit| format!(" of {limit}")).unwrap_or_default();
        let how = match end.cause {
            EndCause::Memory => {
                format!("took more memory than its limit{limit} and was ended while the call ran")
            }
            EndCause::Killed => format!(
                "was killed while the call ran, most likely because it took more memory than its \
                 limit{limit}"
            ),
            EndCause::Exited(code) => {
                tracing::warn!(pod = runner.pod, code, "a runner ended while a call ran");
                return result;
            }
        };
        for failure in lost {
            failure.message = format!(
                "the sandbox {how}, so that its outcome is unknown: look whether it happened before \
                 calling again; then ask it for less at once, or have the limit raised"
            );
        }
        result
    }

    /// How the runner's container ended, once that is told of another end than `before`.
    pub(crate) async fn end_of(&self, runner: &Runner, before: Option<Ended>) -> Ended {
        let mut changes = self.table.subscribe();
        loop {
            match runner.facts().ended_before {
                Some(now) if before != Some(now) => return now,
                Some(_) | None => {}
            }
            // The sender lives as long as the table.
            let _changed = changes.changed().await;
        }
    }
}
