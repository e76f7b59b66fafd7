//! What a tool is.

use async_trait::async_trait;
use famulus_core::StoreError;
use famulus_core::approval::Asked;
use famulus_core::schedule::{RuleError, ScheduleError};
use famulus_core::tool::{AskedAfter, CallContext, Effect, Repeat, ToolOutput};
use jiff::Timestamp;
use serde::{Deserialize as _, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::time::Duration;

/// How long a call may take unless its tool says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// One tool. It holds the ports that it needs, and no state of its own between calls.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// Lower case letters, digits and `_`; unique in the catalogue.
    fn name(&self) -> &str;

    /// What the model reads in every single turn: one or two short sentences.
    fn description(&self) -> &str;

    /// JSON Schema of the arguments, an object; usually [`schema_of`](crate::schema_of) the type
    /// that [`typed`] reads. A tool with actions has a required property `action`, an enum.
    fn schema(&self) -> Value;

    /// One line for each action, or a single line for a tool without actions.
    fn policy(&self) -> &[Policy];

    /// Whether it could do anything in this installation: what could not is shown to no model.
    fn is_of_use(&self) -> bool {
        true
    }

    /// How long a call may take.
    fn timeout(&self) -> Duration {
        DEFAULT_TIMEOUT
    }

    /// What is read before saying yes to a call whose policy line asks: one line, from the
    /// arguments alone. An error refuses the call before anybody is asked.
    fn summary(&self, arguments: &Value) -> Result<String, ToolError> {
        let action = arguments.get("action").and_then(Value::as_str);
        Ok(action.map_or_else(
            || format!("run {}", self.name()),
            |action| format!("{} with {}", action, self.name()),
        ))
    }

    /// What a call whose policy line asks would do, in one line and in words, as things stand now:
    /// read in the place of the summary. For arguments that only point at what they mean.
    async fn subject(&self, _: &Value, _: &CallContext) -> Result<Option<String>, ToolError> {
        Ok(None)
    }

    /// Runs a call whose arguments fit the schema. Dropped when time is up or the turn ends, at any
    /// await.
    async fn run(&self, arguments: Value, context: &CallContext) -> Result<ToolOutput, ToolError>;

    /// Asks what came of a call that was perhaps sent, at `sent` or later, by a worker that is gone.
    /// For a tool whose other side keeps results.
    async fn ask_after(&self, _: Value, _: &CallContext, _sent: Timestamp) -> AskedAfter {
        AskedAfter::Unknown
    }

    /// Told once what came of a call is recorded, so that the other side need not keep it.
    async fn recorded(&self, _: Value, _: &CallContext, _output: &ToolOutput) {}
}

/// What policy says of one action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// `None` for a tool without actions.
    pub action: Option<&'static str>,
    pub effect: Effect,
    pub repeat: Repeat,
    /// Who must say yes, if anybody.
    pub ask: Option<Asked>,
}

impl Policy {
    pub const fn new(action: Option<&'static str>, effect: Effect, repeat: Repeat) -> Self {
        Self { action, effect, repeat, ask: None }
    }

    /// An action that reads; repeating it is safe.
    pub const fn read(action: &'static str) -> Self {
        Self::new(Some(action), Effect::Read, Repeat::Safe)
    }

    /// An action that writes through a store, keyed by the call: repeating it is safe.
    pub const fn keyed_write(action: &'static str) -> Self {
        Self::new(Some(action), Effect::Write, Repeat::Safe)
    }

    /// The same, but the owner must say yes.
    #[must_use]
    pub const fn asks(self) -> Self {
        Self { ask: Some(Asked::Owner), ..self }
    }

    /// The same, but the person for whom it runs must say yes: for what touches nothing but things
    /// of their own.
    #[must_use]
    pub const fn asks_its_person(self) -> Self {
        Self { ask: Some(Asked::Person), ..self }
    }
}

/// Why a call gave no result.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// The call makes no sense as it stands; the text is for the model and says what to do.
    #[error("{0}")]
    Call(String),
    /// A schedule's rule or zone cannot be kept.
    #[error(transparent)]
    Rule(#[from] RuleError),
    /// The store did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ToolError {
    pub fn call(text: impl Into<String>) -> Self {
        Self::Call(text.into())
    }
}

impl From<ScheduleError> for ToolError {
    fn from(error: ScheduleError) -> Self {
        match error {
            ScheduleError::Rule(error) => Self::Rule(error),
            ScheduleError::Store(error) => Self::Store(error),
        }
    }
}

/// Reads arguments into a tool's own type.
///
/// # Errors
///
/// Says what does not fit; the schema says it better, so this is the second line.
pub fn typed<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolError> {
    serde_json::from_value(arguments)
        .map_err(|error| ToolError::Call(format!("the arguments do not fit the schema: {error}")))
}

/// Reads an optional text, for `#[serde(deserialize_with)]`: models write `""` for a field that they
/// leave out.
pub(crate) fn filled<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.trim().is_empty()))
}

/// A result for the model, as compact JSON.
pub fn json(value: &impl Serialize) -> Result<ToolOutput, ToolError> {
    serde_json::to_string(value)
        .map(ToolOutput::Json)
        .map_err(|error| ToolError::Call(format!("the result cannot be written as JSON: {error}")))
}
