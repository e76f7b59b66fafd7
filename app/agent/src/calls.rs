//! Running the calls of a step: in parallel, with ordered results, and never twice what may happen
//! only once.

use crate::stream::Stream;
use famulus_core::{
    StoreError,
    approval::ApprovalState,
    crash,
    event::{Event, Status},
    message::{ToolCall, ToolResult},
    tool::{AskedAfter, CallContext, CallKey, CheckedCall, OwnerWords, Repeat, ToolOutput, Tools},
    turn::{CallState, Fence, LoadedTurn, RecordedCall, TurnLog},
};
use futures::{FutureExt, StreamExt, stream::FuturesUnordered};
use jiff::Timestamp;
use std::{collections::BTreeMap, sync::Arc};
use tokio_util::sync::CancellationToken;

/// What came of running a step's calls.
pub(crate) enum CallsOutcome {
    /// Every call has its result, in the order of the calls.
    All(Vec<ToolResult>),
    /// The others are done; some wait for an answer until then.
    Waiting {
        deadline: Timestamp,
    },
    Stopped,
    Abandoned,
}

/// What is to be done with one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Known(ToolOutput),
    /// Run it, after marking it as sent when `mark` is set.
    Run {
        mark: bool,
    },
    /// It was sent, perhaps: ask what came of it.
    AskAfter,
    Wait {
        deadline: Timestamp,
    },
}

/// What the model reads where nobody can say what came of a call.
const NOBODY_KNOWS: &str = "the outcome of this call is unknown: the worker that sent it ended before the result was \
     recorded; it may or may not have happened, and it was not repeated";

/// What stands around a call of this turn.
pub(crate) fn context(turn: &LoadedTurn, key: CallKey, stop: &CancellationToken) -> CallContext {
    CallContext {
        key,
        person: turn.person.clone(),
        agent: turn.agent.id,
        grants: turn.agent.tools.clone(),
        conversation: turn.conversation,
        origin: turn.origin.clone(),
        began_by: turn.began_by,
        owner: OwnerWords::new(&turn.history),
        cancel: stop.child_token(),
    }
}

/// Decides about one recorded call; pure.
///
/// `spoken` says that the person wrote something after the question was asked: an open question is
/// then withdrawn.
pub(crate) fn next(call: &RecordedCall, now: Timestamp, spoken: bool) -> Next {
    if let (CallState::Done, Some(output)) = (call.state, &call.output) {
        return Next::Known(output.clone());
    }
    let denied = |text: &str| Next::Known(ToolOutput::Denied(text.to_owned()));
    if let Some(approval) = &call.approval {
        match approval.state {
            ApprovalState::Pending if approval.expires_at <= now => {
                return denied("not run: nobody answered in time");
            }
            ApprovalState::Pending if spoken => {
                return denied("not run: a message came instead of an answer");
            }
            ApprovalState::Pending => return Next::Wait { deadline: approval.expires_at },
            ApprovalState::Denied => return denied("not run: the answer was no"),
            ApprovalState::Expired => return denied("not run: nobody answered in time"),
            ApprovalState::Superseded => {
                return denied("not run: a message came instead of an answer");
            }
            ApprovalState::Approved | ApprovalState::Consumed => {}
        }
    }
    match (call.state, call.repeat) {
        (CallState::Sent, Repeat::Never) => Next::AskAfter,
        (CallState::Sent | CallState::Planned | CallState::Done, Repeat::Safe) => {
            Next::Run { mark: call.approval.is_some() }
        }
        (CallState::Planned | CallState::Done, Repeat::Never) => Next::Run { mark: true },
    }
}

/// Whether this very call was asked about in this turn, and nobody said yes. A question that was
/// withdrawn may be put again: the person has spoken since.
pub(crate) fn was_refused(call: &ToolCall, turn: &[RecordedCall], now: Timestamp) -> bool {
    turn.iter()
        .filter(|known| is_same(&known.call, call))
        .filter_map(|known| known.approval.as_ref())
        .any(|approval| match approval.state {
            ApprovalState::Denied | ApprovalState::Expired => true,
            ApprovalState::Pending => approval.expires_at <= now,
            ApprovalState::Approved | ApprovalState::Superseded | ApprovalState::Consumed => false,
        })
}

/// Whether two calls ask for the same, whatever the provider calls them.
pub(crate) fn is_same(one: &ToolCall, other: &ToolCall) -> bool {
    one.name == other.name && one.arguments == other.arguments
}

/// A call that was checked, or why it cannot run.
type Check<'a> = Result<Arc<dyn CheckedCall + 'a>, ToolOutput>;

