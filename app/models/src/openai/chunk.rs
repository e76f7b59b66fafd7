//! One event of the stream, read tolerantly.
//!
//! Servers that imitate the protocol leave fields out, send null or an empty string for them, and
//! invent values. Whatever is not understood is passed over; only an event that is no JSON object
//! at all is an error of the caller.

use famulus_core::model::Usage;
use serde_json::{Map, Value};

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Chunk {
    pub(crate) model: Option<String>,
    pub(crate) text: String,
    pub(crate) reasoning: Option<Reasoning>,
    /// Opaque blocks of some vendors, to be sent again as they are.
    pub(crate) reasoning_details: Vec<Value>,
    pub(crate) calls: Vec<CallDelta>,
    /// Why the answer ended, in the server's words; never empty.
    pub(crate) finish: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// The server gave up in the middle.
    pub(crate) error: Option<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reasoning {
    /// The field that this server uses, so that it gets it back under the same name.
    pub(crate) field: ReasoningField,
    pub(crate) text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReasoningField {
    ReasoningContent,
    Reasoning,
    /// It came inside `content`, and has no field of its own.
    Content,
}

#[derive(Debug, Default, PartialEq)]
pub(crate) struct CallDelta {
    pub(crate) index: Option<u64>,
    pub(crate) id: Option<String>,
    pub(crate) name: String,
    pub(crate) arguments: String,
    /// Fields of the vendor (signatures), to be sent again as they are.
    pub(crate) extra: Map<String, Value>,
}

impl Chunk {
    pub(crate) fn read(mut value: Value) -> Self {
        let error = value.get_mut("error").map(Value::take).filter(|e| !e.is_null());
        let model = text_of(value.get("model")).map(ToOwned::to_owned);
        let usage = value.get("usage").and_then(read_usage);
        let Some(choice) = value.pointer_mut("/choices/0").map(Value::take) else {
            return Self { model, usage, error, ..Self::default() };
        };
        let finish = text_of(choice.get("finish_reason")).map(ToOwned::to_owned);
        let error = error.or_else(|| choice.get("error").filter(|e| !e.is_null()).cloned());
        // A server that does not stream answers with a whole `message` of the same shape.
        let delta = choice.get("delta").or_else(|| choice.get("message")).unwrap_or(&Value::Null);

        let mut text = String::new();
        let mut reasoning = [
            (ReasoningField::ReasoningContent, "reasoning_content"),
            (ReasoningField::Reasoning, "reasoning"),
        ]
        .into_iter()
        .find_map(|(field, name)| {
            text_of(delta.get(name)).map(|text| Reasoning { field, text: text.to_owned() })
        });
        read_content(delta.get("content"), &mut text, &mut reasoning);
        if let Some(refusal) = text_of(delta.get("refusal")) {
            text.push_str(refusal);
        }
        let list =
            |name: &str| delta.get(name).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        Self {
            model,
            text,
            reasoning,
            reasoning_details: list("reasoning_details").to_vec(),
            calls: list("tool_calls").iter().map(CallDelta::read).collect(),
            finish,
            usage,
            error,
        }
    }
}

impl CallDelta {
    fn read(value: &Value) -> Self {
        let function = value.get("function").unwrap_or(&Value::Null);
        let arguments = match function.get("arguments") {
            Some(Value::String(text)) => text.clone(),
            // Some servers send the object itself.
            Some(object @ Value::Object(_)) => object.to_string(),
            Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
                String::new()
            }
        };
        let known = |name: &str| matches!(name, "index" | "id" | "type" | "function");
        Self {
            index: value.get("index").and_then(Value::as_u64),
            id: text_of(value.get("id")).map(ToOwned::to_owned),
            name: text_of(function.get("name")).unwrap_or_default().to_owned(),
            arguments,
            extra: value.as_object().map_or_else(Map::new, |all| {
                all.iter()
                    .filter(|(name, value)| !known(name) && !value.is_null())
                    .map(|(name, value)| (name.clone(), value.clone()))
                    .collect()
            }),
        }
    }
}

/// Content is a string, or a list of parts, some of which hold reasoning.
fn read_content(content: Option<&Value>, text: &mut String, reasoning: &mut Option<Reasoning>) {
    if let Some(whole) = text_of(content) {
        text.push_str(whole);
        return;
    }
    for part in content.and_then(Value::as_array).into_iter().flatten() {
        match text_of(part.get("type")) {
            Some("thinking" | "reasoning") => {
                let thought = text_of(part.get("text"))
                    .or_else(|| text_of(part.get("thinking")))
                    .map(ToOwned::to_owned)
                    .or_else(|| part.get("thinking")?.as_array().map(|parts| joined(parts)))
                    .unwrap_or_default();
                match reasoning {
                    Some(reasoning) => reasoning.text.push_str(&thought),
                    None => {
                        *reasoning =
                            Some(Reasoning { field: ReasoningField::Content, text: thought });
                    }
                }
            }
            Some(_) | None => text.push_str(text_of(part.get("text")).unwrap_or_default()),
        }
    }
}

fn joined(parts: &[Value]) -> String {
    parts.iter().filter_map(|part| text_of(part.get("text"))).collect()
}

fn text_of(value: Option<&Value>) -> Option<&str> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty())
}

