//! A turn under way: what [`crate::step`] decides is carried out here, through core's ports.

use crate::{
    ask::{self, AskOutcome, Shown},
    calls::{self, CallsOutcome, Checked, Executor},
    driver::{Driven, Driver},
    hear::Listened,
    patience::Patience,
    prompt,
    step::{Action, Decision, Input, Mode, State, step},
    stream::Stream,
};
use famulus_core::{
    StoreError,
    agent::MAIN,
    approval::{self, Approval, ApprovalState, Asked, CODE_LENGTH, code_from},
    event::{Event, Status},
    ids::{ApprovalId, MessageId},
    message::{Message, MessageRole, Part, PartBody, ToolCall, visible_text},
    model::{ModelReply, ModelRequest, Usage},
    tool::{CallKey, CheckedCall, Plan, ToolOutput, ToolSpec, Tools},
    turn::{
        CallState, Fence, LoadedTurn, NewMessage, PlannedCall, RecordedApproval, RecordedCall,
        ReplyRecord,
    },
};
use jiff::SignedDuration;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// What the model reads of a call about which nobody is asked again.
const ASKED_BEFORE: &str = "not run: this was asked in this turn already, and there was no yes";

/// A turn under way.
pub(crate) struct Run<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) fence: &'a Fence,
    pub(crate) turn: LoadedTurn,
    pub(crate) stream: Stream,
    pub(crate) stop: &'a CancellationToken,
    pub(crate) abandon: &'a CancellationToken,
    pub(crate) usage: Usage,
    pub(crate) patience: Patience,
    pub(crate) steps: u32,
    pub(crate) tools: Arc<[ToolSpec]>,
    /// Calls of the latest recorded step.
    pub(crate) open: Vec<RecordedCall>,
    /// The reply that the machine is deciding about.
    pub(crate) reply: Option<Replied<'a>>,
    /// Calls of the latest recorded step that this process has checked, and that may run.
    pub(crate) checked: Checked<'a>,
    /// What viewers saw of a reply that was stopped.
    pub(crate) cut: Shown,
}

/// A reply with what its calls were found to be, in their order.
pub(crate) struct Replied<'a> {
    pub(crate) reply: ModelReply,
    calls: Vec<(Plan, Option<Arc<dyn CheckedCall + 'a>>)>,
}

impl<'a> Run<'a> {
    pub(crate) async fn until_done(
        &mut self,
        mut state: State,
        first: Input,
    ) -> Result<Driven, StoreError> {
        let mut input = first;
        loop {
            let (next, actions) = step(state, input);
            state = next;
            let mut happened = None;
            for action in actions {
                match self.execute(action).await? {
                    StepResult::Nothing => {}
                    StepResult::Input(next) => happened = Some(next),
                    StepResult::Done(driven) => return Ok(driven),
                }
            }
            match happened {
                Some(next) => input = next,
                // Every list of actions ends with one that brings news or the end.
                None => return Ok(Driven::Abandoned),
            }
        }
    }

    async fn execute(&mut self, action: Action) -> Result<StepResult, StoreError> {
        match action {
            Action::Ask(mode) => self.ask(mode).await,
            Action::Record(decisions) => self.record(decisions).await,
            Action::Run => self.run_calls().await,
            Action::Park { deadline } => {
                self.stream.store().await?;
                self.driver.log.park(self.fence, self.turn.id, deadline).await?;
                Ok(StepResult::Done(Driven::Parked))
            }
            Action::Finish(finish) => self.finish(finish).await,
        }
    }