/// Calls that this process has checked.
pub(crate) type Checked<'a> = BTreeMap<CallKey, Arc<dyn CheckedCall + 'a>>;

/// What a step's calls are run with.
pub(crate) struct Executor<'a> {
    pub(crate) log: &'a dyn TurnLog,
    pub(crate) tools: &'a dyn Tools,
    pub(crate) checked: &'a Checked<'a>,
    pub(crate) fence: &'a Fence,
    pub(crate) turn: &'a LoadedTurn,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) abandon: &'a CancellationToken,
    pub(crate) now: Timestamp,
    pub(crate) spoken: bool,
}

impl Executor<'_> {
    pub(crate) async fn run(
        &self,
        calls: &mut [RecordedCall],
        stream: &mut Stream,
    ) -> Result<CallsOutcome, StoreError> {
        let mut deadline: Option<Timestamp> = None;
        let mut running = FuturesUnordered::new();
        let mut withdrawn = false;
        for (place, call) in calls.iter_mut().enumerate() {
            match next(call, self.now, self.spoken) {
                Next::Known(output) => {
                    withdrawn |= call.state != CallState::Done && call.approval.is_some();
                    call.output = Some(output);
                }
                Next::Wait { deadline: until } => {
                    deadline = Some(deadline.map_or(until, |known| known.min(until)));
                }
                Next::Run { mark } => {
                    self.show(call, stream);
                    running.push(self.one(place, call.clone(), self.check(call), mark).boxed());
                }
                Next::AskAfter => {
                    self.show(call, stream);
                    running.push(self.ask_after(place, call.clone(), self.check(call)).boxed());
                }
            }
        }
        if let Err(error) = stream.store().await {
            tracing::warn!(error = %error, "storing events failed; they are kept");
        }
        let mut outputs: Vec<(usize, ToolOutput)> = Vec::new();
        loop {
            let done = tokio::select! {
                biased;
                () = self.abandon.cancelled() => return Ok(CallsOutcome::Abandoned),
                () = self.stop.cancelled() => return Ok(CallsOutcome::Stopped),
                done = running.next() => done,
            };
            match done {
                None => break,
                Some(result) => outputs.push(result?),
            }
        }
        drop(running);
        for (place, output) in outputs {
            calls[place].output = Some(output);
            calls[place].state = CallState::Done;
        }
        if withdrawn {
            self.log.close_approvals(self.fence, self.turn.id, self.now, self.spoken).await?;
        }
        match deadline {
            Some(deadline) => {
                // The wait may be long: what is known is recorded before the worker is given up.
                for call in calls.iter() {
                    if let Some(output) = &call.output {
                        self.log.record_output(self.fence, call.key, output).await?;
                    }
                }
                Ok(CallsOutcome::Waiting { deadline })
            }
            None => Ok(CallsOutcome::All(results(calls))),
        }
    }

    fn show(&self, call: &RecordedCall, stream: &mut Stream) {
        let (call, tool) = (call.call.id.clone(), call.call.name.clone());
        let status = Status::ToolRunning { call, tool };
        stream.emit(Event::Status { turn: self.turn.id, status });
    }

    /// The call as it was checked. After a crash or a wait for an answer only the record is left:
    /// then it is checked anew.
    fn check(&self, call: &RecordedCall) -> Check<'_> {
        match self.checked.get(&call.key) {
            Some(checked) => Ok(Arc::clone(checked)),
            None => self.tools.checked(&call.call, &self.turn.agent.tools),
        }
    }

    /// Takes in what came of a call that a worker sent which is gone, or runs it when it did not
    /// happen.
    async fn ask_after(
        &self,
        place: usize,
        call: RecordedCall,
        checked: Check<'_>,
    ) -> Result<(usize, ToolOutput), StoreError> {
        let context = context(self.turn, call.key, self.stop);
        let sent = call.sent_at.unwrap_or(Timestamp::MIN);
        let known = match &checked {
            Ok(checked) => checked.ask_after(&context, sent).await,
            // A tool that was taken away meanwhile was there when the call was sent.
            Err(_) => AskedAfter::Unknown,
        };
        match known {
            AskedAfter::Ended(output) => {
                self.settle(&call, &checked, &output).await?;
                Ok((place, output))
            }
            AskedAfter::NotSent => self.one(place, call, checked, true).await,
            AskedAfter::Unknown => Ok((place, ToolOutput::Unknown(NOBODY_KNOWS.into()))),
        }
    }

    /// Records what came of a call that may happen only once, and lets its keeper know.
    async fn settle(
        &self,
        call: &RecordedCall,
        checked: &Check<'_>,
        output: &ToolOutput,
    ) -> Result<(), StoreError> {
        self.log.record_output(self.fence, call.key, output).await?;
        if let Ok(checked) = checked {
            let context = context(self.turn, call.key, self.stop);
            checked.recorded(&context, output).await;
        }
        Ok(())
    }

    async fn one(
        &self,
        place: usize,
        call: RecordedCall,
        checked: Check<'_>,
        mark: bool,
    ) -> Result<(usize, ToolOutput), StoreError> {
        if mark && !self.log.mark_sent(self.fence, &call).await? {
            let refused = "not run: the approval does not cover this call any more";
            return Ok((place, ToolOutput::Denied(refused.into())));
        }
        let context = context(self.turn, call.key, self.stop);
        crash::before("tool.call");
        let output = match &checked {
            Ok(checked) => checked.run(&context).await,
            Err(refusal) => refusal.clone(),
        };
        crash::after("tool.call");
        // Without the name, which a model may make up: dispatch measures the tools that there are.
        metrics::counter!("famulus_tool_calls_total",
            "outcome" => if output.is_error() { "error" } else { "ok" })
        .increment(1);
        if call.repeat == Repeat::Never {
            self.settle(&call, &checked, &output).await?;
        }
        Ok((place, output))
    }
}