fn read_usage(value: &Value) -> Option<Usage> {
    let usage = Usage {
        input_tokens: value.get("prompt_tokens").and_then(Value::as_u64),
        output_tokens: value.get("completion_tokens").and_then(Value::as_u64),
    };
    (usage != Usage::default()).then_some(usage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn oddities_are_read() {
        let check = |value: Value, expected: Chunk| {
            assert_eq!(Chunk::read(value.clone()), expected, "{value}");
        };
        let text = |text: &str| Chunk { text: text.to_owned(), ..Chunk::default() };
        let thought = |field, text: &str| {
            let reasoning = Some(Reasoning { field, text: text.to_owned() });
            Chunk { reasoning, ..Chunk::default() }
        };
        check(json!({}), Chunk::default());
        check(json!({"choices": [], "usage": null}), Chunk::default());
        check(json!({"choices": null}), Chunk::default());
        check(json!({"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]}), text("a"));
        check(json!({"choices": [{"delta": {"content": null}}]}), text(""));
        check(json!({"choices": [{"message": {"content": "whole"}}]}), text("whole"));
        check(json!({"choices": [{"delta": {"refusal": "no"}}]}), text("no"));
        check(
            json!({"choices": [{"delta": {}, "finish_reason": "eos_token"}]}),
            Chunk { finish: Some("eos_token".into()), ..Chunk::default() },
        );
        check(
            json!({"choices": [{"delta": {"reasoning_content": "r", "reasoning": "r"}}]}),
            thought(ReasoningField::ReasoningContent, "r"),
        );
        check(
            json!({"choices": [{"delta": {"reasoning": "r"}}]}),
            thought(ReasoningField::Reasoning, "r"),
        );
        check(
            json!({"choices": [{"delta": {"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "r"}]},
                {"type": "text", "text": "a"}]}}]}),
            Chunk { text: "a".into(), ..thought(ReasoningField::Content, "r") },
        );
        check(
            json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": null}}),
            Chunk {
                usage: Some(Usage { input_tokens: Some(3), output_tokens: None }),
                ..Chunk::default()
            },
        );
        check(
            json!({"error": {"message": "no"}}),
            Chunk { error: Some(json!({"message": "no"})), ..Chunk::default() },
        );
        check(
            json!({"choices": [{"delta": {"tool_calls": [
                {"index": 0, "id": "", "type": "function", "function": {"name": null, "arguments": {"a": 1}},
                 "extra_content": {"s": "x"}},
                {"function": {"arguments": "{"}}]}}]}),
            Chunk {
                calls: vec![
                    CallDelta {
                        index: Some(0),
                        arguments: "{\"a\":1}".into(),
                        extra: json!({"extra_content": {"s": "x"}}).as_object().unwrap().clone(),
                        ..CallDelta::default()
                    },
                    CallDelta { arguments: "{".into(), ..CallDelta::default() },
                ],
                ..Chunk::default()
            },
        );
    }
}