    async fn ask(&mut self, mode: Mode) -> Result<StepResult, StoreError> {
        let turn = self.turn.id;
        if self.reply.take().is_some() {
            // A reply of white space is asked for again, and kept by nobody.
            self.take_back(self.stream.last_recorded(), Shown::default()).await?;
        }
        self.stream.emit(Event::Status { turn, status: Status::Streaming });
        match self.listen().await? {
            Listened::ToAll => {}
            Listened::Stopped => return Ok(StepResult::Input(Input::Cancelled)),
            Listened::Abandoned => return Ok(StepResult::Done(Driven::Abandoned)),
        }
        let context = self.context().await?;
        let mut tried = 0;
        loop {
            let request = ModelRequest {
                model: self.turn.agent.model.clone(),
                system: prompt::system(&self.turn.agent, &self.turn.person),
                context: context.clone(),
                messages: prompt::messages(&self.turn.history, mode, self.driver.limits.budget),
                tools: match mode {
                    Mode::WithTools => Arc::clone(&self.tools),
                    Mode::TextOnly | Mode::WrapUp(_) => Arc::from([]),
                },
                person: self.turn.host,
                blobs: Arc::clone(&self.driver.blobs),
            };
            let started = tokio::time::Instant::now();
            let asked = ask::ask(
                self.driver.model.as_ref(),
                request,
                &mut self.stream,
                self.driver.limits.timeouts,
                self.stop,
                self.abandon,
            )
            .instrument(tracing::info_span!("model", provider = self.driver.model.provider()))
            .await;
            metrics::histogram!("famulus_model_seconds").record(started.elapsed().as_secs_f64());
            let (error, shown) = match asked {
                AskOutcome::Replied(reply) => return Ok(StepResult::Input(self.replied(*reply))),
                AskOutcome::Stopped { shown } => {
                    self.cut = shown;
                    return Ok(StepResult::Input(Input::Cancelled));
                }
                AskOutcome::Abandoned => return Ok(StepResult::Done(Driven::Abandoned)),
                AskOutcome::Broke { error, shown } => (error, shown),
            };
            tracing::warn!(error = %error, tried, "the model failed");
            metrics::counter!("famulus_model_errors_total").increment(1);
            if shown.is_empty() {
                self.patience.lose(started.elapsed());
            } else {
                self.record_interrupted(shown).await?;
            }
            let retries = self.driver.limits.timeouts.retries;
            let Some(pause) = self.patience.pause(error.disposition(), tried, retries) else {
                return Ok(StepResult::Input(Input::ModelFailed { message: error.to_string() }));
            };
            tried += 1;
            ask::show_error(&mut self.stream, turn, &error);
            if let Err(error) = self.stream.store().await {
                tracing::warn!(error = %error, "storing events failed; they are kept");
            }
            tokio::select! {
                () = self.abandon.cancelled() => return Ok(StepResult::Done(Driven::Abandoned)),
                () = self.stop.cancelled() => return Ok(StepResult::Input(Input::Cancelled)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What the assistant knows, for the agent that carries it.
    async fn context(&mut self) -> Result<String, StoreError> {
        if self.turn.agent.name != MAIN {
            return Ok(String::new());
        }
        let entries = match self.turn.knowledge.take() {
            Some(entries) => entries,
            None => self.driver.knowledge.digest(self.turn.person.id).await?,
        };
        Ok(prompt::knowledge(&entries, self.driver.limits.budget.knowledge_tokens))
    }

    fn replied(&mut self, reply: ModelReply) -> Input {
        self.usage.add(reply.usage);
        let (turn, usage) = (self.turn.id, self.usage);
        self.stream.emit(Event::Usage { turn, usage });
        let tools: &'a dyn Tools = self.driver.tools.as_ref();
        let calls: Vec<_> = calls_of(&reply.parts)
            .map(|call| match tools.checked(call, &self.turn.agent.tools) {
                Ok(checked) => (checked.plan(), Some(checked)),
                Err(refusal) => (Plan::refused(refusal), None),
            })
            .collect();
        let empty = visible_text(&reply.parts).trim().is_empty();
        let plans = calls.iter().map(|(plan, _)| plan.clone());
        let input =
            Input::Replied { empty, calls: calls_of(&reply.parts).cloned().zip(plans).collect() };
        self.reply = Some(Replied { reply, calls });
        input
    }

    async fn record(&mut self, decisions: Vec<Decision>) -> Result<StepResult, StoreError> {
        let Some(Replied { reply, calls: planned }) = self.reply.take() else {
            return Ok(StepResult::Nothing);
        };
        let now = self.driver.clock.now();
        let expires_at = now + SignedDuration::from_secs(self.driver.limits.approval_seconds);
        let mut calls = Vec::with_capacity(decisions.len());
        self.checked.clear();
        let decided = calls_of(&reply.parts).zip(planned).zip(decisions);
        for (place, ((call, (plan, checked)), decision)) in decided.enumerate() {
            let key = CallKey { turn: self.turn.id, step: self.steps, call: place as u32, item: 0 };
            let (output, approval) = match decision {
                Decision::Run => {
                    self.checked.extend(checked.map(|checked| (key, checked)));
                    (None, None)
                }
                Decision::Answer(output) => (Some(output), None),
                Decision::Question { .. } if self.was_asked(call, &calls) => {
                    (Some(ToolOutput::Denied(ASKED_BEFORE.to_owned())), None)
                }
                Decision::Question { asked, summary } => {
                    let context = calls::context(&self.turn, key, self.stop);
                    let subject = match checked {
                        Some(checked) => checked.subject(&context).await,
                        None => None,
                    };
                    let summary = subject.unwrap_or(summary);
                    (None, Some(self.question(call, asked, &summary, expires_at)))
                }
            };
            calls.push(PlannedCall {
                key,
                call: call.clone(),
                effect: plan.effect,
                repeat: plan.repeat,
                output,
                approval,
            });
        }
        self.open = calls.iter().map(recorded).collect();
        let questions: Vec<Approval> = calls.iter().filter_map(|c| c.approval.clone()).collect();
        let record = ReplyRecord {
            turn: self.turn.id,
            step: self.steps,
            message: NewMessage { id: MessageId::new(), parts: reply.parts, blocks: reply.blocks },
            calls,
            model: reply.model,
            usage: self.usage,
            shown: self.stream.last(),
            // What viewers saw is stored before the record moves past it.
            events: self.stream.open(),
        };
        let stored = self.driver.log.record_reply(self.fence, record).await?;
        self.stream.recorded();
        self.steps += 1;
        self.stream.emit(Event::Message {
            turn: self.turn.id,
            message: stored.id,
            role: stored.role,
        });
        for question in questions {
            self.stream.emit(Event::Status {
                turn: self.turn.id,
                status: Status::WaitingForInput {
                    approval: question.id,
                    code: question.code,
                    summary: question.summary,
                },
            });
        }
        self.turn.history.push(stored);
        Ok(StepResult::Nothing)
    }

    /// Whether somebody is asked, or was asked in vain, about this very call in this turn.
    fn was_asked(&self, call: &ToolCall, beside: &[PlannedCall]) -> bool {
        let asked = |other: &PlannedCall| other.approval.is_some();
        beside.iter().filter(|other| asked(other)).any(|other| calls::is_same(&other.call, call))
            || calls::was_refused(call, &self.turn.calls, self.driver.clock.now())
    }

    fn question(
        &self,
        call: &ToolCall,
        asked: Asked,
        summary: &str,
        expires_at: jiff::Timestamp,
    ) -> Approval {
        let id = ApprovalId::new();
        // The id holds 74 random bits; the code shows 40 of their hash.
        let digest = Sha256::digest(id.0.as_bytes());
        let mut random = [0; CODE_LENGTH];
        random.copy_from_slice(&digest[..CODE_LENGTH]);
        Approval {
            id,
            conversation: self.turn.conversation,
            turn: self.turn.id,
            person: self.turn.person.id,
            person_name: self.turn.person.name.clone(),
            asked: asked.of(self.turn.person.role),
            code: code_from(random),
            tool: call.name.clone(),
            summary: famulus_core::visible::make_visible(summary),
            shown: approval::shown(&call.name, &call.arguments),
            state: ApprovalState::Pending,
            expires_at,
        }
    }

    async fn run_calls(&mut self) -> Result<StepResult, StoreError> {
        // A call may change it.
        self.turn.knowledge = None;
        let mut open = std::mem::take(&mut self.open);
        let asked = self
            .turn
            .history
            .iter()
            .rposition(|message| message.role == MessageRole::Assistant)
            .unwrap_or(0);
        // What was written before the question, and is read behind it, does not withdraw it.
        let spoken = self.turn.history.get(asked).is_some_and(|question| {
            self.turn.history[asked..].iter().any(|message| {
                message.role == MessageRole::User
                    && message.turn == Some(self.turn.id)
                    && message.created_at > question.created_at
            })
        });
        let executor = Executor {
            log: self.driver.log.as_ref(),
            tools: self.driver.tools.as_ref(),
            checked: &self.checked,
            fence: self.fence,
            turn: &self.turn,
            stop: self.stop,
            abandon: self.abandon,
            now: self.driver.clock.now(),
            spoken,
        };
        match executor.run(&mut open, &mut self.stream).await? {
            CallsOutcome::Abandoned => Ok(StepResult::Done(Driven::Abandoned)),
            CallsOutcome::Stopped => Ok(StepResult::Input(Input::Cancelled)),
            CallsOutcome::Waiting { deadline } => {
                Ok(StepResult::Input(Input::Pending { deadline }))
            }
            CallsOutcome::All(results) => {
                let news = self
                    .driver
                    .log
                    .record_results(
                        self.fence,
                        self.turn.id,
                        open.first()
                            .map_or_else(|| self.steps.saturating_sub(1), |call| call.key.step),
                        MessageId::new(),
                        results,
                    )
                    .await?;
                self.take_in(news);
                Ok(StepResult::Input(Input::Settled))
            }
        }
    }

    pub(crate) fn take_in(&mut self, news: Vec<Arc<Message>>) {
        for message in news {
            self.stream.emit(Event::Message {
                turn: self.turn.id,
                message: message.id,
                role: message.role,
            });
            self.turn.history.push(message);
        }
    }
}

/// What an action brought.
pub(crate) enum StepResult {
    Nothing,
    Input(Input),
    Done(Driven),
}

pub(crate) fn calls_of(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    parts.iter().filter_map(|part| match &part.body {
        PartBody::ToolCall(call) => Some(call),
        PartBody::Text { .. }
        | PartBody::Reasoning { .. }
        | PartBody::ToolResult(_)
        | PartBody::Image(_)
        | PartBody::Audio(_)
        | PartBody::File(_)
        | PartBody::Sentinel { .. } => None,
    })
}

fn recorded(planned: &PlannedCall) -> RecordedCall {
    RecordedCall {
        key: planned.key,
        call: planned.call.clone(),
        effect: planned.effect,
        repeat: planned.repeat,
        state: if planned.output.is_some() { CallState::Done } else { CallState::Planned },
        sent_at: None,
        output: planned.output.clone(),
        approval: planned.approval.as_ref().map(|approval| RecordedApproval {
            id: approval.id,
            state: approval.state,
            expires_at: approval.expires_at,
        }),
    }
}
