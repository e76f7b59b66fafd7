//! The one door through which calls run.

use crate::arguments;
use crate::catalogue::{Catalogue, Entry, action_of};
use crate::earlier;
use crate::output::cap;
use crate::tool::{Policy, Tool, ToolError};
use async_trait::async_trait;
use famulus_core::StoreError;
use famulus_core::agent::Grants;
use famulus_core::message::ToolCall;
use famulus_core::tool::{
    AskedAfter, CallContext, CheckedCall, Effect, Plan, Repeat, ToolOutput, ToolSpec, Tools,
    Verdict,
};
use futures::FutureExt as _;
use jiff::Timestamp;
use serde_json::Value;
use std::error::Error;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tracing::Instrument as _;

/// Pauses between tries while the database is away, doubling.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// How long a tool may look for what a call would change, before the question is asked without it.
const LOOK: Duration = Duration::from_secs(5);

impl Tools for Catalogue {
    fn catalogue(&self, grants: &Grants) -> Vec<ToolSpec> {
        self.visible(grants)
    }

    fn checked<'a>(
        &'a self,
        call: &ToolCall,
        grants: &Grants,
    ) -> Result<Arc<dyn CheckedCall + 'a>, ToolOutput> {
        match self.read(call, grants) {
            Ok(ready) => Ok(Arc::new(ready)),
            Err(refusal) => Err(cap(ToolOutput::Error(refusal))),
        }
    }
}

/// A call that may run.
struct Ready<'a> {
    catalogue: &'a Catalogue,
    entry: &'a Entry,
    policy: Policy,
    arguments: Value,
}

#[async_trait]
impl CheckedCall for Ready<'_> {
    fn plan(&self) -> Plan {
        Plan { effect: self.policy.effect, repeat: self.policy.repeat, verdict: self.verdict() }
    }

    async fn subject(&self, context: &CallContext) -> Option<String> {
        let tool = self.entry.tool.name();
        match timeout(LOOK, self.entry.tool.subject(&self.arguments, context)).await {
            Ok(Ok(subject)) => subject,
            Ok(Err(error)) => {
                tracing::warn!(tool, %error, "what a call would change cannot be shown");
                None
            }
            Err(_) => {
                tracing::warn!(tool, "what a call would change was not found in time");
                None
            }
        }
    }

    async fn run(&self, context: &CallContext) -> ToolOutput {
        if let Err(refusal) = self.catalogue.granted(self.entry, &self.arguments, &context.grants) {
            return cap(ToolOutput::Error(refusal));
        }
        let span = tracing::info_span!(
            "tool",
            tool.name = self.entry.spec.name,
            tool.action = action_of(&self.arguments),
            call.key = %context.key,
        );
        let (name, began) = (self.entry.spec.name.clone(), Instant::now());
        let output = cap(self.limited(context).instrument(span).await);
        metrics::histogram!("famulus_tool_seconds", "tool" => name, "outcome" => outcome(&output))
            .record(began.elapsed());
        output
    }

    async fn ask_after(&self, context: &CallContext, sent: Timestamp) -> AskedAfter {
        let tool = &self.entry.tool;
        let asking = tool.ask_after(self.arguments.clone(), context, sent);
        let asking = timeout(tool.timeout(), AssertUnwindSafe(asking).catch_unwind());
        match asking.await {
            Ok(Ok(AskedAfter::Ended(output))) => AskedAfter::Ended(cap(output)),
            Ok(Ok(known @ (AskedAfter::NotSent | AskedAfter::Unknown))) => known,
            Ok(Err(_panic)) => {
                tracing::error!(tool = tool.name(), "a tool panicked");
                AskedAfter::Unknown
            }
            Err(_elapsed) => AskedAfter::Unknown,
        }
    }

    async fn recorded(&self, context: &CallContext, output: &ToolOutput) {
        let tool = &self.entry.tool;
        let told = tool.recorded(self.arguments.clone(), context, output);
        if timeout(LOOK, AssertUnwindSafe(told).catch_unwind()).await.is_err() {
            tracing::warn!(
                tool = tool.name(),
                "a result that is recorded may be kept elsewhere, too"
            );
        }
    }
}

