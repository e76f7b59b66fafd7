//! Why a runner ended in the middle of a call: it does not know itself, the cluster tells it.

use std::time::Duration;

use famulus_protocol::{CallResult, Failure, Outcome, Reason};
use tokio::time::timeout;

use crate::cluster::Cluster;
use crate::runner::{Ended, Runner};

/// The kubelet tells it up to some seconds after the successor serves, and later on a busy node.
const TOLD: Duration = Duration::from_secs(10);

impl Cluster {
    /// The result; if its call was lost with a runner that took more memory than it may have, it says
    /// so. `before` is how that runner's container had ended when the call was sent.
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
        match timeout(TOLD, self.end_of(runner, before)).await {
            Ok(end) if end.for_memory => {}
            Ok(_) | Err(_) => return result,
        }
        let limit = runner.memory.as_ref().map(|limit| format!(" of {limit}")).unwrap_or_default();
        for failure in lost {
            failure.message = format!(
                "the sandbox took more memory than its limit{limit} and was ended while the call ran, \
                 so that its outcome is unknown: look whether it happened before calling again; then \
                 ask it for less at once, or have the limit raised"
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
