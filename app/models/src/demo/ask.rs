//! What the conversation asks of the demo model now: the words of the open turn, and the calls that
//! were already made for them.

use famulus_core::message::{
    Heard, Message, MessageRole, Part, PartBody, Provenance, Sentinel, ToolCall, visible_text,
};
use famulus_core::tool::ToolOutput;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The open question.
#[derive(Debug, Default)]
pub(crate) struct Ask {
    /// What was said, without headers, in order.
    pub(crate) texts: Vec<String>,
    pub(crate) speaker: Speaker,
    /// The file that was attached last, also to an earlier message.
    pub(crate) file: Option<File>,
    /// The file that came last, without a word.
    pub(crate) got: Option<String>,
    /// Why a recording was not heard.
    pub(crate) deaf: Option<String>,
    pub(crate) done: Vec<Done>,
    /// What was already said of the answer before it was cut off.
    pub(crate) said: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Speaker {
    #[default]
    Person,
    Schedule,
    /// A tool of a plugin, which ended later.
    Plugin,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// A call that was made, and what came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) output: ToolOutput,
}

impl Ask {
    pub(crate) fn read(messages: &[Arc<Message>]) -> Self {
        let said = messages.iter().rev().filter(|message| is_said(message));
        let file = said.map(|message| file_of(&message.text())).find(Option::is_some).flatten();
        let mut ask = Self { file, ..Self::default() };
        let Some(last) = messages.iter().rfind(|message| is_said(message)) else { return ask };
        // A message that steers a running turn belongs to the question that it steers.
        let opens = |message: &Arc<Message>| {
            is_said(message)
                && (message.id == last.id || (message.turn.is_some() && message.turn == last.turn))
        };
        let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
        for message in messages.iter().skip_while(|message| !opens(message)) {
            match message.role {
                MessageRole::User if is_said(message) => ask.hear(message),
                MessageRole::User => {}
                MessageRole::Assistant => {
                    calls.extend(message.calls().map(|call| (call.id.as_str(), call)));
                    ask.note_interruption(message);
                }
                MessageRole::Tool => ask.note_results(message, &calls),
            }
        }
        ask
    }

    /// The part of the answer that has not been said yet.
    pub(crate) fn rest_of(&self, answer: &str) -> String {
        answer.strip_prefix(self.said.as_str()).unwrap_or(answer).to_owned()
    }

    fn hear(&mut self, message: &Message) {
        let rendered = message.text();
        let (source, text) = taken_apart(&rendered);
        self.speaker = match source {
            "schedule" => Speaker::Schedule,
            "callback" => Speaker::Plugin,
            _ => Speaker::Person,
        };
        if !text.trim().is_empty() {
            self.texts.push(text.to_owned());
        } else if message.recordings().next().is_none() {
            match file_of(&rendered) {
                Some(File { name, .. }) => self.got = Some(name),
                None => self.texts.push(text.to_owned()),
            }
        }
        for (_, recording) in message.recordings() {
            match &recording.heard {
                Some(Heard::Words(words)) => self.texts.push(words.clone()),
                Some(Heard::Nothing(why)) => self.deaf = Some(why.clone()),
                None => self.deaf = Some(NOBODY_LISTENS.to_owned()),
            }
        }
        self.said.clear();
    }

    fn note_interruption(&mut self, message: &Message) {
        let cut = PartBody::Sentinel { reason: Sentinel::Interrupted };
        if message.parts.iter().any(|part| part.body == cut) {
            self.said.push_str(&visible_text(&message.parts));
        }
    }

    fn note_results(&mut self, message: &Message, calls: &BTreeMap<&str, &ToolCall>) {
        for part in &message.parts {
            let PartBody::ToolResult(result) = &part.body else { continue };
            let Some(call) = calls.get(result.call_id.as_str()) else { continue };
            self.done.push(Done {
                tool: call.name.clone(),
                arguments: serde_json::from_str(&call.arguments).unwrap_or(Value::Null),
                output: result.output.clone(),
            });
        }
    }
}

const HEADER: &str = "Time: ";
const NOBODY_LISTENS: &str =
    "nothing here turns speech into text; `[transcription]` of the configuration names what does";

/// Whether somebody said it; a note of the installation has no header.
fn is_said(message: &Message) -> bool {
    let somebodys = |part: &Part| {
        matches!(part.body, PartBody::Text { .. }) && part.provenance != Provenance::System
    };
    message.role == MessageRole::User
        && (message.text().starts_with(HEADER) || message.parts.iter().any(somebodys))
}

/// The source and the words of a message; text without a header is all words.
pub(crate) fn taken_apart(rendered: &str) -> (&str, &str) {
    let header = Some(rendered).filter(|text| text.starts_with(HEADER));
    let Some((header, text)) = header.and_then(|text| text.split_once("\nText: ")) else {
        return ("", rendered);
    };
    let source = header.lines().find_map(|line| line.strip_prefix("Source: "));
    (source.unwrap_or_default(), text)
}

/// The last file that stands in the header of a message.
fn file_of(rendered: &str) -> Option<File> {
    let (header, _) =
        Some(rendered.split_once("\nText: ")?).filter(|_| rendered.starts_with(HEADER))?;
    header.lines().rev().find_map(|line| {
        let (shown, id) = line.strip_prefix("Attached file: ")?.rsplit_once("), id ")?;
        let (name, _kind) = shown.rsplit_once(" (")?;
        Some(File { id: id.to_owned(), name: name.to_owned() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_taken_apart() {
        let rendered = "Time: Sat 2026-11-21 11:00:00 +01:00\nSource: http\nSender: owner\nAttached file: a.png (image/png, 3 bytes), id 1\nText: two\nlines";
        assert_eq!(taken_apart(rendered), ("http", "two\nlines"));
        assert_eq!(taken_apart("plain"), ("", "plain"));
        let file = File { id: "1".to_owned(), name: "a.png".to_owned() };
        assert_eq!(file_of(rendered), Some(file));
        assert_eq!(file_of("Attached file: a (b, 3 bytes), id 1\nText: a"), None);
    }
}
