//! One call, from the first look for a runner to its result.
//!
//! ```text
//! found ─► files ─► POST ─┬─► lines ─► result
//!   ▲        │       │    └─► accepted: the result comes later
//!   │ nothing happened    cut: ask the same one ─┬─► it runs: follow it
//!   └────────┴───────┘                           ├─► it ended: the result
//!   └──────── it never came there ◄──────────────┘   it is gone: lost
//! ```
//!
//! What holds: once the call may have been sent, nobody but that runner is asked, until it says that the
//! call never came.

use std::sync::Arc;
use std::time::Duration;

use famulus_core::ids::PersonId;
use famulus_core::sandbox::{Progress, SandboxAnswer, SandboxCall, SandboxError};
use famulus_protocol::{CallId, CallResult, CallState, Callback, Kind, Problem, RunCall};
use reqwest::Response;
use tokio::time::{Instant, sleep};

use crate::activation::unreachable;
use crate::answer;
use crate::callback_url;
use crate::calls::Calls;
use crate::conduct::begin_call;
use crate::dispatch::DispatchState;
use crate::home::{Ended, Home, KnownPlugin, KnownRunner};
use crate::lines;
use crate::stages::{CallStage, StageTimer};
use crate::version;
use crate::wire::{CallResponse, WireError};

/// Between two attempts at the same thing.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// A call that the runner is asked for so often and does not know never came: the request that was
/// cut could still have been on its way to it the first time.
pub(crate) const UNKNOWN_TWICE: u32 = 2;

/// What came of sending.
enum SendOutcome {
    Answered(CallResponse),
    /// It may have been heard.
    Unknown,
    /// It was not: the same may be tried again, perhaps elsewhere.
    NotSent(String),
}

/// A call whose end is waited for.
pub(crate) struct PendingCall<'a> {
    pub(crate) id: &'a CallId,
    pub(crate) person: PersonId,
    pub(crate) progress: &'a Progress,
    /// Its result comes by itself, later.
    pub(crate) later: bool,
    /// How the runner had ended before when the call was sent.
    pub(crate) before: Option<Ended>,
}

/// What came of waiting.
pub(crate) enum WaitOutcome {
    Answer(SandboxAnswer),
    /// The runner never had it.
    NotReceived,
}

impl<H: Home> Calls<H> {
    pub(crate) async fn execute(
        &self,
        call: &SandboxCall,
        id: &CallId,
        dispatch: &DispatchState<H>,
    ) -> Result<SandboxAnswer, SandboxError> {
        let mut stages = StageTimer::begin();
        let give_up = Instant::now() + self.timeouts.reach;
        loop {
            let (known, runner) = self.runner(&call.plugin, &call.progress).await?;
            self.used.called(known.uid());
            let (_there, before) = (begin_call(&runner), runner.ended_before());
            stages.end(CallStage::Found);
            let lines = match self.send(call, id, &known, &runner, dispatch).await? {
                SendOutcome::Answered(CallResponse::Progress(lines)) => Some(lines),
                SendOutcome::Answered(CallResponse::Accepted) => {
                    stages.end(CallStage::Dialled);
                    self.used.comes_later(id.clone(), known.uid());
                    return Ok(SandboxAnswer::Running);
                }
                SendOutcome::Unknown => None,
                SendOutcome::NotSent(why) if Instant::now() >= give_up => {
                    return Err(unreachable(&call.plugin, why));
                }
                SendOutcome::NotSent(why) => {
                    tracing::debug!(plugin.name = known.name(), why, "a call is sent again");
                    sleep(AGAIN).await;
                    continue;
                }
            };
            stages.end(CallStage::Dialled);
            let later = call.token.is_some();
            let (person, progress) = (call.person, &call.progress);
            let pending = PendingCall { id, person, progress, later, before };
            match self.wait_for(pending, &known, &runner, lines, &mut stages).await? {
                WaitOutcome::Answer(answer) => return Ok(answer),
                WaitOutcome::NotReceived => dispatch.forget(),
            }
        }
    }

