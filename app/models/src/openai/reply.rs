//! The reply, put together from the chunks of its stream.
//!
//! Invariant: the text deltas that went out, joined, are the text part of the reply.

use super::assistant::Assistant;
use super::calls::{Calls, WholeCall, make_ids_unique};
use super::chunk::{Chunk, Reasoning, ReasoningField};
use super::inline::{Extractor, Inline};
use crate::failure;
use famulus_core::message::{Part, PartBody, Provenance, ProviderBlocks, ToolCall};
use famulus_core::model::{ModelError, ModelEvent, ModelReply, Usage};
use serde_json::{Map, Value};
use std::collections::VecDeque;

/// Bytes of text, reasoning and arguments after which an answer counts as endless: about a
/// million tokens, more than any model writes.
const LONGEST: usize = 4 << 20;

/// How a reply is read and kept; the same over all its chunks.
pub(crate) struct ReplyFormat {
    /// The name under which blocks that any server understands are kept.
    pub(crate) label: &'static str,
    /// The name under which blocks with fields of this vendor are kept.
    pub(crate) vendor_label: String,
    /// Calls stay in the text when the reply is sent again.
    pub(crate) calls_in_text: bool,
}

pub(crate) struct Assembler {
    keeping: ReplyFormat,
    model: String,
    extractor: Option<Extractor>,
    /// What the model wrote, inline calls included.
    written: String,
    /// What may be shown of it.
    text: String,
    reasoning: String,
    reasoning_field: Option<ReasoningField>,
    reasoning_details: Vec<Value>,
    calls: Calls,
    inline: Vec<WholeCall>,
    usage: Usage,
    finish: Option<String>,
    size: usize,
}

impl Assembler {
    /// `model` is what was asked for, until the server names what answers.
    pub(crate) fn new(model: String, keeping: ReplyFormat, extractor: Option<Extractor>) -> Self {
        Self {
            keeping,
            model,
            extractor,
            written: String::new(),
            text: String::new(),
            reasoning: String::new(),
            reasoning_field: None,
            reasoning_details: Vec::new(),
            calls: Calls::default(),
            inline: Vec::new(),
            usage: Usage::default(),
            finish: None,
            size: 0,
        }
    }

    /// Whether the server has said that the answer is whole; only usage may follow.
    pub(crate) fn is_finished(&self) -> bool {
        self.finish.is_some()
    }

    pub(crate) fn absorb(
        &mut self,
        chunk: Chunk,
        events: &mut VecDeque<ModelEvent>,
    ) -> Result<(), ModelError> {
        if let Some(error) = chunk.error {
            return Err(failure::of_error_object(&error));
        }
        self.grow(&chunk)?;
        if let Some(model) = chunk.model {
            self.model = model;
        }
        // Some servers count along; the last word is the total.
        if let Some(usage) = chunk.usage {
            self.usage = usage;
        }
        if let Some(Reasoning { field, text }) = chunk.reasoning {
            self.reasoning_field.get_or_insert(field);
            self.reasoning.push_str(&text);
            events.push_back(ModelEvent::Reasoning(text));
        }
        self.reasoning_details.extend(chunk.reasoning_details);
        if !chunk.text.is_empty() {
            self.written.push_str(&chunk.text);
            let items = match &mut self.extractor {
                Some(extractor) => extractor.push(&chunk.text),
                None => vec![Inline::Text(chunk.text)],
            };
            self.show(items, events);
        }
        let mut begun = Vec::new();
        for delta in chunk.calls {
            self.calls.add(delta, &mut begun).map_err(|_| ModelError::Malformed {
                what: "more tool calls in one answer than can be meant".to_owned(),
            })?;
        }
        events.extend(begun.into_iter().map(|name| ModelEvent::Calling { name }));
        if chunk.finish.is_some() {
            self.finish = chunk.finish;
        }
        Ok(())
    }

    fn grow(&mut self, chunk: &Chunk) -> Result<(), ModelError> {
        self.size += chunk.text.len()
            + chunk.reasoning.as_ref().map_or(0, |reasoning| reasoning.text.len())
            + chunk.calls.iter().map(|c| c.name.len() + c.arguments.len()).sum::<usize>();
        // An opaque block has no length of its own; its encoding is what is kept.
        self.size += chunk.reasoning_details.iter().map(|v| v.to_string().len()).sum::<usize>();
        if self.size > LONGEST {
            return Err(ModelError::Rejected {
                status: 200,
                message: format!(
                    "its answer went on beyond {LONGEST} bytes and was broken off; ask for less, or limit the answer's length at the provider"
                ),
            });
        }
        Ok(())
    }