impl Catalogue {
    fn read(&self, call: &ToolCall, grants: &Grants) -> Result<Ready<'_>, String> {
        let renamed = earlier::today(call);
        let said = renamed.as_ref().unwrap_or(call);
        let Some(entry) = self.find(&said.name, grants) else {
            return Err(self.unknown(&call.name, grants));
        };
        let name = &entry.spec.name;
        let arguments = arguments::read(name, &said.arguments, &entry.validator)?;
        self.granted(entry, &arguments, grants)?;
        let Some(policy) = entry.policy(&arguments).copied() else {
            // The catalogue took no tool without a line for each action.
            return Err(format!("`{name}` has no policy for this action"));
        };
        Ok(Ready { catalogue: self, entry, policy, arguments })
    }

    /// Whether the tool and the action are granted: judged when a call is checked, and again when
    /// it runs.
    fn granted(&self, entry: &Entry, arguments: &Value, grants: &Grants) -> Result<(), String> {
        let name = &entry.spec.name;
        if !entry.is_shown(grants) {
            return Err(self.unknown(name, grants));
        }
        match action_of(arguments) {
            Some(action) if !grants.allows(name, Some(action)) => {
                Err(arguments::unknown_action(name, action, &entry.granted(grants)))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn unknown(&self, name: &str, grants: &Grants) -> String {
        let names = self.names(grants);
        let name: String = name.chars().take(80).collect();
        if names.is_empty() {
            format!("there is no tool `{name}`; this agent has none, answer in text")
        } else {
            format!("there is no tool `{name}`; the tools are: {}", names.join(", "))
        }
    }
}

impl Ready<'_> {
    fn verdict(&self) -> Verdict {
        let Some(asked) = self.policy.ask else { return Verdict::Allow };
        match self.entry.tool.summary(&self.arguments) {
            Ok(summary) => Verdict::Ask { asked, summary },
            Err(error) => Verdict::Refuse(ToolOutput::Error(error.to_string())),
        }
    }

    async fn limited(&self, context: &CallContext) -> ToolOutput {
        let Self { catalogue: _, entry, policy, arguments } = self;
        let name = &entry.spec.name;
        if context.cancel.is_cancelled() {
            return ToolOutput::Error(format!("`{name}` did not run: the turn was stopped"));
        }
        let limit = entry.tool.timeout();
        let work = timeout(limit, attempts(entry.tool.as_ref(), policy.repeat, arguments, context));
        let work = AssertUnwindSafe(work).catch_unwind();
        let result = tokio::select! {
            biased;
            result = work => result,
            () = context.cancel.cancelled() => {
                return unfinished(policy.effect, &format!("`{name}` was stopped with the turn"));
            }
        };
        match result {
            Ok(Ok(Ok(output))) => output,
            Ok(Ok(Err(error))) => failed(policy.effect, &error),
            Ok(Err(_elapsed)) => unfinished(
                policy.effect,
                &format!("`{name}` did not finish within {} s", limit.as_secs_f32()),
            ),
            Err(_panic) => {
                tracing::error!("a tool panicked");
                unfinished(
                    policy.effect,
                    &format!("`{name}` broke off by a fault of its own; do not try the same again"),
                )
            }
        }
    }
}

/// What the model reads when a call broke off on its way.
fn unfinished(effect: Effect, what: &str) -> ToolOutput {
    match effect {
        Effect::Read => ToolOutput::Error(what.to_owned()),
        Effect::Write | Effect::External => ToolOutput::Unknown(format!(
            "{what}; whether it took effect is unknown: look before you repeat it"
        )),
    }
}

/// What the model reads of a tool's own error.
fn failed(effect: Effect, error: &ToolError) -> ToolOutput {
    match error {
        ToolError::Call(_) | ToolError::Rule(_) => ToolOutput::Error(error.to_string()),
        ToolError::Store(store) => {
            let source = store.source().map(ToString::to_string);
            tracing::warn!(error = %store, source, "a tool could not use its store");
            match store {
                StoreError::Unavailable(_) => {
                    unfinished(effect, "the database did not answer; try again in a moment")
                }
                StoreError::LeaseLost => ToolOutput::Error(store.to_string()),
                StoreError::Refused(_) => {
                    ToolOutput::Error(format!("{store}; repeating it will not help"))
                }
            }
        }
    }
}

/// Runs a call; one that is safe to repeat is run again while the database is away, so that nobody
/// has to be told that its outcome is unknown. The tool's time limit ends it.
async fn attempts(
    tool: &dyn Tool,
    repeat: Repeat,
    arguments: &Value,
    context: &CallContext,
) -> Result<ToolOutput, ToolError> {
    let run = || tool.run(arguments.clone(), context);
    match repeat {
        Repeat::Safe => until_answered(tool.name(), run).await,
        Repeat::Never => run().await,
    }
}

/// Does again what may be done again, for as long as the database is away.
pub(crate) async fn until_answered<T, F: Future<Output = Result<T, ToolError>>>(
    tool: &str,
    run: impl Fn() -> F,
) -> Result<T, ToolError> {
    let mut pause = FIRST_PAUSE;
    loop {
        match run().await {
            Err(ToolError::Store(StoreError::Unavailable(source))) => {
                tracing::warn!(tool, error = %source, "the database broke off; again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            result => return result,
        }
    }
}

/// The label under which a call is counted.
fn outcome(output: &ToolOutput) -> &'static str {
    match output {
        ToolOutput::Text(_) | ToolOutput::Json(_) => "done",
        ToolOutput::Error(_) => "error",
        ToolOutput::Unknown(_) => "unknown",
        ToolOutput::Denied(_) => "denied",
    }
}

#[cfg(test)]
mod tests;
