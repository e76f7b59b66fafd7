//! The wire, from the provider's side: requests are read strictly, answers written plainly.
//!
//! Refused with 400, as strict providers do: no stream or no wish for usage, a system message
//! behind others, an empty assistant message, two assistant messages in a row, an assistant
//! message at the end, a call without its result or a result without its call, an empty list of
//! tools.

use crate::demo::{self, Answer, Question};
use crate::openai::notes;
use axum::body::Bytes;
use famulus_core::ids::MessageId;
use famulus_core::message::{
    Message, MessageRole, Part, PartBody, Provenance, Sentinel, ToolCall, ToolResult,
};
use famulus_core::tool::ToolSpec;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// Bytes of the pieces in which arguments are sent.
const PIECE: usize = 12;

#[derive(Default)]
pub(crate) struct Request {
    model: String,
    system: String,
    messages: Vec<Arc<Message>>,
    tools: Vec<ToolSpec>,
    /// Words of the request: what the demo model counts as tokens.
    words: usize,
}

impl Request {
    pub(crate) fn answer(&self) -> Answer {
        demo::answer(Question {
            system: &self.system,
            messages: &self.messages,
            tools: &self.tools,
        })
    }
}

/// Reads a request, or says why it is refused.
pub(crate) fn read(body: &[u8]) -> Result<Request, String> {
    let value: Value = serde_json::from_slice(body).map_err(|e| format!("not JSON: {e}"))?;
    if value["stream"] != true || value["stream_options"]["include_usage"] != true {
        return Err("only streams that ask for usage are served here".to_owned());
    }
    let model = value["model"].as_str().ok_or("`model` is missing")?.to_owned();
    let tools = read_tools(&value["tools"])?;
    let mut reader = Reader::default();
    for message in value["messages"].as_array().ok_or("`messages` is missing")? {
        reader.message(message)?;
    }
    reader.end()?;
    reader.tell_notes();
    Ok(Request {
        model,
        system: reader.system.join("\n\n"),
        messages: reader.messages.into_iter().map(Arc::new).collect(),
        tools,
        words: String::from_utf8_lossy(body).split_whitespace().count(),
    })
}

fn read_tools(tools: &Value) -> Result<Vec<ToolSpec>, String> {
    match tools {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) if !list.is_empty() => list
            .iter()
            .map(|tool| {
                let function = &tool["function"];
                let text = |name: &str| function[name].as_str().unwrap_or_default().to_owned();
                if tool["type"] != "function" || text("name").is_empty() {
                    return Err("a tool is no function or has no name".to_owned());
                }
                let schema = function["parameters"].clone();
                Ok(ToolSpec { name: text("name"), description: text("description"), schema })
            })
            .collect(),
        Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_) => Err("`tools` must be a list with at least one tool".to_owned()),
    }
}

#[derive(Default)]
struct Reader {
    system: Vec<String>,
    messages: Vec<Message>,
    unanswered: Vec<ToolCall>,
}

impl Reader {
    fn message(&mut self, message: &Value) -> Result<(), String> {
        let role = message["role"].as_str().unwrap_or_default();
        if role != "tool" && !self.unanswered.is_empty() {
            return Err("a tool call has no result".to_owned());
        }
        match role {
            "system" if !self.messages.is_empty() => {
                Err("a system message must stand at the beginning".to_owned())
            }
            "system" => {
                self.system.push(content(message)?);
                Ok(())
            }
            "user" => {
                let text = content(message)?;
                self.user(text);
                Ok(())
            }
            "assistant" => self.assistant(message),
            "tool" => self.result(message),
            _ => Err(format!("the role `{role}` is not known")),
        }
    }

    fn user(&mut self, text: String) {
        let is_note = text.starts_with("[system: ");
        if text.starts_with(notes::INTERRUPTED)
            && let Some(cut) = self.messages.last_mut()
        {
            cut.parts.push(Part::sentinel(Sentinel::Interrupted));
        }
        let provenance = if is_note { Provenance::System } else { Provenance::Owner };
        self.push(MessageRole::User, vec![Part::new(PartBody::Text { text }, provenance)]);
    }

    fn assistant(&mut self, message: &Value) -> Result<(), String> {
        if self.messages.last().is_some_and(|last| last.role == MessageRole::Assistant) {
            return Err("two assistant messages in a row".to_owned());
        }
        let text = message["content"].as_str().unwrap_or_default();
        let mut parts = Vec::new();
        if !text.is_empty() {
            parts.push(Part::assistant_text(text));
        }
        for call in message["tool_calls"].as_array().into_iter().flatten() {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let call = ToolCall {
                id: text(&call["id"]),
                name: text(&call["function"]["name"]),
                arguments: text(&call["function"]["arguments"]),
            };
            if self.unanswered.iter().any(|other| other.id == call.id) {
                return Err("two tool calls have the same id".to_owned());
            }
            if !serde_json::from_str::<Value>(&call.arguments).is_ok_and(|value| value.is_object())
            {
                return Err("the arguments of a tool call are no JSON object".to_owned());
            }
            self.unanswered.push(call.clone());
            parts.push(Part::call(call));
        }
        if parts.is_empty() || (text.trim().is_empty() && self.unanswered.is_empty()) {
            return Err("an assistant message is empty".to_owned());
        }
        self.push(MessageRole::Assistant, parts);
        Ok(())
    }

    fn result(&mut self, message: &Value) -> Result<(), String> {
        let id = message["tool_call_id"].as_str().unwrap_or_default();
        let position = self.unanswered.iter().position(|call| call.id == id);
        let position = position.ok_or("a tool message answers no call before it")?;
        let call = self.unanswered.remove(position);
        let output = notes::read_output(&content(message)?);
        let result = ToolResult { call_id: call.id, name: call.name, output };
        self.push(MessageRole::Tool, vec![Part::result(result)]);
        Ok(())
    }

