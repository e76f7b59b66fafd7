//! `run_plugin_tool`: one call of one tool of a plugin, in its sandbox.
//!
//! ```text
//! arguments ─► permitted? files? ─► expect a late result ─► sandbox ─► fenced output
//!                                   (async tools only)
//! ```
//!
//! Refuses to know where sandboxes are. What holds: the call's name is its key, so that it runs at
//! most once however often it is sent; nothing is sent that the owner does not permit; what a
//! plugin says reaches the model only inside a fence.

mod parameters;
#[cfg(test)]
mod tests;

use crate::builtin::Ports;
use crate::dispatch::until_answered;
use crate::plugins::{self, PluginPorts};
use crate::tool::{Policy, Tool, ToolError, typed};
use async_trait::async_trait;
use famulus_core::Clock;
use famulus_core::crash;
use famulus_core::plugin::{self, LateCall, Outcome};
use famulus_core::sandbox::{Progress, SandboxAnswer, SandboxCall, SandboxError};
use famulus_core::tool::{AskedAfter, CallContext, Effect, Repeat, ToolOutput};
use jiff::{SignedDuration, Timestamp};
use rand::Rng as _;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// A runner that starts from nothing, the calls before this one, and one run for each of many items.
const LONGEST: Duration = Duration::from_mins(10);
/// What is left of it for the call to be ended and to say so.
const ENDING: Duration = Duration::from_secs(10);
/// How long a late result may take, a long absence of this program included.
const LATE: SignedDuration = SignedDuration::from_hours(24);
/// How long a sandbox that cannot be reached is asked again after a call that it may have run.
const ASKING: Duration = Duration::from_mins(2);
const ASK_AGAIN: Duration = Duration::from_secs(1);

pub(super) struct RunPluginTool {
    plugins: PluginPorts,
    clock: Arc<dyn Clock>,
}

impl RunPluginTool {
    pub(super) fn new(ports: &Ports) -> Self {
        Self { plugins: ports.plugins.clone(), clock: Arc::clone(&ports.clock) }
    }
}

#[derive(Deserialize)]
struct Arguments {
    plugin: String,
    tool: String,
    #[serde(default = "nothing")]
    parameters: Value,
}

fn nothing() -> Value {
    json!({})
}

const POLICY: [Policy; 1] = [Policy::new(None, Effect::External, Repeat::Never)];

#[async_trait]
impl Tool for RunPluginTool {
    fn name(&self) -> &'static str {
        "run_plugin_tool"
    }

    fn description(&self) -> &'static str {
        "Runs a plugin's tool as manage_plugins shows it. A file parameter is the id of a stored \
         file. An array of objects runs it once for each."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": {
                "plugin": {"type": "string"},
                "tool": {"type": "string"},
                "parameters": {"type": ["object", "array"]},
            },
            "required": ["plugin", "tool"],
            "additionalProperties": false,
        })
    }

    fn policy(&self) -> &[Policy] {
        &POLICY
    }

    fn timeout(&self) -> Duration {
        LONGEST
    }

    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments = typed(arguments)?;
        // Until the call leaves, all of it may be done again.
        let preparing = until_answered(self.name(), || self.prepare(&arguments, context));
        let call = preparing.await.map_err(before_sending)?;
        crash::before("plugin.call");
        let ended = self.send(call).await;
        crash::after("plugin.call");
        Ok(output(&arguments, &context.key.to_string(), ended))
    }

    async fn ask_after(
        &self,
        arguments: Value,
        context: &CallContext,
        sent: Timestamp,
    ) -> AskedAfter {
        let Ok(arguments) = typed::<Arguments>(arguments) else { return AskedAfter::Unknown };
        let (id, sandboxes) = (context.key.to_string(), &self.plugins.sandboxes);
        let asking = async {
            loop {
                let asked = sandboxes.ask(&arguments.plugin, &id, sent, context.person.id).await;
                match asked {
                    Ok(Some(answer)) => return self.happened(&arguments, context, answer).await,
                    Ok(None) => return AskedAfter::NotSent,
                    Err(
                        error @ (SandboxError::Away(_)
                        | SandboxError::Unreachable { .. }
                        | SandboxError::NotReady { .. }),
                    ) => {
                        tracing::debug!(%error, call.id = id, "a sandbox cannot be asked yet");
                        sleep(ASK_AGAIN).await;
                    }
                    Err(error @ SandboxError::Lost { .. }) => {
                        return AskedAfter::Ended(output(&arguments, &id, Err(error)));
                    }
                    Err(
                        error @ (SandboxError::Unsupported(_)
                        | SandboxError::NoPlugin { .. }
                        | SandboxError::Refused(_)
                        | SandboxError::Stopped),
                    ) => {
                        tracing::warn!(%error, call.id = id, "nobody knows what came of a call");
                        return AskedAfter::Unknown;
                    }
                }
            }
        };
        timeout(ASKING, asking).await.unwrap_or(AskedAfter::Unknown)
    }

    async fn recorded(&self, arguments: Value, context: &CallContext, recorded: &ToolOutput) {
        let Ok(arguments) = typed::<Arguments>(arguments) else { return };
        let id = context.key.to_string();
        // What is recorded of a call that ends later is not its result: that comes by itself.
        if *recorded != output(&arguments, &id, Ok(SandboxAnswer::Running)) {
            crash::before("plugin.acknowledge");
            self.plugins.sandboxes.acknowledge(&arguments.plugin, &id).await;
            crash::after("plugin.acknowledge");
        }
    }
}

