//! One call, from the first look for a runner to its result.
//!
//! ```text
//! found ─► files ─► POST ─┬─► lines ─► result
//!   ▲        │       │    └─► accepted: the result comes later
//!   │ nothing happened    cut: ask the same Pod ─┬─► it runs: follow it
//!   └────────┴───────┘                           ├─► it ended: the result
//!   └──────── it never came there ◄──────────────┘   the Pod is gone: lost
//! ```
//!
//! What holds: once the call may have been sent, nobody but that Pod is asked, until the Pod says
//! that it never came.

use std::sync::Arc;
use std::time::Duration;

use famulus_core::ids::PersonId;
use famulus_core::sandbox::{Progress, SandboxAnswer, SandboxCall, SandboxError};
use famulus_protocol::{CallId, CallResult, CallState, Callback, Kind, Problem, RunCall};
use reqwest::Response;
use tokio::time::{Instant, sleep};

use crate::activation::unreachable;
use crate::answer;
use crate::cluster::Cluster;
use crate::door;
use crate::lines;
use crate::plugin::Known;
use crate::runner::{Ended, Runner};
use crate::stages::{Part, Stages};
use crate::stop::Trail;
use crate::version;
use crate::wire::{Head, WireError};

/// Between two attempts at the same thing.
pub(crate) const AGAIN: Duration = Duration::from_millis(250);

/// A call that the runner is asked for so often and does not know never came: the request that was
/// cut could still have been on its way to it the first time.
pub(crate) const UNKNOWN_TWICE: u32 = 2;

/// What came of sending.
enum Sent {
    Heard(Head),
    /// It may have been heard.
    Perhaps,
    /// It was not: the same may be tried again, perhaps elsewhere.
    Not(String),
}

/// A call that is waited for.
pub(crate) struct Awaited<'a> {
    pub(crate) id: &'a CallId,
    pub(crate) person: PersonId,
    pub(crate) progress: &'a Progress,
    /// Its result comes by itself, later.
    pub(crate) later: bool,
    /// How the runner's container had ended when the call was sent.
    pub(crate) before: Option<Ended>,
}

/// What came of waiting.
pub(crate) enum Waited {
    Answer(SandboxAnswer),
    /// The runner never had it.
    Never,
}

impl Cluster {
    pub(crate) async fn conduct(
        &self,
        call: &SandboxCall,
        id: &CallId,
        trail: &Trail,
    ) -> Result<SandboxAnswer, SandboxError> {
        let mut stages = Stages::begin();
        let give_up = Instant::now() + self.patience.reach;
        loop {
            let (known, runner) = self.runner(&call.plugin, &call.progress).await?;
            self.used.called(&known.uid);
            let (_there, before) = (runner.occupy(), runner.facts().ended_before);
            stages.end(Part::Found);
            let lines = match self.send(call, id, (&known, &runner), trail).await? {
                Sent::Heard(Head::Lines(lines)) => Some(lines),
                Sent::Heard(Head::Accepted) => {
                    stages.end(Part::Dialled);
                    self.used.comes_later(id.clone(), &known.uid);
                    return Ok(SandboxAnswer::Running);
                }
                Sent::Perhaps => None,
                Sent::Not(why) if Instant::now() >= give_up => {
                    return Err(unreachable(&call.plugin, why));
                }
                Sent::Not(why) => {
                    tracing::debug!(plugin.name = known.name, why, "a call is sent again");
                    sleep(AGAIN).await;
                    continue;
                }
            };
            stages.end(Part::Dialled);
            let later = call.token.is_some();
            let (person, progress) = (call.person, &call.progress);
            let awaited = Awaited { id, person, progress, later, before };
            match self.wait_for(awaited, &known, &runner, lines, &mut stages).await? {
                Waited::Answer(answer) => return Ok(answer),
                Waited::Never => trail.not_sent(),
            }
        }
    }

    async fn send(
        &self,
        call: &SandboxCall,
        id: &CallId,
        (known, runner): (&Arc<Known>, &Arc<Runner>),
        trail: &Trail,
    ) -> Result<Sent, SandboxError> {
        let voice = self.voice(known);
        let caller = self.caller(runner, &voice);
        for (index, file) in (0..).zip(&call.files) {
            let (_, bytes) = self.blobs.get(call.person, file.id).await.map_err(|error| {
                SandboxError::Refused(format!("a file of the call cannot be had: {error}"))
            })?;
            let Err(error) = caller.upload(id, index, bytes).await else { continue };
            // A call that was sent before takes no more files, and its runner may hang up on them.
            let state = caller.state(id).await;
            if matches!(
                state,
                Ok(CallState::Queued { .. } | CallState::Running | CallState::Ended { .. })
            ) {
                return Ok(Sent::Perhaps);
            }
            return match (error, state) {
                (WireError::Refused(problem), Ok(_) | Err(WireError::Refused(_))) => {
                    self.refused(known, runner, problem).await
                }
                (error, _) => Ok(Sent::Not(error.to_string())),
            };
        }
        let mut callback = None;
        if let Some(token) = call.token.clone() {
            let door = match door::with_address(&self.callback_url).await {
                Ok(door) => door,
                Err(why) => return Ok(Sent::Not(why)),
            };
            callback =
                Some(Callback { url: format!("{door}/internal/v1/calls/{id}/result"), token });
        }
        let request =
            RunCall { tool: call.tool.clone(), parameters: call.parameters.clone(), callback };
        trail.sent(known, runner);
        let error = match caller.run(id, &request).await {
            Ok(head) => return Ok(Sent::Heard(head)),
            Err(WireError::Broken(why)) => {
                tracing::warn!(plugin.name = known.name, why, "whether a call arrived is asked");
                return Ok(Sent::Perhaps);
            }
            Err(error) => error,
        };
        trail.not_sent();
        match error {
            WireError::Refused(problem) => self.refused(known, runner, problem).await,
            WireError::Unreached(why) | WireError::Broken(why) => Ok(Sent::Not(why)),
        }
    }

