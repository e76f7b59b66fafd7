//! What the conversation asks of the demo model now: the words of the open turn, the time they
//! were said, and the calls that were already made for them.

use famulus_core::message::{Message, MessageRole, PartBody, Provenance, Sentinel, ToolCall};
use famulus_core::tool::ToolOutput;
use jiff::Zoned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The open question.
#[derive(Debug, Default)]
pub(crate) struct Ask {
    /// What was said, without headers, in order.
    pub(crate) texts: Vec<String>,
    /// When it was said, in the person's zone; absent without a header.
    pub(crate) at: Option<Zoned>,
    /// A schedule speaks, not a person.
    pub(crate) by_schedule: bool,
    /// A tool of a plugin speaks, which ended later.
    pub(crate) by_callback: bool,
    /// Names of files that came along.
    pub(crate) files: Vec<String>,
    pub(crate) done: Vec<Done>,
    /// What was already said of the answer before it was cut off.
    pub(crate) said: String,
}

/// A call that was made, and what came of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) output: ToolOutput,
}

/// The header of a message, taken apart.
struct Header {
    at: Option<Zoned>,
    source: String,
    text: String,
    files: Vec<String>,
}

impl Ask {
    pub(crate) fn read(messages: &[Arc<Message>]) -> Self {
        let mut ask = Self::default();
        let Some(last) = last_said(messages) else { return ask };
        let first = first_said(messages, last);
        let mut calls: BTreeMap<&str, &ToolCall> = BTreeMap::new();
        for message in messages.iter().skip(first) {
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
        let Header { at, source, text, files } = Header::read(&message.text());
        self.at = at.or_else(|| self.at.take());
        self.by_schedule = source == "schedule";
        self.by_callback = source == "callback";
        self.files.extend(files);
        if !is_go_on(&text) || self.texts.is_empty() {
            self.texts.push(text);
        }
        self.said.clear();
    }

    fn note_interruption(&mut self, message: &Message) {
        let mut text = String::new();
        for part in &message.parts {
            match &part.body {
                PartBody::Text { text: piece } if part.provenance == Provenance::Assistant => {
                    text.push_str(piece);
                }
                PartBody::Sentinel { reason: Sentinel::Interrupted } => {
                    self.said.push_str(&std::mem::take(&mut text));
                }
                PartBody::Text { .. }
                | PartBody::Reasoning { .. }
                | PartBody::ToolCall(_)
                | PartBody::ToolResult(_)
                | PartBody::Image(_)
                | PartBody::Audio(_)
                | PartBody::File(_)
                | PartBody::Sentinel { .. } => {}
            }
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

/// The last message that a person or a schedule wrote; notes of the installation are passed over
/// unless there is nothing else.
fn last_said(messages: &[Arc<Message>]) -> Option<usize> {
    let said = messages.iter().rposition(|message| is_said(message));
    said.or_else(|| messages.iter().rposition(|message| message.role == MessageRole::User))
}

/// Where the open question begins.
fn first_said(messages: &[Arc<Message>], last: usize) -> usize {
    let said = |at: usize| messages.get(at).filter(|message| is_said(message));
    let Some(message) = said(last) else { return last };
    if is_go_on(&Header::read(&message.text()).text) {
        // The question before it goes on, with the results that it already has.
        return (0..last).rev().find(|at| said(*at).is_some()).unwrap_or(last);
    }
    // A message that steers a running turn belongs to the question that it steers.
    let same_turn = |m: &Arc<Message>| m.turn.is_some() && m.turn == message.turn && is_said(m);
    messages.iter().position(same_turn).unwrap_or(last)
}

fn is_go_on(text: &str) -> bool {
    let text = text.trim().trim_end_matches(['.', '!']).to_lowercase();
    matches!(text.as_str(), "continue" | "go on")
}

fn is_said(message: &Message) -> bool {
    message.role == MessageRole::User
        && (message.text().starts_with(Header::FIRST)
            || message.parts.iter().any(|part| {
                matches!(&part.body, PartBody::Text { .. }) && part.provenance != Provenance::System
            }))
}

impl Header {
    const FIRST: &str = "Time: ";

    /// Takes the rendered text of a message apart; text without a header is all text.
    fn read(rendered: &str) -> Self {
        let whole =
            Self { at: None, source: String::new(), text: rendered.to_owned(), files: vec![] };
        let Some((time, rest)) =
            rendered.strip_prefix(Self::FIRST).and_then(|rest| rest.split_once('\n'))
        else {
            return whole;
        };
        let Some((lines, text)) = rest.split_once("\nText: ") else { return whole };
        let source = lines.lines().find_map(|line| line.strip_prefix("Source: "));
        let files = lines
            .lines()
            .filter_map(|line| line.strip_prefix("Attached file: "))
            .map(|file| file.rsplit_once(" (").map_or(file, |(name, _)| name).to_owned())
            .collect();
        Self {
            at: Zoned::strptime("%a %Y-%m-%d %H:%M:%S %:z", time).ok(),
            source: source.unwrap_or_default().to_owned(),
            text: text.to_owned(),
            files,
        }
    }
}

/// The words of the last message, without their header.
pub(crate) fn last_text(messages: &[Arc<Message>]) -> String {
    last_said(messages)
        .and_then(|position| messages.get(position))
        .map(|message| Header::read(&message.text()).text)
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_taken_apart() {
        let header = Header::read(
            "Time: Sat 2026-11-21 11:00:00 +01:00\nSource: http\nSender: owner\nAttached file: a (b).png (image/png, 3 bytes), id 1\nText: two\nlines",
        );
        assert_eq!(header.at.unwrap().to_string(), "2026-11-21T11:00:00+01:00[+01:00]");
        assert_eq!((header.source.as_str(), header.text.as_str()), ("http", "two\nlines"));
        assert_eq!(header.files, ["a (b).png"]);
        assert_eq!(Header::read("plain").text, "plain");
    }
}
