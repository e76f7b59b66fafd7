//! The conversation as the wire wants it.
//!
//! Providers refuse histories in which an assistant message is empty, two follow each other, the
//! last word is the assistant's, or a call has no result. A stored conversation may hold all of
//! that (a turn failed, was stopped, was cut off); here it gets the notes and the order in which
//! it is accepted. Pure: files are named, not read.
//!
//! Invariant: the entries of a message depend on it and on what stands before it only, so that a
//! history that grows keeps its beginning.

use super::assistant::{Assistant, acceptable};
use super::calls::WholeCall;
use super::notes;
use crate::config::ToolDialect;
use famulus_core::message::{
    FilePart, Heard, Message, MessageRole, Part, PartBody, Provenance, ToolCall, ToolResult,
};
use serde_json::{Map, Value, value::RawValue};
use std::fmt::Write as _;
use std::sync::Arc;

/// One message of a request.
#[derive(Clone, Debug)]
pub(crate) enum Entry {
    System(String),
    User(Vec<Piece>),
    /// Encoded: either as stored, or as written from its parts.
    Assistant(Box<RawValue>),
    Tool {
        id: String,
        content: String,
    },
}

/// A piece of a user message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Image(FilePart),
    Audio(FilePart, AudioFormat),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AudioFormat {
    Wav,
    Mp3,
}

impl AudioFormat {
    /// The format in which a model is sent recordings of this media type.
    pub(crate) fn of(mime: &str) -> Option<Self> {
        match mime {
            "audio/wav" | "audio/x-wav" | "audio/wave" | "audio/vnd.wave" => Some(Self::Wav),
            "audio/mpeg" | "audio/mp3" => Some(Self::Mp3),
            _ => None,
        }
    }
}

/// What the provider can take.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) dialect: ToolDialect,
    pub(crate) images: bool,
    pub(crate) audio: bool,
    /// The names under which blocks are stored that may be sent again as they are.
    pub(crate) labels: [String; 2],
}

pub(crate) fn entries(messages: &[Arc<Message>], shape: &Shape) -> Vec<Entry> {
    let mut history =
        History { shape, out: Vec::new(), waiting: Vec::new(), unanswered: Vec::new() };
    for message in messages {
        match message.role {
            MessageRole::User => history.user(message),
            MessageRole::Assistant => history.assistant(message),
            MessageRole::Tool => history.results(message),
        }
    }
    history.end()
}

struct History<'a> {
    shape: &'a Shape,
    out: Vec<Entry>,
    /// What is to be said in the next user message: it may not part calls from their results.
    waiting: Vec<Piece>,
    /// Calls whose results have not come.
    unanswered: Vec<String>,
}

/// A run of parts of an assistant message.
enum Run<'a> {
    Content(Content<'a>),
    Note(String),
}

#[derive(Default)]
struct Content<'a> {
    text: String,
    calls: Vec<&'a ToolCall>,
}

impl Content<'_> {
    fn is_empty(&self) -> bool {
        self.text.trim().is_empty() && self.calls.is_empty()
    }
}

