//! Carries out what [`crate::step`] decides, through core's ports.

use crate::{
    ask::{self, Asked, Patience, Shown},
    calls::{Ran, Runner},
    prompt::{self, Budget},
    step::{Decision, Effect, Finish, Input, Mode, State, step},
    stream::Stream,
    title,
};
use famulus_core::{
    Clock,
    agent::MAIN,
    approval::{self, Approval, ApprovalState, CODE_LENGTH, code_from},
    blob::Blobs,
    event::{Event, EventLog, Status, Viewers},
    ids::{ApprovalId, MessageId, TurnId},
    knowledge::KnowledgeStore,
    message::{MessageRole, Part, Sentinel, ToolCall, visible_text},
    model::{Model, ModelReply, ModelRequest, Usage},
    outbound::{Channel, ReplyRule},
    tool::{CallKey, Plan, StoreError, ToolSpec, Tools},
    turn::{
        CallState, Ended, Ending, Fence, LoadedTurn, NewMessage, PlannedCall, RecordedApproval,
        RecordedCall, ReplyRecord, TurnLog, TurnState,
    },
};
use jiff::SignedDuration;
use sha2::{Digest, Sha256};
use std::{collections::BTreeMap, sync::Arc};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Bounds of every turn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub patience: Patience,
    pub budget: Budget,
    /// Seconds that a question to the owner stays open.
    pub approval_seconds: i64,
}

/// The turn loop with everything that it reaches.
#[derive(Clone)]
pub struct Driver {
    pub log: Arc<dyn TurnLog>,
    pub events: Arc<dyn EventLog>,
    pub viewers: Arc<dyn Viewers>,
    pub model: Arc<dyn Model>,
    pub tools: Arc<dyn Tools>,
    pub knowledge: Arc<dyn KnowledgeStore>,
    pub blobs: Arc<dyn Blobs>,
    pub clock: Arc<dyn Clock>,
    pub channels: Channels,
    pub limits: Limits,
}

/// The ways out, by name.
pub type Channels = Arc<BTreeMap<String, Arc<dyn Channel>>>;

/// How far a turn was driven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    Ended(TurnState),
    /// It waits for somebody, and its worker is free.
    Parked,
    /// This process gave it up; another goes on from the record.
    Abandoned,
}

/// A turn could not be driven further by this worker.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("the turn's record could not be kept")]
    Record(#[from] StoreError),
}

/// A turn under way.
struct Run<'a> {
    driver: &'a Driver,
    fence: &'a Fence,
    turn: LoadedTurn,
    stream: Stream,
    stop: &'a CancellationToken,
    abandon: &'a CancellationToken,
    usage: Usage,
    steps: u32,
    tools: Arc<[ToolSpec]>,
    /// Calls of the latest recorded step.
    open: Vec<RecordedCall>,
    /// The reply that the machine is deciding about.
    reply: Option<ModelReply>,
    /// What viewers saw of a reply that was stopped.
    cut: Shown,
}

