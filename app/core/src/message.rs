//! Messages: ordered parts, each with its provenance, and the provider's own blocks beside them.

use crate::blob::BlobRef;
use crate::ids::{MessageId, PersonId, TurnId};
use crate::tool::ToolOutput;
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MessageRole {
    /// A person, or the installation speaking in a person's place.
    User,
    /// The model.
    Assistant,
    /// Results of the calls that the message before asked for.
    Tool,
}

impl MessageRole {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// Who wrote a piece of content. Policy reads it; the model cannot set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provenance {
    Owner,
    Member,
    Contact,
    /// The model.
    Assistant,
    /// The output of a tool: data, never an instruction.
    Tool,
    /// The installation itself.
    System,
}

/// One part of a message, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    #[serde(flatten)]
    pub body: PartBody,
    pub provenance: Provenance,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum PartBody {
    Text {
        text: String,
    },
    /// The model's reasoning, shown apart and never sent to a channel.
    Reasoning {
        text: String,
    },
    ToolCall(ToolCall),
    ToolResult(ToolResult),
    Image(FilePart),
    Audio(FilePart),
    File(FilePart),
    /// A mark that the turn loop set; never shown to the model as its own words.
    Sentinel {
        reason: Sentinel,
    },
}

/// A reference to stored bytes; the bytes themselves never stand in a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilePart {
    pub blob: BlobRef,
    pub name: String,
    /// What came of listening to a recording, where no model that hears was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard: Option<Heard>,
}

/// What a transcription made of a recording. It is listened to once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Heard {
    /// These words, as far as they were understood.
    Words(String),
    /// Nothing, and why.
    Nothing(String),
}

/// A call that the model asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// The provider's id of the call, unique within its message.
    pub id: String,
    pub name: String,
    /// The arguments exactly as the model wrote them; may be malformed JSON.
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    pub call_id: String,
    pub name: String,
    pub output: ToolOutput,
}

/// Why the turn loop interfered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sentinel {
    /// The agent's step cap was reached.
    StepCap,
    /// The budget of tool calls of a class of effect was used up.
    ToolBudget,
    /// The same calls came again and again.
    DoomLoop,
    /// The owner ended the turn.
    Cancelled,
    /// The text before this mark was cut short and asked for again.
    Interrupted,
    /// The turn failed.
    Failed,
}

impl Sentinel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::StepCap => "step_cap",
            Self::ToolBudget => "tool_budget",
            Self::DoomLoop => "doom_loop",
            Self::Cancelled => "cancelled",
            Self::Interrupted => "interrupted",
            Self::Failed => "failed",
        }
    }
}

/// What the provider sent, kept as bytes so that history replays exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderBlocks {
    /// The adapter that wrote them and alone may read them.
    pub provider: String,
    pub bytes: Vec<u8>,
}

/// A stored message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub id: MessageId,
    /// Order within the conversation, taken under the conversation's row.
    pub seq: i64,
    pub role: MessageRole,
    /// Who wrote it; `None` for the model and tools.
    pub person: Option<PersonId>,
    pub turn: Option<TurnId>,
    pub parts: Vec<Part>,
    pub blocks: Option<ProviderBlocks>,
    pub created_at: Timestamp,
}

impl Message {
    /// The visible text: text parts joined, reasoning and marks left out.
    pub fn text(&self) -> String {
        visible_text(&self.parts)
    }

    /// Each with the number of its part.
    pub fn recordings(&self) -> impl Iterator<Item = (usize, &FilePart)> {
        self.parts.iter().enumerate().filter_map(|(number, part)| match &part.body {
            PartBody::Audio(file) => Some((number, file)),
            PartBody::Text { .. }
            | PartBody::Reasoning { .. }
            | PartBody::ToolCall(_)
            | PartBody::ToolResult(_)
            | PartBody::Image(_)
            | PartBody::File(_)
            | PartBody::Sentinel { .. } => None,
        })
    }

    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts.iter().filter_map(|part| match &part.body {
            PartBody::ToolCall(call) => Some(call),
            PartBody::Text { .. }
            | PartBody::Reasoning { .. }
            | PartBody::ToolResult(_)
            | PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::File(_)
            | PartBody::Sentinel { .. } => None,
        })
    }
}

impl FilePart {
    /// A file that nobody has listened to.
    pub fn new(blob: BlobRef, name: impl Into<String>) -> Self {
        Self { blob, name: name.into(), heard: None }
    }
}

impl Part {
    pub fn new(body: PartBody, provenance: Provenance) -> Self {
        Self { body, provenance }
    }

    /// Text that the model wrote.
    pub fn assistant_text(text: impl Into<String>) -> Self {
        Self::new(PartBody::Text { text: text.into() }, Provenance::Assistant)
    }

    pub fn system_text(text: impl Into<String>) -> Self {
        Self::new(PartBody::Text { text: text.into() }, Provenance::System)
    }

    pub fn sentinel(reason: Sentinel) -> Self {
        Self::new(PartBody::Sentinel { reason }, Provenance::System)
    }

    pub fn call(call: ToolCall) -> Self {
        Self::new(PartBody::ToolCall(call), Provenance::Assistant)
    }

    pub fn result(result: ToolResult) -> Self {
        Self::new(PartBody::ToolResult(result), Provenance::Tool)
    }
}

/// The text parts of a message, joined as they stand.
pub fn visible_text(parts: &[Part]) -> String {
    let mut text = String::new();
    for part in parts {
        if let PartBody::Text { text: piece } = &part.body {
            text.push_str(piece);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_keeps_its_stored_shape() {
        let stored = r#"[{"type":"audio","name":"voice.ogg","blob":{"id":"00000000-0000-0000-0000-000000000001",
             "sha256":"ab","mime":"audio/ogg","size":3},"provenance":"owner"},
            {"type":"audio","name":"voice.ogg","blob":{"id":"00000000-0000-0000-0000-000000000001",
             "sha256":"ab","mime":"audio/ogg","size":3},"heard":{"words":"hello"},"provenance":"owner"}]"#;
        let parts: Vec<Part> = serde_json::from_str(stored).unwrap();
        let heard = |part: &Part| {
            let PartBody::Audio(file) = &part.body else { panic!("{part:?}") };
            file.heard.clone()
        };
        assert_eq!(heard(&parts[0]), None);
        assert_eq!(heard(&parts[1]), Some(Heard::Words("hello".into())));
        assert_eq!(visible_text(&parts), "");
        let again = serde_json::to_value(&parts).unwrap();
        assert_eq!(again, serde_json::from_str::<serde_json::Value>(stored).unwrap());
    }

    #[test]
    fn a_part_keeps_its_stored_shape() {
        // Stored by an earlier release: must parse for ever.
        let stored = r#"[{"type":"text","text":"a\u0000b","provenance":"owner"},
            {"type":"tool_call","id":"c1","name":"get_time","arguments":"{","provenance":"assistant"},
            {"type":"tool_result","call_id":"c1","name":"get_time",
             "output":{"kind":"error","text":"no"},"provenance":"tool"},
            {"type":"sentinel","reason":"doom_loop","provenance":"system"}]"#;
        let parts: Vec<Part> = serde_json::from_str(stored).unwrap();
        assert_eq!(visible_text(&parts), "a\0b");
        let again: Vec<Part> =
            serde_json::from_slice(&serde_json::to_vec(&parts).unwrap()).unwrap();
        assert_eq!(again, parts);
    }
}