    fn show(&mut self, items: Vec<Inline>, events: &mut VecDeque<ModelEvent>) {
        for item in items {
            match item {
                Inline::Text(text) => {
                    self.text.push_str(&text);
                    events.push_back(ModelEvent::Text(text));
                }
                Inline::Call(call) => {
                    events.push_back(ModelEvent::Calling { name: call.name.clone() });
                    self.inline.push(WholeCall {
                        id: String::new(),
                        name: call.name,
                        arguments: call.arguments,
                        extra: Map::new(),
                    });
                }
            }
        }
    }

    /// The stream is over: emits what was held back, and the whole reply.
    pub(crate) fn done(mut self, events: &mut VecDeque<ModelEvent>) -> Result<(), ModelError> {
        if let Some(mut extractor) = self.extractor.take() {
            let items = extractor.finish();
            self.show(items, events);
        }
        let mut begun = Vec::new();
        self.calls.announce_all(&mut begun);
        events.extend(begun.into_iter().map(|name| ModelEvent::Calling { name }));

        let mut calls = std::mem::take(&mut self.calls).whole();
        let native = !calls.is_empty();
        // A server may give the same call in both ways; it is meant once.
        let inline = std::mem::take(&mut self.inline);
        let twice = |call: &WholeCall| {
            calls.iter().any(|c| c.name == call.name && same_json(&c.arguments, &call.arguments))
        };
        let inline: Vec<WholeCall> = inline.into_iter().filter(|call| !twice(call)).collect();
        calls.extend(inline);
        make_ids_unique(&mut calls);

        let withheld = self.finish.as_deref() == Some("content_filter");
        if withheld && self.text.trim().is_empty() && calls.is_empty() {
            return Err(ModelError::Rejected {
                status: 200,
                message: "its content filter withheld the answer; put the question differently"
                    .to_owned(),
            });
        }
        // What came beside the text cannot be replayed as text; it is written anew from its parts.
        let replayable = !(self.keeping.calls_in_text && native);
        let blocks = if replayable { self.blocks(&calls) } else { None };
        let reply = ModelReply {
            blocks,
            parts: parts(self.reasoning, self.text, calls),
            model: self.model,
            usage: self.usage,
        };
        events.push_back(ModelEvent::Done(Box::new(reply)));
        Ok(())
    }

    /// The assistant message as it will be sent again.
    fn blocks(&self, calls: &[WholeCall]) -> Option<ProviderBlocks> {
        let content = if self.keeping.calls_in_text { &self.written } else { &self.text };
        if content.trim().is_empty() && calls.is_empty() {
            return None;
        }
        let reasoning =
            |field| (self.reasoning_field == Some(field)).then_some(self.reasoning.as_str());
        let message = Assistant {
            content: (!content.is_empty()).then_some(content),
            reasoning_content: reasoning(ReasoningField::ReasoningContent),
            reasoning: reasoning(ReasoningField::Reasoning),
            reasoning_details: &self.reasoning_details,
            tool_calls: if self.keeping.calls_in_text { &[] } else { calls },
        };
        let label = if message.is_of_vendor() {
            self.keeping.vendor_label.clone()
        } else {
            self.keeping.label.to_owned()
        };
        Some(ProviderBlocks { provider: label, bytes: message.to_bytes() })
    }
}

fn same_json(a: &str, b: &str) -> bool {
    let read = |text| serde_json::from_str::<Value>(text).ok();
    a == b || matches!((read(a), read(b)), (Some(a), Some(b)) if a == b)
}

fn parts(reasoning: String, text: String, calls: Vec<WholeCall>) -> Vec<Part> {
    let mut parts = Vec::new();
    if !reasoning.is_empty() {
        parts.push(Part::new(PartBody::Reasoning { text: reasoning }, Provenance::Assistant));
    }
    if !text.is_empty() {
        parts.push(Part::assistant_text(text));
    }
    parts.extend(calls.into_iter().map(|call| {
        Part::call(ToolCall { id: call.id, name: call.name, arguments: call.arguments })
    }));
    parts
}