fn results(calls: &[RecordedCall]) -> Vec<ToolResult> {
    calls
        .iter()
        .map(|call| ToolResult {
            call_id: call.call.id.clone(),
            name: call.call.name.clone(),
            output: call
                .output
                .clone()
                .unwrap_or_else(|| ToolOutput::Error("the call returned nothing".into())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::{
        ids::{ApprovalId, TurnId},
        tool::Effect,
        turn::RecordedApproval,
    };

    fn recorded(
        state: CallState,
        repeat: Repeat,
        approval: Option<(ApprovalState, i64)>,
    ) -> RecordedCall {
        RecordedCall {
            key: CallKey { turn: TurnId::new(), step: 0, call: 0, item: 0 },
            call: ToolCall { id: "a".into(), name: "t".into(), arguments: "{}".into() },
            effect: Effect::External,
            repeat,
            state,
            sent_at: None,
            output: (state == CallState::Done).then(|| ToolOutput::Text("done".into())),
            approval: approval.map(|(state, expires)| RecordedApproval {
                id: ApprovalId::new(),
                state,
                expires_at: Timestamp::from_second(expires).unwrap(),
            }),
        }
    }

    #[test]
    fn what_happens_to_a_recorded_call() {
        use ApprovalState as A;
        use CallState as C;
        use Repeat as R;
        enum Want {
            Run(bool),
            Wait,
            Done,
            Denied,
            Ask,
        }
        let now = Timestamp::from_second(100).unwrap();
        let check = |state, repeat, approval, spoken, want: Want| {
            let got = next(&recorded(state, repeat, approval), now, spoken);
            let fits = match (&want, &got) {
                (Want::Run(mark), Next::Run { mark: got }) => mark == got,
                (Want::Wait, Next::Wait { deadline }) => deadline.as_second() == 200,
                (Want::Done, Next::Known(ToolOutput::Text(_)))
                | (Want::Denied, Next::Known(ToolOutput::Denied(_)))
                | (Want::Ask, Next::AskAfter) => true,
                _ => false,
            };
            assert!(fits, "{state:?} {repeat:?} {approval:?} {spoken}: {got:?}");
        };
        check(C::Planned, R::Safe, None, false, Want::Run(false));
        check(C::Planned, R::Never, None, false, Want::Run(true));
        check(C::Sent, R::Safe, None, false, Want::Run(false));
        check(C::Sent, R::Never, None, false, Want::Ask);
        check(C::Done, R::Never, None, false, Want::Done);
        check(C::Planned, R::Safe, Some((A::Pending, 200)), false, Want::Wait);
        check(C::Planned, R::Safe, Some((A::Pending, 200)), true, Want::Denied);
        check(C::Planned, R::Safe, Some((A::Pending, 100)), false, Want::Denied);
        check(C::Planned, R::Safe, Some((A::Denied, 200)), false, Want::Denied);
        check(C::Planned, R::Safe, Some((A::Expired, 50)), false, Want::Denied);
        check(C::Planned, R::Safe, Some((A::Superseded, 200)), false, Want::Denied);
        check(C::Planned, R::Safe, Some((A::Approved, 50)), false, Want::Run(true));
        check(C::Planned, R::Never, Some((A::Approved, 200)), true, Want::Run(true));
        check(C::Sent, R::Never, Some((A::Consumed, 200)), false, Want::Ask);
        check(C::Sent, R::Safe, Some((A::Consumed, 200)), false, Want::Run(true));
    }
}