    /// What a refusal of a call means. Nothing happened there.
    async fn refused(
        &self,
        known: &Known,
        runner: &Runner,
        problem: Problem,
    ) -> Result<Sent, SandboxError> {
        match problem.kind {
            Kind::Draining => {
                runner.drains();
                Ok(Sent::Not(problem.detail))
            }
            // What it was given, or what was seen of it here, is a moment behind.
            Kind::Stale | Kind::NotReady | Kind::Unauthorized => Ok(Sent::Not(problem.detail)),
            Kind::Busy | Kind::Unacknowledged => Err(unreachable(&known.name, problem.detail)),
            Kind::Acknowledged => Err(SandboxError::Lost {
                plugin: known.name.clone(),
                why: "its result was fetched before, and let go".to_owned(),
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
    async fn strangers(&self, known: &Known, runner: &Runner) -> SandboxError {
        let voice = self.voice(known);
        let offered = match self.caller(runner, &voice).health().await {
            Ok(health) => health.versions,
            Err(_) => Vec::new(),
        };
        if version::common(&offered).is_some() {
            return unreachable(&known.name, "its runner does not know the path of calls");
        }
        let spoken = version::SPOKEN;
        SandboxError::Refused(format!(
            "the runner of `{}` speaks versions {offered:?} of the protocol and the app {spoken:?}; \
             install app, operator and runner image of one release",
            known.name
        ))
    }

    /// Waits for the end of a call that this runner may have; `lines` is its answer, if it came.
    pub(crate) async fn wait_for(
        &self,
        awaited: Awaited<'_>,
        known: &Arc<Known>,
        runner: &Arc<Runner>,
        mut lines: Option<Response>,
        stages: &mut Stages,
    ) -> Result<Waited, SandboxError> {
        let mut heard = Instant::now();
        let (mut unknown, mut before) = (0, awaited.before);
        loop {
            if let Some(mut response) = lines.take() {
                let followed = tokio::select! {
                    followed = lines::follow(&mut response, awaited.progress, stages) => followed,
                    // Whoever died with its network hangs up on nobody.
                    end = self.end_of(runner, before) => {
                        before = Some(end);
                        Err(lines::cut("its container was started again"))
                    }
                };
                match followed {
                    Ok(result) => {
                        return Ok(self.ended(&awaited, known, runner, result, stages).await);
                    }
                    Err(error) => {
                        tracing::warn!(plugin.name = known.name, %error, "a call is asked for");
                    }
                }
                heard = Instant::now();
            }
            let voice = self.voice(known);
            let caller = self.caller(runner, &voice);
            let why = match caller.state(awaited.id).await {
                Ok(CallState::Ended { result }) => {
                    return Ok(self.ended(&awaited, known, runner, result, stages).await);
                }
                Ok(CallState::Queued { .. } | CallState::Running) if awaited.later => {
                    self.used.comes_later(awaited.id.clone(), &known.uid);
                    return Ok(Waited::Answer(SandboxAnswer::Running));
                }
                Ok(CallState::Queued { .. } | CallState::Running) => {
                    lines = caller.progress(awaited.id).await.ok();
                    heard = Instant::now();
                    "its runner was cut off".to_owned()
                }
                Ok(CallState::Uploading) => return Ok(Waited::Never),
                Err(WireError::Refused(problem)) if problem.kind == Kind::NoCall => {
                    unknown += 1;
                    if unknown >= UNKNOWN_TWICE {
                        return Ok(Waited::Never);
                    }
                    problem.detail
                }
                Err(error) => error.to_string(),
            };
            if lines.is_some() {
                continue;
            }
            if !self.table.has(runner) {
                return Err(lost(known, "its Pod is gone"));
            }
            if heard.elapsed() >= self.patience.lost {
                return Err(lost(known, &why));
            }
            sleep(AGAIN).await;
        }
    }

    async fn ended(
        &self,
        awaited: &Awaited<'_>,
        known: &Known,
        runner: &Runner,
        result: CallResult,
        stages: &mut Stages,
    ) -> Waited {
        let result = self.explain(result, runner, awaited.before).await;
        let voice = self.voice(known);
        let caller = Some(self.caller(runner, &voice));
        let result = answer::store(result, caller, &self.blobs, awaited.person).await;
        stages.end(Part::Ended);
        Waited::Answer(SandboxAnswer::Ended(result))
    }
}

pub(crate) fn lost(known: &Known, why: &str) -> SandboxError {
    SandboxError::Lost { plugin: known.name.clone(), why: why.to_owned() }
}
