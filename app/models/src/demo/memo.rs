//! What the tools have answered so far.
//!
//! An act is written as if tools answered at once. It runs again from its beginning whenever
//! results have arrived; a call that was already made gives its recorded result, and the first
//! that was not ends the run and becomes the next call.

use super::ask::Done;
use famulus_core::tool::{ToolOutput, ToolSpec};
use serde_json::Value;

/// A call to be made.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    /// Whether it changes what another call of the same tool would read.
    pub(crate) writes: bool,
}

impl Wanted {
    pub(crate) fn read(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, writes: false }
    }

    pub(crate) fn write(tool: &'static str, arguments: Value) -> Self {
        Self { tool, arguments, writes: true }
    }
}

/// Why an act did not come to its end.
#[derive(Debug, PartialEq)]
pub(crate) enum Halt {
    /// These calls come first.
    Wants(Vec<Wanted>),
    /// There is no going on; this is said instead.
    Say(String),
}

pub(crate) struct Memo<'a> {
    done: &'a [Done],
    tools: &'a [ToolSpec],
}

impl<'a> Memo<'a> {
    pub(crate) fn new(done: &'a [Done], tools: &'a [ToolSpec]) -> Self {
        Self { done, tools }
    }

    /// Whether a tool may still be called.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        self.tools.iter().any(|offered| offered.name == tool)
    }

    /// The result of a call.
    pub(crate) fn call(&self, call: Wanted) -> Result<Value, Halt> {
        self.output(&call).map_or_else(|| Err(self.missing(vec![call])), value)
    }

    /// The results of calls that may run side by side.
    pub(crate) fn all(&self, calls: Vec<Wanted>) -> Result<Vec<&ToolOutput>, Halt> {
        let missing: Vec<Wanted> =
            calls.iter().filter(|call| self.output(call).is_none()).cloned().collect();
        if missing.is_empty() {
            Ok(calls.iter().filter_map(|call| self.output(call)).collect())
        } else {
            Err(self.missing(missing))
        }
    }

    fn output(&self, call: &Wanted) -> Option<&ToolOutput> {
        // A call that was made again counts with its latest result.
        let made = self.done.iter().rev();
        made.filter(|d| d.tool == call.tool && d.arguments == call.arguments)
            .map(|done| &done.output)
            .next()
    }

    fn missing(&self, calls: Vec<Wanted>) -> Halt {
        match calls.iter().find(|call| !self.offers(call.tool)) {
            Some(_) if self.tools.is_empty() => Halt::Say(self.summary()),
            Some(call) => Halt::Say(format!(
                "I would need the tool `{}` for that, and this agent may not use it.",
                call.tool
            )),
            None => Halt::Wants(calls),
        }
    }

    /// What is said when no tool may be called any more.
    fn summary(&self) -> String {
        if self.done.is_empty() {
            return "I can only do that with tools, and I may not use any here.".to_owned();
        }
        let lines = self.done.iter().map(|done| {
            let action = done.arguments.get("action").and_then(Value::as_str);
            let action = action.map(|action| format!(" {action}")).unwrap_or_default();
            let came = if done.output.is_error() { "did not work" } else { "is done" };
            format!("- {}{action} {came}", done.tool)
        });
        format!(
            "I had to stop before I was done. So far:\n{}\nSay `continue` and I go on.",
            lines.collect::<Vec<_>>().join("\n")
        )
    }
}

/// Adds the calls of a further intent. What would read beside a write that it ought to see waits.
pub(crate) fn add(wanted: &mut Vec<Wanted>, calls: Vec<Wanted>) {
    for call in calls {
        let racing =
            wanted.iter().any(|other| other.tool == call.tool && other.writes) && !call.writes;
        if !racing && !wanted.contains(&call) {
            wanted.push(call);
        }
    }
}

/// What a tool said, as JSON where it is.
fn value(output: &ToolOutput) -> Result<Value, Halt> {
    match failure(output) {
        Some(text) => Err(Halt::Say(text)),
        None => Ok(serde_json::from_str(output.text())
            .unwrap_or_else(|_| Value::String(output.text().to_owned()))),
    }
}

/// What is to be said of a call that did not go well.
pub(crate) fn failure(output: &ToolOutput) -> Option<String> {
    match output {
        ToolOutput::Text(_) | ToolOutput::Json(_) => None,
        ToolOutput::Error(text) => Some(format!("That did not work: {text}")),
        ToolOutput::Unknown(text) => Some(format!("I do not know whether that happened: {text}")),
        ToolOutput::Denied(text) => Some(format!("I left it as it is: {text}")),
    }
}