    async fn send(
        &self,
        call: &SandboxCall,
        id: &CallId,
        known: &Arc<H::Plugin>,
        runner: &Arc<H::Runner>,
        dispatch: &DispatchState<H>,
    ) -> Result<SendOutcome, SandboxError> {
        let credentials = self.credentials(known);
        let client = self.client(runner, &credentials);
        for (index, file) in (0..).zip(&call.files) {
            let (_, bytes) = self.blobs.get(call.person, file.id).await.map_err(|error| {
                SandboxError::Refused(format!("a file of the call cannot be had: {error}"))
            })?;
            let Err(error) = client.upload(id, index, bytes).await else { continue };
            // A call that was sent before takes no more files, and its runner may hang up on them.
            let state = client.state(id).await;
            if matches!(
                state,
                Ok(CallState::Queued { .. } | CallState::Running | CallState::Ended { .. })
            ) {
                return Ok(SendOutcome::Unknown);
            }
            return match (error, state) {
                (WireError::Refused(problem), Ok(_) | Err(WireError::Refused(_))) => {
                    self.refused(known, runner, problem).await
                }
                (error, _) => Ok(SendOutcome::NotSent(error.to_string())),
            };
        }
        let mut callback = None;
        if let Some(token) = call.token.clone() {
            let url = match callback_url::resolve(&self.callback_url).await {
                Ok(url) => url,
                Err(why) => return Ok(SendOutcome::NotSent(why)),
            };
            callback =
                Some(Callback { url: format!("{url}/internal/v1/calls/{id}/result"), token });
        }
        let request =
            RunCall { tool: call.tool.clone(), parameters: call.parameters.clone(), callback };
        dispatch.sent(known, runner);
        let error = match client.run(id, &request).await {
            Ok(head) => return Ok(SendOutcome::Answered(head)),
            Err(WireError::Broken(why)) => {
                tracing::warn!(
                    plugin.name = known.name(),
                    why,
                    "a connection broke off while a call was sent; its runner is asked whether it \
                     arrived"
                );
                return Ok(SendOutcome::Unknown);
            }
            Err(error) => error,
        };
        dispatch.forget();
        match error {
            WireError::Refused(problem) => self.refused(known, runner, problem).await,
            WireError::Unreached(why) | WireError::Broken(why) => Ok(SendOutcome::NotSent(why)),
            // It answered at length, so it heard.
            WireError::TooLarge => Ok(SendOutcome::Unknown),
        }
    }

    /// What a refusal of a call means. Nothing happened there.
    async fn refused(
        &self,
        known: &H::Plugin,
        runner: &H::Runner,
        problem: Problem,
    ) -> Result<SendOutcome, SandboxError> {
        match problem.kind {
            Kind::Draining => {
                runner.conduct().drains();
                Ok(SendOutcome::NotSent(problem.detail))
            }
            // What it was given, or what was seen of it here, is a moment behind.
            Kind::Stale | Kind::NotReady | Kind::Unauthorized => {
                Ok(SendOutcome::NotSent(problem.detail))
            }
            Kind::Busy | Kind::Unacknowledged => Err(unreachable(known.name(), problem.detail)),
            Kind::Acknowledged => Err(SandboxError::Lost {
                plugin: known.name().to_owned(),
                why: "its result was acknowledged before, and is deleted".to_owned(),
            }),
            Kind::NoRoute => Err(self.strangers(known, runner).await),
            Kind::Invalid
            | Kind::Manifest
            | Kind::NoTool
            | Kind::Parameters
            | Kind::TooLarge
            | Kind::NoCall
            | Kind::NoFile
            | Kind::NotEnded
            | Kind::Config
            | Kind::State
            | Kind::Internal => Err(SandboxError::Refused(problem.to_string())),
        }
    }