impl History<'_> {
    fn user(&mut self, message: &Message) {
        self.flush();
        let text = message.text();
        let pieces: Vec<Piece> =
            message.parts.iter().filter_map(|part| self.piece(part, &text)).collect();
        if !pieces.is_empty() {
            self.out.push(Entry::User(pieces));
        }
    }

    fn piece(&self, part: &Part, text: &str) -> Option<Piece> {
        match &part.body {
            PartBody::Text { text } => (!text.is_empty()).then(|| Piece::Text(text.clone())),
            PartBody::Image(file) => Some(self.image(file)),
            PartBody::Audio(file) => Some(self.audio(file)),
            // The header of a message already names its files.
            PartBody::File(file) => {
                (!text.contains(&file.blob.id.to_string())).then(|| Piece::Text(notes::file(file)))
            }
            PartBody::Sentinel { reason } => Some(Piece::Text(notes::sentinel(*reason).to_owned())),
            PartBody::Reasoning { .. } | PartBody::ToolCall(_) | PartBody::ToolResult(_) => None,
        }
    }

    fn image(&self, file: &FilePart) -> Piece {
        let shown = matches!(
            file.blob.mime.as_str(),
            "image/png" | "image/jpeg" | "image/gif" | "image/webp"
        );
        if self.shape.images && shown {
            Piece::Image(file.clone())
        } else if shown {
            Piece::Text(notes::file_left_out(file, "this model sees no images"))
        } else {
            Piece::Text(notes::file_left_out(file, "its format is not one that models see"))
        }
    }

    /// What was written down of a recording stays what is read of it, whatever model comes later.
    fn audio(&self, file: &FilePart) -> Piece {
        match (&file.heard, AudioFormat::of(&file.blob.mime)) {
            (Some(Heard::Words(words)), _) => Piece::Text(notes::heard(file, words)),
            (Some(Heard::Nothing(why)), _) => Piece::Text(notes::not_heard(file, why)),
            (None, Some(format)) if self.shape.audio => Piece::Audio(file.clone(), format),
            (None, Some(_)) => Piece::Text(notes::not_heard(file, "this model hears no audio")),
            (None, None) => {
                Piece::Text(notes::not_heard(file, "its format is not one that models hear"))
            }
        }
    }

    fn assistant(&mut self, message: &Message) {
        let mut runs = runs(message);
        let last =
            runs.iter().rposition(|run| matches!(run, Run::Content(said) if !said.is_empty()));
        let stored = self.stored(message);
        for (position, run) in runs.drain(..).enumerate() {
            match run {
                Run::Note(note) => self.waiting.push(Piece::Text(note)),
                Run::Content(said) if said.is_empty() => {}
                Run::Content(said) => {
                    // The blocks are the last answer; what was cut off before it has none.
                    let raw = match &stored {
                        Some(raw) if last == Some(position) => Some(raw.clone()),
                        Some(_) | None => self.written(&said),
                    };
                    if let Some(raw) = raw {
                        self.say(raw, &said);
                    }
                }
            }
        }
    }

    /// The message as it was sent before, if it was this adapter that kept it.
    fn stored(&self, message: &Message) -> Option<Box<RawValue>> {
        let blocks = message.blocks.as_ref().filter(|b| self.shape.labels.contains(&b.provider))?;
        let text = String::from_utf8(blocks.bytes.clone()).ok();
        let raw = text.and_then(|text| RawValue::from_string(text).ok());
        if raw.is_none() {
            tracing::warn!(message.id = %message.id, "stored provider blocks are no JSON: the message is written anew from its parts");
        }
        raw
    }

    fn written(&self, said: &Content<'_>) -> Option<Box<RawValue>> {
        let mut content = said.text.clone();
        let mut calls = Vec::new();
        if self.shape.dialect == ToolDialect::Xml {
            for call in &said.calls {
                if !content.is_empty() {
                    content.push('\n');
                }
                content.push_str(&in_text(call));
            }
        } else {
            calls.extend(said.calls.iter().map(|call| WholeCall {
                id: call.id.clone(),
                name: call.name.clone(),
                arguments: call.arguments.clone(),
                extra: Map::new(),
            }));
        }
        let message = Assistant {
            content: (!content.trim().is_empty()).then_some(content.as_str()),
            tool_calls: &calls,
            ..Assistant::default()
        };
        serde_json::value::to_raw_value(&message).ok()
    }

    fn say(&mut self, raw: Box<RawValue>, said: &Content<'_>) {
        self.flush();
        let note = match self.out.last() {
            None => Some(notes::EARLIER),
            Some(Entry::Assistant(_)) => Some(notes::GO_ON),
            Some(Entry::System(_) | Entry::User(_) | Entry::Tool { .. }) => None,
        };
        if let Some(note) = note {
            self.out.push(Entry::User(vec![Piece::Text(note.to_owned())]));
        }
        self.out.push(Entry::Assistant(raw));
        self.unanswered = said.calls.iter().map(|call| call.id.clone()).collect();
    }

    fn results(&mut self, message: &Message) {
        for part in &message.parts {
            match &part.body {
                PartBody::ToolResult(result) => self.result(result),
                PartBody::Text { .. }
                | PartBody::Reasoning { .. }
                | PartBody::ToolCall(_)
                | PartBody::Image(_)
                | PartBody::Audio(_)
                | PartBody::File(_)
                | PartBody::Sentinel { .. } => {
                    // What a tool brought along is shown behind all results.
                    self.waiting.extend(self.piece(part, ""));
                }
            }
        }
    }

    fn result(&mut self, result: &ToolResult) {
        let content = notes::output(&result.output);
        let Some(position) = self.unanswered.iter().position(|id| *id == result.call_id) else {
            let text = format!("the result of an earlier call of {}: {content}", result.name);
            self.waiting.push(Piece::Text(notes::system(&text)));
            return;
        };
        let id = self.unanswered.remove(position);
        self.answer(id, &result.name, content);
    }

    fn answer(&mut self, id: String, name: &str, content: String) {
        if self.shape.dialect != ToolDialect::Xml {
            self.out.push(Entry::Tool { id, content });
            return;
        }
        let text = format!("<tool_response name=\"{name}\">\n{content}\n</tool_response>");
        match self.out.last_mut() {
            Some(Entry::User(pieces)) => pieces.push(Piece::Text(text)),
            Some(Entry::System(_) | Entry::Assistant(_) | Entry::Tool { .. }) | None => {
                self.out.push(Entry::User(vec![Piece::Text(text)]));
            }
        }
    }

    /// Ends a run of results: whatever may not stand among them comes now.
    fn flush(&mut self) {
        for id in std::mem::take(&mut self.unanswered) {
            self.answer(id, "unknown", notes::NO_RESULT.to_owned());
        }
        if !self.waiting.is_empty() {
            self.out.push(Entry::User(std::mem::take(&mut self.waiting)));
        }
    }

    fn end(mut self) -> Vec<Entry> {
        self.flush();
        if matches!(self.out.last(), Some(Entry::Assistant(_))) {
            self.out.push(Entry::User(vec![Piece::Text(notes::GO_ON.to_owned())]));
        }
        self.out
    }
}

/// Splits an assistant message at whatever is not the model's own.
fn runs(message: &Message) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut said = Content::default();
    for part in &message.parts {
        let note = match &part.body {
            PartBody::Text { text } if part.provenance == Provenance::Assistant => {
                said.text.push_str(text);
                continue;
            }
            PartBody::ToolCall(call) => {
                said.calls.push(call);
                continue;
            }
            PartBody::Reasoning { .. } | PartBody::ToolResult(_) => continue,
            PartBody::Text { text } => notes::system(text),
            PartBody::Sentinel { reason } => notes::sentinel(*reason).to_owned(),
            PartBody::Image(file) | PartBody::Audio(file) | PartBody::File(file) => {
                notes::file(file)
            }
        };
        runs.push(Run::Content(std::mem::take(&mut said)));
        runs.push(Run::Note(note));
    }
    runs.push(Run::Content(said));
    runs
}

fn in_text(call: &ToolCall) -> String {
    let name = Value::String(call.name.clone());
    let mut text = String::new();
    // Writing to a String cannot fail.
    let _infallible = write!(
        text,
        "<tool_call>\n{{\"name\": {name}, \"arguments\": {}}}\n</tool_call>",
        acceptable(&call.arguments)
    );
    text
}
