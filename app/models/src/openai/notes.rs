//! What the installation itself says to a model within a history: marks, outcomes, files.
//!
//! Each note stands in brackets and begins with `system:`, so that neither the model nor a reader
//! takes it for the words of the person or of the model.

use famulus_core::fence::fence;
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
/// Characters of a recording's words that are sent: about an hour.
const WORDS: usize = 60_000;
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

/// What was said in a recording. It stands in a fence: a recording that somebody passed on may say
/// what its sender would not.
pub(crate) fn heard(file: &FilePart, words: &str) -> String {
    let mut text = self::file(file);
    text.push('\n');
    fence(&mut text, "the words in it, as they were understood by a transcription", words, WORDS);
    text
}

/// Whoever sent it learns that it was not heard.
pub(crate) fn not_heard(file: &FilePart, why: &str) -> String {
    file_left_out(file, &format!("{why}; nobody has heard it, so tell whoever sent it"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use famulus_core::blob::BlobRef;
    use famulus_core::ids::BlobId;

    #[test]
    fn the_words_of_a_recording_stand_between_marks() {
        let blob = BlobRef {
            id: BlobId(uuid::Uuid::nil()),
            sha256: String::new(),
            mime: "audio/ogg".into(),
            size: 3,
        };
        let file = FilePart::new(blob, "a.ogg");
        let head = "[file: a.ogg (audio/ogg, 3 bytes), id 00000000-0000-0000-0000-000000000000";
        let told = heard(&file, "good\nmorning");
        let (first, rest) = told.split_once('\n').unwrap();
        assert_eq!(first, format!("{head}]"));
        let opens = "--- the words in it, as they were understood by a transcription; ends at ";
        assert!(rest.starts_with(opens) && rest.contains("---\ngood\nmorning\n---"), "{rest}");
        let told = not_heard(&file, "it was refused");
        let expected = "; not shown: it was refused; nobody has heard it, so tell whoever sent it]";
        assert_eq!(told, format!("{head}{expected}"));
    }

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