impl Driver {
    /// Drives a turn until it ends, waits, or must be given up.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when somebody else has taken over; any other error leaves the turn
    /// as its record says, for the next try.
    pub async fn drive(
        &self,
        fence: &Fence,
        turn: TurnId,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<Driven, DriveError> {
        let span = tracing::info_span!("turn", turn.id = %turn, conversation.id = %fence.lane,
            lease.token = fence.token);
        self.drive_in_span(fence, turn, stop, abandon).instrument(span).await
    }

    async fn drive_in_span(
        &self,
        fence: &Fence,
        turn: TurnId,
        stop: &CancellationToken,
        abandon: &CancellationToken,
    ) -> Result<Driven, DriveError> {
        let loaded = self.log.take_up(fence, turn).await?;
        if loaded.state.is_final() {
            // Its end was recorded, but not its lease: nothing is left to do.
            return Ok(Driven::Ended(loaded.state));
        }
        let tools: Arc<[ToolSpec]> = if loaded.agent.is_text_only() {
            Arc::from([])
        } else {
            self.tools.catalogue(&loaded.agent.tools).into()
        };
        let latest = loaded.calls.last().map(|call| call.key.step);
        let answered =
            loaded.history.last().is_some_and(|message| {
                message.role == MessageRole::Tool && message.turn == Some(turn)
            }) || has_results(&loaded, latest);
        let open: Vec<RecordedCall> = if answered {
            Vec::new()
        } else {
            loaded.calls.iter().filter(|call| Some(call.key.step) == latest).cloned().collect()
        };
        let state = State::from_record(&loaded.agent, loaded.steps, &loaded.calls);
        let stream = Stream::new(
            Arc::clone(&self.events),
            Arc::clone(&self.viewers),
            Arc::clone(&self.clock),
            *fence,
            loaded.conversation,
            turn,
        );
        let mut run = Run {
            driver: self,
            fence,
            usage: loaded.usage,
            steps: loaded.steps,
            turn: loaded,
            stream,
            stop,
            abandon,
            tools,
            open,
            reply: None,
            cut: Shown::default(),
        };
        run.resume().await?;
        let begin = Input::Begin {
            unsettled: !run.open.is_empty(),
            cancelled: run.turn.cancel_requested || stop.is_cancelled(),
        };
        let driven = run.until_done(state, begin).await?;
        if driven == Driven::Ended(TurnState::Complete) && run.turn.untitled {
            let title = title::ask(self.model.as_ref(), Arc::clone(&self.blobs), &run.turn).await;
            if let Some(title) = title
                && let Err(error) = self.log.set_title(turn, &title).await
            {
                tracing::warn!(error = %error, "a title was not stored; the next turn asks again");
            }
        }
        Ok(driven)
    }
}

/// Whether the results of the latest step are in the history already.
fn has_results(turn: &LoadedTurn, latest: Option<u32>) -> bool {
    let Some(latest) = latest else { return true };
    let ids: Vec<&str> = turn
        .calls
        .iter()
        .filter(|call| call.key.step == latest)
        .map(|call| call.call.id.as_str())
        .collect();
    let asked = turn.history.iter().rposition(|message| {
        message.turn == Some(turn.id) && message.calls().any(|call| ids.contains(&call.id.as_str()))
    });
    asked.is_none_or(|place| {
        turn.history[place..]
            .iter()
            .any(|message| message.role == MessageRole::Tool && message.turn == Some(turn.id))
    })
}

impl Run<'_> {
    /// Tells viewers how much of what they saw is kept, and records it as interrupted. The first
    /// event of every lease, also of the first: a crash of Postgres can make a begun turn new again.
    async fn resume(&mut self) -> Result<(), StoreError> {
        let turn = self.turn.id;
        let partial = self.turn.partial.take();
        let last = partial.as_ref().map_or(self.turn.shown, |partial| partial.last);
        self.stream.emit(Event::Resumed { turn, last });
        if let Some(partial) = partial {
            let shown = Shown { text: partial.text, reasoning: partial.reasoning };
            if !shown.is_empty() {
                self.record_interrupted(shown).await?;
            }
        }
        Ok(())
    }

    async fn record_interrupted(&mut self, shown: Shown) -> Result<(), StoreError> {
        let message = NewMessage {
            id: MessageId::new(),
            parts: shown.parts(Sentinel::Interrupted),
            blocks: None,
        };
        let (shown, events) = (self.stream.last(), self.stream.open());
        let log = &self.driver.log;
        let stored =
            log.record_interrupted(self.fence, self.turn.id, message, shown, events).await?;
        self.stream.recorded();
        self.turn.history.push(stored);
        Ok(())
    }

    async fn until_done(&mut self, mut state: State, first: Input) -> Result<Driven, StoreError> {
        let mut input = first;
        loop {
            let (next, effects) = step(state, input);
            state = next;
            let mut happened = None;
            for effect in effects {
                match self.execute(effect).await? {
                    Happened::Nothing => {}
                    Happened::Input(next) => happened = Some(next),
                    Happened::Done(driven) => return Ok(driven),
                }
            }
            match happened {
                Some(next) => input = next,
                // Every list of effects ends with one that brings news or the end.
                None => return Ok(Driven::Abandoned),
            }
        }
    }

    async fn execute(&mut self, effect: Effect) -> Result<Happened, StoreError> {
        match effect {
            Effect::Ask(mode) => self.ask(mode).await,
            Effect::Record(decisions) => self.record(decisions).await,
            Effect::Run => self.run_calls().await,
            Effect::Park { deadline } => {
                self.stream.store().await?;
                self.driver.log.park(self.fence, self.turn.id, deadline).await?;
                Ok(Happened::Done(Driven::Parked))
            }
            Effect::Finish(finish) => self.finish(finish).await,
        }
    }