impl RunPluginTool {
    /// What is recorded of a call that has happened. The result of one that ends later comes by
    /// itself, also when it is there already: it must not count twice.
    async fn happened(
        &self,
        arguments: &Arguments,
        context: &CallContext,
        answer: SandboxAnswer,
    ) -> AskedAfter {
        let id = context.key.to_string();
        let is_late = until_answered(self.name(), || async {
            Ok(self.plugins.late.is_late(context.person.id, &id).await?)
        });
        let answer = match is_late.await {
            Ok(true) => SandboxAnswer::Running,
            Ok(false) => answer,
            Err(error) => {
                tracing::warn!(%error, call.id = id, "how a result comes cannot be told");
                return AskedAfter::Unknown;
            }
        };
        AskedAfter::Ended(output(arguments, &id, Ok(answer)))
    }

    /// Everything up to the moment in which the call leaves: an error means that nothing happened.
    async fn prepare(
        &self,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<SandboxCall, ToolError> {
        let Arguments { plugin, tool, parameters } = arguments;
        let state = self.plugins.find(plugin).await?;
        let description = self.plugins.described(&state).await?;
        // A plugin without tools is one that was never built, and says why.
        if !state.tools.is_empty() {
            plugins::permitted(&state, description.as_ref(), tool)?;
        }
        if !state.ready {
            let (reason, message) = (state.reason, state.message);
            let error = SandboxError::NotReady { plugin: plugin.clone(), reason, message };
            return Err(plugins::tool_error(&error));
        }
        // Whether it ends later decides how its result comes, so nothing runs undescribed.
        let described = plugins::described(description.as_ref(), tool).ok_or_else(|| {
            ToolError::call(format!(
                "what the tools of `{plugin}` take is not known here; its owner can have it built \
                 again by changing the annotation famulus.dev/refresh of its Plugin"
            ))
        })?;
        let blobs = self.plugins.blobs.as_ref();
        let person = context.person.id;
        let (parameters, files) =
            parameters::with_files(parameters, described, blobs, person).await?;
        let id = context.key.to_string();
        let token = if described.r#async {
            Some(self.expect(&id, arguments, context).await?)
        } else {
            None
        };
        Ok(SandboxCall {
            id,
            plugin: plugin.clone(),
            tool: tool.clone(),
            parameters,
            files,
            person,
            token,
            cancel: context.cancel.child_token(),
            progress: Progress::none(),
        })
    }

    /// Makes the token of a late result, and records its hash before anybody has it.
    async fn expect(
        &self,
        id: &str,
        arguments: &Arguments,
        context: &CallContext,
    ) -> Result<String, ToolError> {
        let mut bytes = [0; 32];
        rand::rng().fill_bytes(&mut bytes);
        let token = hex::encode(bytes);
        let now = self.clock.now();
        let call = LateCall {
            id: id.to_owned(),
            plugin: arguments.plugin.clone(),
            tool: arguments.tool.clone(),
            person: context.person.id,
            agent: context.agent,
            conversation: context.conversation,
            origin: context.origin.clone(),
            token_hash: Sha256::digest(token.as_bytes()).into(),
            expires_at: now.checked_add(LATE).unwrap_or(now),
        };
        self.plugins.late.expect(&call).await?;
        Ok(token)
    }

    /// Runs the call, and ends it before time is up, so that it does not go on unseen.
    async fn send(&self, call: SandboxCall) -> Result<SandboxAnswer, SandboxError> {
        let (cancel, plugin) = (call.cancel.clone(), call.plugin.clone());
        let mut running = self.plugins.sandboxes.run(call);
        if let Ok(ended) = timeout(LONGEST.saturating_sub(ENDING * 2), &mut running).await {
            return ended;
        }
        cancel.cancel();
        timeout(ENDING, running).await.unwrap_or_else(|_| {
            let why = format!("it was not done within {} minutes", LONGEST.as_secs() / 60);
            Err(SandboxError::Lost { plugin, why })
        })
    }
}

/// A store that fails before anything was sent leaves nothing unknown.
fn before_sending(error: ToolError) -> ToolError {
    match error {
        ToolError::Store(error) => ToolError::Call(format!("nothing was run: {error}")),
        error @ (ToolError::Call(_) | ToolError::Rule(_)) => error,
    }
}

fn output(
    arguments: &Arguments,
    id: &str,
    answer: Result<SandboxAnswer, SandboxError>,
) -> ToolOutput {
    let Arguments { plugin, tool, .. } = arguments;
    match answer {
        Ok(SandboxAnswer::Running) => ToolOutput::Text(plugin::running(plugin, tool, id)),
        Ok(SandboxAnswer::Ended(result)) => {
            let output = plugin::for_model(plugin, tool, &result);
            match output.outcome {
                Outcome::Good => ToolOutput::Text(output.text),
                Outcome::Failed => ToolOutput::Error(output.text),
                Outcome::Unknown => ToolOutput::Unknown(output.text),
            }
        }
        Err(error @ SandboxError::Lost { .. }) => ToolOutput::Unknown(format!(
            "{error}; whether it took effect is unknown: look before you repeat it"
        )),
        Err(
            error @ (SandboxError::Unsupported(_)
            | SandboxError::Away(_)
            | SandboxError::NoPlugin { .. }
            | SandboxError::NotReady { .. }
            | SandboxError::Refused(_)
            | SandboxError::Unreachable { .. }
            | SandboxError::Stopped),
        ) => ToolOutput::Error(plugin::not_run(&error)),
    }
}
