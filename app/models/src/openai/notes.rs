//! What the installation itself says to a model within a history: marks, outcomes, files.
//!
//! Each note stands in brackets and begins with `system:`, so that neither the model nor a reader
//! takes it for the words of the person or of the model.

use famulus_core::message::{FilePart, Sentinel};
use famulus_core::tool::ToolOutput;

/// Stands between two answers, and behind a last one, where a provider wants a user message.
pub(crate) const GO_ON: &str = "[system: go on]";
/// Stands before a history that begins with an answer.
pub(crate) const EARLIER: &str = "[system: the conversation before this is left out]";
/// Stands where a call has no recorded result.
pub(crate) const NO_RESULT: &str = "[outcome unknown] no result of this call was recorded";
/// Stands behind an answer that broke off and is asked for again.
pub(crate) const INTERRUPTED: &str = "[system: the answer above was cut off; go on from exactly where it ends, without repeating any of it]";

const ERROR: &str = "[error] ";
const UNKNOWN: &str = "[outcome unknown] ";
const DENIED: &str = "[denied] ";
/// Stands for an output without any text: some servers refuse empty content.
const EMPTY: &str = "[no output]";

pub(crate) fn system(text: &str) -> String {
    format!("[system: {text}]")
}

pub(crate) fn sentinel(reason: Sentinel) -> &'static str {
    match reason {
        Sentinel::StepCap => "[system: the assistant had used up its steps here]",
        Sentinel::ToolBudget => "[system: the assistant had used up its tool calls here]",
        Sentinel::DoomLoop => "[system: the assistant was stopped for repeating the same calls]",
        Sentinel::Cancelled => "[system: the owner stopped the assistant here]",
        Sentinel::Interrupted => INTERRUPTED,
        Sentinel::Failed => "[system: the answer to the message above failed]",
    }
}

/// A tool's output as the model reads it; whatever did not go well says so first.
pub(crate) fn output(output: &ToolOutput) -> String {
    let text = output.text();
    match output {
        ToolOutput::Text(_) | ToolOutput::Json(_) if text.is_empty() => EMPTY.to_owned(),
        ToolOutput::Text(_) | ToolOutput::Json(_) => text.to_owned(),
        ToolOutput::Error(_) => format!("{ERROR}{text}"),
        ToolOutput::Unknown(_) => format!("{UNKNOWN}{text}"),
        ToolOutput::Denied(_) => format!("{DENIED}{text}"),
    }
}

/// The output that [`output`] wrote.
#[cfg(feature = "fake")]
pub(crate) fn read_output(text: &str) -> ToolOutput {
    let marked = |mark: &str| text.strip_prefix(mark).map(ToOwned::to_owned);
    if let Some(text) = marked(ERROR) {
        ToolOutput::Error(text)
    } else if let Some(text) = marked(UNKNOWN) {
        ToolOutput::Unknown(text)
    } else if let Some(text) = marked(DENIED) {
        ToolOutput::Denied(text)
    } else if text == EMPTY {
        ToolOutput::Text(String::new())
    } else {
        ToolOutput::Text(text.to_owned())
    }
}

pub(crate) fn file(file: &FilePart) -> String {
    format!(
        "[file: {} ({}, {} bytes), id {}]",
        file.name, file.blob.mime, file.blob.size, file.blob.id
    )
}

pub(crate) fn file_left_out(file: &FilePart, why: &str) -> String {
    format!(
        "[file: {} ({}, {} bytes), id {}; not shown: {why}]",
        file.name, file.blob.mime, file.blob.size, file.blob.id
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_marked() {
        let check = |output_: ToolOutput, expected: &str| assert_eq!(output(&output_), expected);
        check(ToolOutput::Text("a".into()), "a");
        check(ToolOutput::Json("{}".into()), "{}");
        check(ToolOutput::Text(String::new()), "[no output]");
        check(ToolOutput::Error("no".into()), "[error] no");
        check(ToolOutput::Unknown("?".into()), "[outcome unknown] ?");
        check(ToolOutput::Denied("no".into()), "[denied] no");
    }
}
