//! Why a runner ended in the middle of a call: it does not know itself, its home tells it.

use famulus_protocol::{CallResult, Failure, Outcome, Reason};
use tokio::time::timeout;

use crate::calls::Calls;
use crate::home::{EndCause, Ended, Home, KnownRunner};

impl<H: Home> Calls<H> {
    /// The result; if its call was lost with a runner that took more memory than it may have, or may
    /// have done so, it says so and names the limit. `before` is how that runner had ended before when the
    /// call was sent.
    pub(crate) async fn explain(
        &self,
        mut result: CallResult,
        runner: &H::Runner,
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
        let end = timeout(self.timeouts.cause, self.end_of(runner, before)).await;
        let limit = runner.memory().map(|limit| format!(" of {limit}")).unwrap_or_default();
        let too_much = format!("took more memory than its limit{limit}");
        let how = match end.map(|end| end.cause) {
            Ok(EndCause::Memory) => format!("{too_much} and was ended while the call ran"),
            Ok(EndCause::Killed) => {
                format!("was killed while the call ran, most likely because it {too_much}")
            }
            Err(_elapsed) => format!(
                "ended while the call ran, and nobody says why, perhaps because it \
                 {too_much}"
            ),
            Ok(EndCause::Exited(code)) => {
                tracing::warn!(runner = runner.name(), code, "a runner ended while a call ran");
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

    /// How the runner ended, once that is told of another end than `before`.
    pub(crate) async fn end_of(&self, runner: &H::Runner, before: Option<Ended>) -> Ended {
        let mut changes = self.home.changes();
        loop {
            match runner.ended_before() {
                Some(now) if before != Some(now) => return now,
                Some(_) | None => {}
            }
            // The sender lives as long as the home.
            let _changed = changes.changed().await;
        }
    }
}