    fn push(&mut self, role: MessageRole, parts: Vec<Part>) {
        let seq = i64::try_from(self.messages.len()).unwrap_or(i64::MAX);
        self.messages.push(Message {
            id: MessageId::new(),
            seq,
            role,
            person: None,
            turn: None,
            parts,
            blocks: None,
            created_at: Timestamp::UNIX_EPOCH,
        });
    }

    /// The wire says nothing of who wrote what: where messages have headers, one without is a note
    /// of the installation.
    fn tell_notes(&mut self) {
        let has_header = |message: &Message| message.text().starts_with("Time: ");
        if !self.messages.iter().any(has_header) {
            return;
        }
        for message in &mut self.messages {
            if message.role == MessageRole::User && !has_header(message) {
                for part in &mut message.parts {
                    part.provenance = Provenance::System;
                }
            }
        }
    }

    fn end(&self) -> Result<(), String> {
        match self.messages.last().map(|last| last.role) {
            None => Err("`messages` holds nothing to answer".to_owned()),
            Some(_) if !self.unanswered.is_empty() => Err("a tool call has no result".to_owned()),
            Some(MessageRole::Assistant) => Err("the last message is the assistant's".to_owned()),
            Some(MessageRole::User | MessageRole::Tool) => Ok(()),
        }
    }
}

/// The text of a message; parts that are no text must at least be whole.
fn content(message: &Value) -> Result<String, String> {
    let content = &message["content"];
    if let Some(text) = content.as_str() {
        return Ok(text.to_owned());
    }
    let mut texts = Vec::new();
    for part in content.as_array().ok_or("`content` is missing")? {
        let whole = match part["type"].as_str().unwrap_or_default() {
            "text" => {
                texts.extend(part["text"].as_str());
                part["text"].is_string()
            }
            "image_url" => {
                part["image_url"]["url"].as_str().is_some_and(|url| url.starts_with("data:image/"))
            }
            "input_audio" => part["input_audio"]["data"].is_string(),
            _ => false,
        };
        if !whole {
            return Err("a content part is not understood".to_owned());
        }
    }
    Ok(texts.join("\n"))
}

pub(crate) fn frame(value: &Value) -> Bytes {
    format!("data: {value}\n\n").into()
}

fn delta(request: &Request, delta: Value, finish: Option<&str>) -> Bytes {
    frame(&json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "model": request.model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }))
}

pub(crate) fn role_frame(request: &Request) -> Bytes {
    delta(request, json!({"role": "assistant", "content": ""}), None)
}

pub(crate) fn text_frame(request: &Request, text: &str) -> Bytes {
    delta(request, json!({"content": text}), None)
}

/// A whole answer as it streams.
pub(crate) fn frames(request: &Request, answer: &Answer) -> Vec<Bytes> {
    let mut frames = vec![role_frame(request)];
    let finish = match answer {
        Answer::Text(text) => {
            frames.extend(demo::deltas(text).map(|piece| text_frame(request, piece)));
            "stop"
        }
        Answer::Calls(calls) => {
            for (index, call) in calls.iter().enumerate() {
                frames.push(delta(
                    request,
                    json!({"tool_calls": [{"index": index, "id": call.id, "type": "function",
                        "function": {"name": call.name, "arguments": ""}}]}),
                    None,
                ));
                frames.extend(pieces(&call.arguments).into_iter().map(|piece| {
                    let function = json!({"arguments": piece});
                    let call = json!({"index": index, "function": function});
                    delta(request, json!({"tool_calls": [call]}), None)
                }));
            }
            "tool_calls"
        }
    };
    frames.push(delta(request, json!({}), Some(finish)));
    frames.push(usage_frame(request, answer));
    frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
    frames
}

/// The same with calls in the text.
pub(crate) fn xml_frames(request: &Request, answer: &Answer) -> Vec<Bytes> {
    let Answer::Calls(calls) = answer else { return frames(request, answer) };
    let mut text = "I will look. ".to_owned();
    for call in calls {
        // Writing to a String cannot fail.
        let _infallible = write!(
            text,
            "<tool_call>\n{{\"name\": \"{}\", \"arguments\": {}}}\n</tool_call>\n",
            call.name, call.arguments
        );
    }
    frames(request, &Answer::Text(text))
}

/// The whole answer as one object.
pub(crate) fn whole(request: &Request, answer: &Answer) -> Value {
    let message = match answer {
        Answer::Text(text) => json!({"role": "assistant", "content": text}),
        Answer::Calls(calls) => {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| {
                    json!({"id": call.id, "type": "function",
                        "function": {"name": call.name, "arguments": call.arguments}})
                })
                .collect();
            json!({"role": "assistant", "content": null, "tool_calls": calls})
        }
    };
    json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion",
        "model": request.model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage(request, answer),
    })
}

fn usage_frame(request: &Request, answer: &Answer) -> Bytes {
    frame(&json!({
        "id": "chatcmpl-scripted",
        "object": "chat.completion.chunk",
        "model": request.model,
        "choices": [],
        "usage": usage(request, answer),
    }))
}

fn usage(request: &Request, answer: &Answer) -> Value {
    let words = match answer {
        Answer::Text(text) => text.split_whitespace().count(),
        Answer::Calls(calls) => calls.len(),
    };
    json!({"prompt_tokens": request.words, "completion_tokens": words, "total_tokens": request.words + words})
}

pub(crate) fn is_usage(frame: &[u8]) -> bool {
    String::from_utf8_lossy(frame).contains("\"usage\"")
}

fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(PIECE).map(|piece| piece.iter().collect()).collect()
}