    /// The runner does not know the words of this app.
    async fn strangers(&self, known: &H::Plugin, runner: &H::Runner) -> SandboxError {
        let credentials = self.credentials(known);
        let offered = match self.client(runner, &credentials).health().await {
            Ok(health) => health.versions,
            Err(_) => Vec::new(),
        };
        if version::common(&offered).is_some() {
            return unreachable(known.name(), "its runner does not know the path of calls");
        }
        let spoken = version::SPOKEN;
        SandboxError::Refused(format!(
            "the runner of `{}` speaks versions {offered:?} of the protocol and the app {spoken:?}; \
             install app, operator and runner image of one release",
            known.name()
        ))
    }

    /// Waits for the end of a call that this runner may have; `lines` is its answer, if it came.
    pub(crate) async fn wait_for(
        &self,
        pending: PendingCall<'_>,
        known: &Arc<H::Plugin>,
        runner: &Arc<H::Runner>,
        mut lines: Option<Response>,
        stages: &mut StageTimer,
    ) -> Result<WaitOutcome, SandboxError> {
        let mut heard = Instant::now();
        let (mut unknown, mut before) = (0, pending.before);
        loop {
            if let Some(mut response) = lines.take() {
                let followed = tokio::select! {
                    followed = lines::follow(&mut response, pending.progress, stages) => followed,
                    // Whoever died with its network hangs up on nobody.
                    end = self.end_of(runner, before) => {
                        before = Some(end);
                        Err(lines::cut("it was started again"))
                    }
                };
                match followed {
                    Ok(result) => {
                        return Ok(self.ended(&pending, known, runner, result, stages).await);
                    }
                    Err(error) => {
                        tracing::warn!(
                            plugin.name = known.name(),
                            %error,
                            "the progress of a call broke off; its runner is asked for its state"
                        );
                    }
                }
                heard = Instant::now();
            }
            let credentials = self.credentials(known);
            let client = self.client(runner, &credentials);
            let why = match client.state(pending.id).await {
                Ok(CallState::Ended { result }) => {
                    return Ok(self.ended(&pending, known, runner, result, stages).await);
                }
                Ok(CallState::Queued { .. } | CallState::Running) if pending.later => {
                    self.used.comes_later(pending.id.clone(), known.uid());
                    return Ok(WaitOutcome::Answer(SandboxAnswer::Running));
                }
                Ok(CallState::Queued { .. } | CallState::Running) => {
                    lines = client.progress(pending.id).await.ok();
                    heard = Instant::now();
                    "its runner was cut off".to_owned()
                }
                Ok(CallState::Uploading) => return Ok(WaitOutcome::NotReceived),
                Err(WireError::TooLarge) => {
                    return Ok(WaitOutcome::Answer(SandboxAnswer::Ended(answer::too_large())));
                }
                Err(WireError::Refused(problem)) if problem.kind == Kind::NoCall => {
                    unknown += 1;
                    if unknown >= UNKNOWN_TWICE {
                        return Ok(WaitOutcome::NotReceived);
                    }
                    problem.detail
                }
                Err(error) => error.to_string(),
            };
            if lines.is_some() {
                continue;
            }
            if !self.home.has(runner) {
                return Err(lost(known.name(), "its runner is gone"));
            }
            if heard.elapsed() >= self.timeouts.lost {
                return Err(lost(known.name(), &why));
            }
            sleep(AGAIN).await;
        }
    }

    async fn ended(
        &self,
        pending: &PendingCall<'_>,
        known: &H::Plugin,
        runner: &H::Runner,
        result: CallResult,
        stages: &mut StageTimer,
    ) -> WaitOutcome {
        let result = self.explain(result, runner, pending.before).await;
        let credentials = self.credentials(known);
        let client = Some(self.client(runner, &credentials));
        let result = answer::store(result, client, &self.blobs, pending.person).await;
        stages.end(CallStage::Ended);
        WaitOutcome::Answer(SandboxAnswer::Ended(result))
    }
}

pub(crate) fn lost(plugin: &str, why: &str) -> SandboxError {
    SandboxError::Lost { plugin: plugin.to_owned(), why: why.to_owned() }
}
