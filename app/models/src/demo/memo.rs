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
}

impl Wanted {
    /// What one call of a tool changes, another would have to see; unless both only add something.
    pub(crate) fn waits_for(&self, other: &Self) -> bool {
        let independent = self.adds() && other.adds() && self != other;
        self.tool == other.tool && !independent
    }

    fn adds(&self) -> bool {
        matches!(self.arguments["action"].as_str(), Some("upsert" | "create"))
    }
}

/// Why an act did not come to its end.
#[derive(Debug, PartialEq)]
pub(crate) enum Halt {
    /// This call comes first.
    Wants(Wanted),
    /// There is no going on; this is said instead.
    Say(String),
}

pub(crate) struct Memo<'a> {
    pub(crate) done: &'a [Done],
    pub(crate) tools: &'a [ToolSpec],
}

impl Memo<'_> {
    /// The result of a call, as JSON where it is.
    pub(crate) fn call(&self, tool: &'static str, arguments: Value) -> Result<Value, Halt> {
        // A call that was made again counts with its latest result.
        let made =
            self.done.iter().rev().find(|done| done.tool == tool && done.arguments == arguments);
        let output = match made {
            Some(done) => &done.output,
            None => return Err(self.missing(Wanted { tool, arguments })),
        };
        match output {
            ToolOutput::Text(text) | ToolOutput::Json(text) => {
                Ok(serde_json::from_str(text).unwrap_or_else(|_| text.as_str().into()))
            }
            ToolOutput::Error(text) => Err(Halt::Say(format!("That did not work: {text}"))),
            ToolOutput::Unknown(text) => {
                Err(Halt::Say(format!("I do not know whether that happened: {text}")))
            }
            ToolOutput::Denied(text) => Err(Halt::Say(format!("I left it as it is: {text}"))),
        }
    }

    fn missing(&self, call: Wanted) -> Halt {
        if self.tools.iter().any(|offered| offered.name == call.tool) {
            return Halt::Wants(call);
        }
        Halt::Say(if !self.tools.is_empty() {
            format!(
                "I would need the tool `{}` for that, and this agent may not use it.",
                call.tool
            )
        } else if self.done.is_empty() {
            "I can only do that with tools, and I may not use any here.".to_owned()
        } else {
            let made: Vec<&str> = self.done.iter().map(|done| done.tool.as_str()).collect();
            format!("I had to stop before I was done. I have called: {}.", made.join(", "))
        })
    }
}