    async fn ask(&mut self, mode: Mode) -> Result<Happened, StoreError> {
        let turn = self.turn.id;
        self.stream.emit(Event::Status { turn, status: Status::Streaming });
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
                self.driver.limits.patience,
                self.stop,
                self.abandon,
            )
            .instrument(tracing::info_span!("model", provider = self.driver.model.provider()))
            .await;
            metrics::histogram!("famulus_model_seconds").record(started.elapsed().as_secs_f64());
            let (error, shown) = match asked {
                Asked::Replied(reply) => return Ok(Happened::Input(self.replied(*reply))),
                Asked::Stopped { shown } => {
                    self.cut = shown;
                    return Ok(Happened::Input(Input::Cancelled));
                }
                Asked::Abandoned => return Ok(Happened::Done(Driven::Abandoned)),
                Asked::Broke { error, shown } => (error, shown),
            };
            tracing::warn!(error = %error, tried, "the model failed");
            metrics::counter!("famulus_model_errors_total").increment(1);
            if !shown.is_empty() {
                self.record_interrupted(shown).await?;
            }
            let Some(pause) = ask::pause(&error, tried, self.driver.limits.patience.retries) else {
                return Ok(Happened::Input(Input::ModelFailed { message: error.to_string() }));
            };
            tried += 1;
            ask::show_error(&mut self.stream, turn, &error);
            if let Err(error) = self.stream.store().await {
                tracing::warn!(error = %error, "storing events failed; they are kept");
            }
            tokio::select! {
                () = self.abandon.cancelled() => return Ok(Happened::Done(Driven::Abandoned)),
                () = self.stop.cancelled() => return Ok(Happened::Input(Input::Cancelled)),
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    /// What the assistant knows, for the agent that carries it.
    async fn context(&self) -> Result<String, StoreError> {
        if self.turn.agent.name != MAIN {
            return Ok(String::new());
        }
        let entries = self.driver.knowledge.digest(self.turn.person.id).await?;
        Ok(prompt::knowledge(&entries, self.driver.limits.budget.knowledge_tokens))
    }

    fn replied(&mut self, reply: ModelReply) -> Input {
        self.usage.add(reply.usage);
        let (turn, usage) = (self.turn.id, self.usage);
        self.stream.emit(Event::Usage { turn, usage });
        let calls: Vec<(ToolCall, Plan)> = calls_of(&reply.parts)
            .map(|call| (call.clone(), self.driver.tools.plan(call, &self.turn.agent.tools)))
            .collect();
        let empty = visible_text(&reply.parts).trim().is_empty();
        self.reply = Some(reply);
        Input::Replied { empty, calls }
    }

    async fn record(&mut self, decisions: Vec<Decision>) -> Result<Happened, StoreError> {
        let Some(reply) = self.reply.take() else { return Ok(Happened::Nothing) };
        let now = self.driver.clock.now();
        let expires_at = now + SignedDuration::from_secs(self.driver.limits.approval_seconds);
        let mut calls = Vec::with_capacity(decisions.len());
        for (place, (call, decision)) in calls_of(&reply.parts).zip(decisions).enumerate() {
            let plan = self.driver.tools.plan(call, &self.turn.agent.tools);
            let key = CallKey { turn: self.turn.id, step: self.steps, call: place as u32, item: 0 };
            let (output, approval) = match decision {
                Decision::Run => (None, None),
                Decision::Answer(output) => (Some(output), None),
                Decision::AskOwner { summary } => {
                    (None, Some(self.question(call, summary, expires_at)))
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
        Ok(Happened::Nothing)
    }

    fn question(&self, call: &ToolCall, summary: String, expires_at: jiff::Timestamp) -> Approval {
        let id = ApprovalId::new();
        // The id holds 74 random bits; the code shows 40 of their hash.
        let digest = Sha256::digest(id.0.as_bytes());
        let mut random = [0; CODE_LENGTH];
        random.copy_from_slice(&digest[..CODE_LENGTH]);
        Approval {
            id,
            conversation: self.turn.conversation,
            turn: self.turn.id,
            code: code_from(random),
            tool: call.name.clone(),
            summary: famulus_core::visible::make_visible(&summary),
            shown: approval::shown(&call.name, &call.arguments),
            state: ApprovalState::Pending,
            expires_at,
        }
    }

    async fn run_calls(&mut self) -> Result<Happened, StoreError> {
        let mut open = std::mem::take(&mut self.open);
        let asked = self
            .turn
            .history
            .iter()
            .rposition(|message| message.role == MessageRole::Assistant)
            .unwrap_or(0);
        let spoken = self.turn.history[asked..]
            .iter()
            .any(|m| m.role == MessageRole::User && m.turn == Some(self.turn.id));
        let runner = Runner {
            log: self.driver.log.as_ref(),
            tools: self.driver.tools.as_ref(),
            fence: self.fence,
            turn: &self.turn,
            stop: self.stop,
            abandon: self.abandon,
            now: self.driver.clock.now(),
            spoken,
        };
        match runner.run(&mut open, &mut self.stream).await? {
            Ran::Abandoned => Ok(Happened::Done(Driven::Abandoned)),
            Ran::Stopped => Ok(Happened::Input(Input::Cancelled)),
            Ran::Waiting { deadline } => Ok(Happened::Input(Input::Pending { deadline })),
            Ran::All(results) => {
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
                Ok(Happened::Input(Input::Settled))
            }
        }
    }

    fn take_in(&mut self, news: Vec<Arc<famulus_core::message::Message>>) {
        for message in news {
            self.stream.emit(Event::Message {
                turn: self.turn.id,
                message: message.id,
                role: message.role,
            });
            self.turn.history.push(message);
        }
    }

    async fn finish(&mut self, finish: Finish) -> Result<Happened, StoreError> {
        let reply = self.reply.take();
        let mut steps = self.steps;
        let (mut parts, blocks, model) = match reply {
            Some(reply) => {
                steps += 1;
                // Calls of a reply that ends the turn are not run, and so not kept: neither as parts
                // nor in the provider's own blocks, which would replay them.
                let blocks = reply.blocks.filter(|_| calls_of(&reply.parts).next().is_none());
                (without_calls(reply.parts), blocks, Some(reply.model))
            }
            None => (std::mem::take(&mut self.cut).parts(Sentinel::Interrupted), None, None),
        };
        if model.is_none() {
            parts.pop();
        }
        if let Some(reason) = finish.sentinel {
            parts.push(Part::sentinel(reason));
        }
        // A reply that was cut short and asked for again is one reply to the person who reads it.
        let text = interrupted_before(&self.turn) + &visible_text(&parts);
        let said = !text.trim().is_empty();
        let reply = match finish.state {
            TurnState::Complete if said => Some(text.clone()),
            TurnState::Failed => {
                finish.error.as_ref().map(|error| format!("Something went wrong: {error}."))
            }
            TurnState::Complete
            | TurnState::Cancelled
            | TurnState::Queued
            | TurnState::Running
            | TurnState::Waiting => None,
        }
        .filter(|_| self.is_delivered());
        let message =
            (!parts.is_empty()).then(|| NewMessage { id: MessageId::new(), parts, blocks });
        let complete = self.stream.next(Event::Complete {
            turn: self.turn.id,
            state: finish.state,
            message: message.as_ref().map(|m| m.id),
            text,
        });
        let ending = Ending {
            turn: self.turn.id,
            state: finish.state,
            message,
            model,
            usage: self.usage,
            steps,
            error: finish.error,
            reply,
            shown: self.stream.last(),
            events: self.stream.open(),
            complete: Arc::clone(&complete),
        };
        match self.driver.log.finish(self.fence, ending).await? {
            Ended::Done => {
                self.stream.recorded();
                self.stream.show_recorded(&complete);
                metrics::counter!("famulus_turns_total", "state" => finish.state.as_str())
                    .increment(1);
                Ok(Happened::Done(Driven::Ended(finish.state)))
            }
            Ended::Steered(news) => {
                self.steps = steps;
                self.stream.recorded();
                self.take_in(news);
                Ok(Happened::Input(Input::Steered))
            }
        }
    }
}

impl Run<'_> {
    /// Whether the channel that the turn came from wants its reply delivered.
    fn is_delivered(&self) -> bool {
        let Some(origin) = &self.turn.origin else { return false };
        let rule = self.driver.channels.get(&origin.channel).map(|c| c.capabilities().reply);
        match rule {
            Some(ReplyRule::Text | ReplyRule::SendTool) => true,
            Some(ReplyRule::Kept) | None => false,
        }
    }
}

enum Happened {
    Nothing,
    Input(Input),
    Done(Driven),
}

/// The text of the interrupted messages that stand right before the reply.
fn interrupted_before(turn: &LoadedTurn) -> String {
    let is_cut = |message: &famulus_core::message::Message| {
        use famulus_core::message::PartBody;
        message.turn == Some(turn.id)
            && message.parts.last().is_some_and(|part| {
                matches!(part.body, PartBody::Sentinel { reason: Sentinel::Interrupted })
            })
    };
    let tail = turn.history.iter().rev().take_while(|message| is_cut(message)).count();
    turn.history[turn.history.len() - tail..].iter().map(|message| message.text()).collect()
}

fn calls_of(parts: &[Part]) -> impl Iterator<Item = &ToolCall> {
    use famulus_core::message::PartBody;
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

fn without_calls(parts: Vec<Part>) -> Vec<Part> {
    parts
        .into_iter()
        .filter(|part| !matches!(part.body, famulus_core::message::PartBody::ToolCall(_)))
        .collect()
}

fn recorded(planned: &PlannedCall) -> RecordedCall {
    RecordedCall {
        key: planned.key,
        call: planned.call.clone(),
        effect: planned.effect,
        repeat: planned.repeat,
        state: if planned.output.is_some() { CallState::Done } else { CallState::Planned },
        output: planned.output.clone(),
        approval: planned.approval.as_ref().map(|approval| RecordedApproval {
            id: approval.id,
            state: approval.state,
            expires_at: approval.expires_at,
        }),
    }
}
